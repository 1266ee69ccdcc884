"""Hostile TypeScript: bodies of functions, scripts that attack while they load, scripts that leave a trace."""

from __future__ import annotations

from pathlib import Path

from tests.sandboxes.hostile import scripts

FOLDER = Path(__file__).with_name("hostile")
CATEGORIES = (
    "endless", "errors", "forge", "host", "kill", "memory", "output", "poison", "recursion", "results", "workers"
)  # fmt: skip

ATTACKS = scripts.scripts(FOLDER, CATEGORIES, bare=True)
LOADS = scripts.scripts(FOLDER, ("load",), bare=True)
TRACES = scripts.scripts(FOLDER, ("carry",), bare=True)
"""Each gives 0 as long as nothing came to it from an earlier call."""

SHELL = "\n".join((FOLDER / name).read_text("utf-8") for name in ("tools.txt", "shell.txt"))
"""Attacked, it runs what it is given as the body of a function; else it tells a distance, and what it sees."""
