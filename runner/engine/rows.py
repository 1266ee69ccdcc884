"""Rows on their way through a sandbox, made of cases: their calls, seeds, kept columns, and results that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import count
from typing import Any, Protocol, TypeAlias

from runner.core.errors import MappingError, WorkError
from runner.core.text import weight, whole
from runner.core.types import Case, Result
from runner.engine.loading import Loading
from runner.engine.scoring.outcome import ResultFactory
from runner.inputs.evaluators.call_inputs import Fill, Hash
from sandboxes.base import Call, Sandbox

Keep: TypeAlias = Callable[[Case], dict[str, Any]]
"""The columns of a case that its result carries."""


class Row:
    """
    A case on its way, or one of its repeats, which count from 1.

    `call` is let go of once it has run: a result that waits holds no arguments. `known` is a result that needs no run.
    """

    # Most rows have these values, which would take as long to set as the call takes to make.
    call: Call | None = None
    given: str | None = None
    result: Result | None = None
    known: Result | None = None
    stored = False
    """`known` stands, even if the row is run again because others that share its state are not known."""
    key: bytes | None = None
    """The row's key in the score cache."""
    chars = 0
    taken = False
    kept: dict[str, Any] | None = None
    kept_size = 0

    def __init__(self, id: str, number: int, repeat: int = 1) -> None:
        self.id = id
        self.number = number
        self.repeat = repeat


class ResultSource(Protocol):
    """Results that are there before the run: those of a run that goes on, those of the score cache."""

    @property
    def identity(self) -> str | None:
        """The sandbox of these results. None: there are none."""

    def find(self, row: Row) -> Result | None:
        """Return the row's result, if it is known. Called in the dataset's order, for broken rows too, in a thread."""

    def check(self, sandbox: Sandbox) -> None:
        """Raise if the sandbox, which was opened for the first row that is not known, is not the one of `identity`."""

    def refuse_more(self) -> None:
        """Raise if no further row can be unknown."""

    def learn(self, row: Row) -> None:
        """Take the result of a row that was run."""

    def end(self) -> None:
        """Raise if there are more results than rows, once all rows are read."""


def seed_of(seed: int, number: int, repeat: int = 1) -> int:
    """
    Return the seed of one case: 63 bits that depend on nothing but the run's seed and the case's number.

    Repeats differ; the first is that of a run that repeats nothing.
    """
    place = f"{seed}:{number}" if repeat == 1 else f"{seed}:{number}:{repeat}"
    return int.from_bytes(blake2b(place.encode(), digest_size=8).digest(), "big") >> 1


class RowFactory:
    """Makes the rows of one run, in the thread that reads ahead; uses nothing that changes, but for the program."""

    def __init__(
        self,
        loading: Loading,
        results: ResultFactory,
        fill: Fill,
        hash_given: Hash,
        *,
        seed: int | None,
        keep: Keep | None,
        repeat: int,
        known: ResultSource | None,
    ) -> None:
        self._loading = loading
        self._results = results
        self._fill = fill
        self._hash_given = hash_given
        self._seed = seed
        self._keep = keep
        self._repeat = repeat
        self._known = known

    def rows(self, cases: Iterable[Case]) -> Iterator[Row]:
        """Yield the rows of the cases, in their order, with the repeats of each together."""
        indexes, known, repeats = count(), self._known, range(1, self._repeat + 1)
        for case in cases:
            for repeat in repeats:
                row = self._row(case, next(indexes), repeat)
                if known is not None:
                    row.known = known.find(row)
                yield row
        if known is not None:
            known.end()

    def _row(self, case: Case, index: int, repeat: int) -> Row:
        row = Row(case.id if case.id.isascii() else whole(case.id), case.number, repeat)
        if self._keep is not None:
            try:
                row.kept = self._keep(case)
            except WorkError as e:
                row.result = self._results.broken(row, f"{case.where}: a column to keep: {e}")
                return row
            row.kept_size = weight(row.kept)
        if case.broken is not None:
            row.result = self._results.broken(row, case.broken)
            return row
        try:
            positional, arguments = self._fill(case)
        except MappingError as e:
            row.result = self._results.broken(row, str(e))
            return row
        row.given = self._hash_given(positional, arguments)
        if (program := self._loading.program) is not None and program.loaded.status != "ok":
            row.result = self._results.unloaded(row, program.loaded)
        else:
            seed = None if self._seed is None else seed_of(self._seed, case.number, repeat)
            row.call = Call.trusted({"id": index, "arguments": arguments, "positional": positional, "seed": seed})
        return row
