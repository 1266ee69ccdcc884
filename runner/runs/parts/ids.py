"""Find the ids that rows of earlier parts have, so that each part names its rows as one run over all would."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path

from runner.inputs.datasets.ids import KEY, Ids
from runner.runs.parts.types import Count

_AT_ONCE = 1 << 20
"""Keys in memory."""


def find_taken(
    keys: Sequence[Path], taken: Sequence[Path], counts: Sequence[Count], own: Callable[[int], Iterator[str | None]]
) -> list[bool]:
    """
    Write for each part the keys of its ids that an earlier part has; return which parts have any.

    `own` reads the ids of a part again, if that has to be done row by row: where ids look as if we had renamed them.
    """
    with_ids = [place for place, count in enumerate(counts) if count.ids]
    unclear = any(count.numbered for count in counts)
    if unclear and any(count.ids < count.rows for count in counts):
        return _row_by_row(taken, counts, own)
    found = _common(keys, taken, with_ids, sum(counts[place].ids for place in with_ids))
    if unclear and (any(found) or any(count.repeated for count in counts)):
        return _row_by_row(taken, counts, own)
    return found


def _common(keys: Sequence[Path], taken: Sequence[Path], parts: Sequence[int], ids: int) -> list[bool]:
    """Range by range of the keys, which are sorted, so that memory is bounded."""
    found = [False] * len(keys)
    for path in taken:
        path.unlink(missing_ok=True)
    ranges = max(1, -(-ids // _AT_ONCE))
    edges = [(number << 64) // ranges for number in range(ranges + 1)]
    for low, high in itertools.pairwise(edges):
        seen: set[bytes] = set()
        for place in parts:
            some = set(_between(keys[place], low, high))
            if common := some & seen:
                found[place] = True
                with taken[place].open("ab") as file:
                    file.write(b"".join(sorted(common)))
            seen |= some
    return found


def _between(path: Path, low: int, high: int) -> list[bytes]:
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        count = len(data) // KEY
        places = range(count)

        def begins(place: int) -> int:
            return int.from_bytes(data[place * KEY : place * KEY + 8], "big")

        start, end = (bisect_left(places, edge, key=begins) for edge in (low, high))
        block = data[start * KEY : end * KEY]
    return [block[at : at + KEY] for at in range(0, len(block), KEY)]


class _Recorded(Ids):
    """The ids of all rows, which remembers those that a part met of earlier parts."""

    def __init__(self) -> None:
        super().__init__()
        self.add_taken(())
        self._own: set[bytes] = set()
        self.met: set[bytes] = set()

    def begin_part(self) -> None:
        self._own, self.met = set(), set()

    def _add(self, key: bytes) -> bool:
        if super()._add(key):
            self._own.add(key)
            return True
        if key not in self._own:
            self.met.add(key)
        return False


def _row_by_row(
    taken: Sequence[Path], counts: Sequence[Count], own: Callable[[int], Iterator[str | None]]
) -> list[bool]:
    ids, number, found = _Recorded(), 0, []
    try:
        for place in range(len(counts)):
            ids.begin_part()
            for id in own(place):
                number += 1
                ids.take(str(number) if id is None else id, number)
            taken[place].unlink(missing_ok=True)
            if ids.met:
                taken[place].write_bytes(b"".join(sorted(ids.met)))
            found.append(bool(ids.met))
    finally:
        ids.close()
    return found
