"""What there is to say of the rows of a dataset that were read so far, for people."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from runner.core.text import list_names, printable
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.ids import Ids
from sandboxes.words.wording import Setting

_FIRST = 20
"""Rows whose texts are looked at."""
_LOOKED_AT = 100_000  # characters of a text
_NAMED = 5
_PYTHON = re.compile(r"""\s*\[\s*(['"({[]|None|True|False|nan|array\(|-?\d)""")
"""How a list begins as Python writes it."""


class RowNotes:
    """Gathers them while rows are read."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.left_out: dict[str, None] = {}
        """Where binary values were."""
        self.marks = 0
        """Byte order marks within a file."""
        self.headers = 0
        """Rows that repeat a table's header."""
        self.bare = 0
        """Rows of a table without any text."""
        self.unnamed: dict[int, bool] = {}
        """The columns of a table without a name, from 1, and whether any row has a value there."""
        self._lists: dict[str, Counter[str]] = {}
        """By column of a text: how many of the first rows have one there of each kind of list, and of none."""

    def watch(
        self, rows: Iterable[Any], columns: Collection[str] | None, declared: Sequence[str], *, table: bool
    ) -> Iterator[Any]:
        """
        Yield the same rows. Of the first ones, it is noted in which columns each text is a list, but for `declared`
        ones.

        `columns` None: all.
        """
        # What a model has written may be a list as text on purpose, but for a table, which has nothing else.
        every, but = iter(rows), declared if table else (*declared, "output")
        return chain(self._looked_at(islice(every, _FIRST), columns, but), every)

    def _looked_at(self, rows: Iterable[Any], columns: Collection[str] | None, but: Sequence[str]) -> Iterator[Any]:
        for where, row in rows:
            if not isinstance(row, RowError):
                for name, value in row.items():
                    if isinstance(value, str) and value and (columns is None or name in columns) and name not in but:
                        self._lists.setdefault(name, Counter())[kind_of_list(value)] += 1
            yield where, row

    @property
    def every(self) -> list[str]:
        """All notes on what was read so far."""
        return [*self.lines(), *([repeated_ids(self.ids.repeated)] if self.ids.repeated else [])]

    def lines(self) -> list[str]:
        """Return notes on what was read so far, but for ids."""
        found = []
        if self.left_out:
            places = list_names(list(self.left_out), _NAMED)
            found.append(f"{places} is binary, which is left out: a script gets text, numbers, lists and objects")
        if self.marks:
            found.append(f"{self.marks:,} byte order marks within the file are left out, as of files that were joined")
        if self.headers:
            found.append(f"the header stands {self.headers:,} times more within the file, and is no row there")
        if self.bare:
            rows = "1 row has" if self.bare == 1 else f"{self.bare:,} rows have"
            found.append(f"{rows} empty cells alone, and counts as any other; delete what is no row in the file")
        if self.unnamed:
            places = list_names([str(at) for at in self.unnamed], _NAMED).replace("`", "")
            one = len(self.unnamed) == 1
            said = f"column {places} has no name, and is" if one else f"columns {places} have no name, and are"
            how = "name it in the first line to use it" if any(self.unnamed.values()) else "no row has a value there"
            found.append(f"{said} left out; {how}")
        for name, kinds in self._lists.items():
            others, every = kinds[""], kinds.total()
            if 2 * others >= every:
                continue
            kind = "Python" if kinds["Python"] else "JSON"
            some = f" in {every - others} of the first {every} rows" if others else ""
            column = f"the column {list_names([name])} looks like {kind} lists{some}, and the script gets each as text"
            if others:
                column += ", of which some are no lists: put those right"
            if kind == "JSON":
                array = Setting("json_columns", [printable(name, 60)])
                found.append(f"{column}; give {array}, or declare the parameter as an array")
            else:
                give = Setting("json_columns")
                found.append(f"{column}; write the file with json.dumps of each list, and give {give} then")
        return found


def repeated_ids(count: int) -> str:
    """Return a note about rows whose id an earlier row has."""
    rows = "1 row repeats an id" if count == 1 else f"{count:,} rows repeat an id"
    return (
        f"{rows} that an earlier row has; they are named id#row, so that two runs pair them by their number in the "
        "dataset: take a column as id that tells rows apart"
    )


def kind_of_list(text: str) -> str:
    """Return `JSON`, which Python may have written too, `Python` for what only that writes, or nothing."""
    start = text.lstrip()[:2]
    if not start.startswith("[") or not text.rstrip().endswith("]") or len(text) > _LOOKED_AT:
        return ""
    try:
        return "JSON" if isinstance(json.loads(text), list) else ""
    except (ValueError, RecursionError):
        return "Python" if _PYTHON.match(text) else ""
