"""Make rows out of cases: their calls, their seeds, what their results carry, and results that are known already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

from runner.core.errors import MappingError, WorkError
from runner.core.text import weight, whole
from runner.core.types import Case
from runner.engine.loading import Loading
from runner.engine.row import ResultSource, Row, seed_of
from runner.engine.scoring.outcome import ResultFactory
from runner.inputs.evaluators.call_inputs import Fill, Hash
from sandboxes.base import Call

Keep: TypeAlias = Callable[[Case], dict[str, Any]]
"""The columns of a case that its result carries."""


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
        """The rows of the cases, in their order, with the repeats of each together."""
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
