"""`evalcell completion`, and what is offered for an argument. Shells ask at each Tab: nothing slow is imported."""

from __future__ import annotations

import os
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

_VARIABLE = "_EVALCELL_COMPLETE"
_SUFFIXES = (".py", ".ts")
_SCRIPTS = 200  # of a folder


def script(shell: str, cli: click.Command) -> str:
    """Return what the shell reads to complete evalcell's commands."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(cli, {}, "evalcell", _VARIABLE).source()


def evaluators(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Return templates, and scripts of this folder; files, where none begins so."""
    return _plain([*_templates(), *_scripts()], prefix) or [CompletionItem(prefix, type="file")]


def templates(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Return the names of the templates."""
    return _plain(_templates(), prefix)


def datasets(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Return `demo` where it has been begun, else files."""
    return (_plain(["demo"], prefix) if prefix else []) or [CompletionItem(prefix, type="file")]


def sandboxes(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Return the names of the sandboxes."""
    from sandboxes.registry import backends

    return _plain([backend.name for backend in backends().values() if not backend.hidden], prefix)


def _plain(names: list[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _templates() -> list[str]:
    import templates

    return list(templates.names())


def _scripts() -> list[str]:
    with suppress(OSError), os.scandir(".") as entries:
        found = sorted(entry.name for entry in entries if entry.name.endswith(_SUFFIXES))
        return [name for name in found if name.isprintable() and " " not in name][:_SCRIPTS]
    return []
