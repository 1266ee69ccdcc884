"""The commands by name. Each is declared when it is asked for: a run does not wait for the options of the others."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click

_BY_MODULE = {
    "authoring": ("templates", "show", "new", "init", "config", "completion"),
    "checks": ("check", "test", "parity"),
    "comparison": ("compare",),
    "export": ("export", "lines"),
    "github": ("github",),
    "mcp": ("mcp",),
    "report": ("report",),
    "sandboxes": ("sandboxes", "doctor", "cluster", "reap", "cache"),
    "serve": ("serve",),
    "stored": ("add", "evaluators", "datasets", "runs"),
}


class Commands(MutableMapping[str, click.Command]):
    """What a group of click takes for a dictionary of its commands."""

    def __init__(self) -> None:
        self._modules = {name: module for module, names in _BY_MODULE.items() for name in names}
        self._declared: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._declared:
            module = import_module(f"{__package__}.{self._modules[name]}")
            self._declared[name] = getattr(module, name)
        return self._declared[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._declared[name] = command

    def __delitem__(self, name: str) -> None:
        del self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._declared, **self._modules})

    def __len__(self) -> int:
        return len({**self._declared, **self._modules})
