"""
A progress bar in a notebook, by the notebook's own display.

It needs no widgets, which many installations lack or have in the wrong version, and HTML is shown by every front end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from importlib import import_module
from time import perf_counter
from typing import Any

from runner.core.types import Result

INTERVAL = 0.2
"""Seconds between two updates."""


class NotebookBar:
    """
    Counts the rows that are done and that failed.

    Results may be added in any thread. The notebook is only told in the thread that runs the cell, as others do not
    know which cell they belong to.
    """

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = self._failed = 0
        self._began = perf_counter()
        self._shown: tuple[int, int] | None = None
        self._handle: Any = None

    def add(self, results: Sequence[Result]) -> None:
        """Count rows."""
        self._done += len(results)
        self._failed += len([result for result in results if result.error is not None])

    def show(self) -> None:
        """Show the state, if it is another than before."""
        state = self._done, self._failed
        if state != self._shown:
            self._shown = state
            size = "" if self._total is None else f' max="{max(1, self._total)}"'
            value = "" if self._total is None else f' value="{min(self._done, self._total)}"'
            self._display(f"<progress{size}{value}></progress> ", self._words(""))

    def end(self, how: str = "") -> None:
        """Show the last state, without a bar. `how` is such as `interrupted`."""
        if self._handle is not None:
            self._display("", self._words(how))

    def _words(self, how: str) -> str:
        seconds = max(perf_counter() - self._began, 1e-6)
        of = "" if self._total is None else f" of {self._total:,}"
        failed = f", {self._failed:,} failed" if self._failed else ""
        start = f"{how} after " if how else ""
        return f"{start}{self._done:,}{of} rows, {self._done / seconds:,.0f} rows/s{failed}"

    def _display(self, bar: str, words: str) -> None:
        data = {"text/html": f"<div>{bar}<small>{escape(words)}</small></div>", "text/plain": words}
        if self._handle is None:
            display: Any = import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def in_notebook() -> bool:
    """Return true in a cell of a notebook; in a terminal's IPython it is False."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
