"""
The commands by name, and a line on each for the list of all.

Each is declared when it is asked for: neither a run nor the list of all waits for the options of the others.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click

BY_MODULE: dict[str, dict[str, str | None]] = {  # None: it is not listed
    "authoring": {
        "templates": "List the evaluators that come with evalcell.",
        "show": "Print the source of a template, or of a kept evaluator.",
        "new": "Write a first script, and worked examples for it.",
        "init": "Make a folder with an evaluator, rows, and a workflow for CI.",
        "config": "Show what evalcell.toml runs, after checking it.",
        "completion": "Print what a shell reads to complete evalcell's commands.",
    },
    "checks": {
        "check": "Show how a script would be run, and try it on three rows.",
        "test": "Try a script on worked examples.",
        "parity": "Compare the results of a script in several sandboxes.",
    },
    "comparison": {"compare": "Tell whether a new run is better than a base."},
    "export": {
        "export": "Write the file by which a script scores in another tool.",
        "lines": "Score rows as they come, a line of JSON each.",
    },
    "github": {"github": None},
    "mcp": {"mcp": "Serve tools for an agent by MCP, on standard input and output."},
    "report": {"report": "Write reports of finished runs."},
    "sandboxes": {
        "sandboxes": "List the sandboxes, and what each can do here.",
        "doctor": "Look at this machine for what would be wrong.",
        "cluster": "Show the nodes and workers of a Ray cluster.",
        "reap": "End the machines that runs left behind at providers.",
        "cache": "List or clear what is cached on this machine.",
    },
    "serve": {"serve": "Serve the page, and HTTP for programs, until Ctrl-C."},
    "store_commands": {
        "add": "Keep a script or a dataset in the store.",
        "evaluators": "List the evaluators of the store.",
        "datasets": "List the datasets of the store.",
        "runs": "List the runs of the store, the newest first.",
    },
}


_WIDTH = 64  # what is left beside the names in 80 columns


class Commands(UserDict[str, Any]):
    """What a group of click takes for a dictionary of its commands. One that was not asked for is its module's name."""

    def __init__(self) -> None:
        super().__init__({name: module for module, names in BY_MODULE.items() for name in names})

    def __getitem__(self, name: str) -> click.Command:
        found = self.data[name]
        if isinstance(found, str):
            self.data[name] = command = getattr(import_module(f"{__package__}.{found}"), name)
            command.short_help = BY_MODULE[found][name]
        declared: click.Command = self.data[name]
        return declared

    def listed(self) -> list[tuple[str, str]]:
        """Each name with its line, in the order of the alphabet."""
        lines = {name: line for names in BY_MODULE.values() for name, line in names.items() if line is not None}
        others = self.data.keys() - {name for names in BY_MODULE.values() for name in names}
        return sorted((lines | {name: self[name].get_short_help_str(_WIDTH) for name in others}).items())
