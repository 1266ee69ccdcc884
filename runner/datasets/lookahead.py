"""Cases of which the first ones can be looked at before they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from runner.types import Case


class Lookahead:
    """The cases of `source`, in its order. Those that were looked at come first, and are read once."""

    def __init__(self, source: Iterable[Case]) -> None:
        self._source = iter(source)
        self._held: deque[Case] = deque()

    def look(self) -> Case | None:
        """Read and hold the next case; None at the end."""
        case = next(self._source, None)
        if case is not None:
            self._held.append(case)
        return case

    def __iter__(self) -> Iterator[Case]:
        while self._held:
            yield self._held.popleft()
        yield from self._source
