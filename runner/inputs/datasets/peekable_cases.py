"""Cases of which the first ones can be looked at before they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from runner.core.types import Case
from runner.inputs.datasets.notes import RowNotes


class Lookahead:
    """
    The cases of `source`, in its order. Those that were looked at are held until they are read.

    `header`: the columns, if they are known before the rows are read. `noted`: what has notes on the rows.
    """

    def __init__(
        self,
        source: Iterable[Case],
        header: tuple[str, ...] = (),
        noted: RowNotes | None = None,
    ) -> None:
        self._noted = noted
        self.remarks: list[str] = []
        self.header = header
        self._source = iter(source)
        self._held: deque[Case] = deque()

    @property
    def notes(self) -> list[str]:
        """Notes for people about the rows that were read so far."""
        return [*self.remarks, *(() if self._noted is None else self._noted.every)]

    def look(self, at: int) -> Case | None:
        """Return the case at this place, from 0; None beyond the end. To be called before the first case is read."""
        while len(self._held) <= at:
            case = next(self._source, None)
            if case is None:
                return None
            self._held.append(case)
        return self._held[at]

    def __iter__(self) -> Iterator[Case]:
        return chain(self._take_held(), self._source)  # a generator around each row would take a part of its time

    def _take_held(self) -> Iterator[Case]:
        while self._held:
            yield self._held.popleft()
