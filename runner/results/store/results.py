"""Results of runs: segments in, pages of chosen rows out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from runner.core.text import printable
from runner.core.types import Direction
from runner.inputs.datasets.rows import DECODER
from runner.results.output.stored_rows import StoredRow
from runner.results.store.errors import NotStoredError, SegmentError, StoreDamagedError, StoreFullError
from runner.results.store.files import SEGMENT
from runner.results.store.limits import RUN
from runner.results.store.part import Part, refuse_full
from runner.results.store.runs import refuse_others, unknown
from runner.results.store.schema import runs, segments
from runner.results.store.segments import MOST, OUTCOMES, Entry, Segment, check, entries, sum_of
from runner.results.store.selection import Chosen, Piece, Search, matches, matching
from runner.results.store.types import SegmentInfo, Selected, Selection

_PAGE = 16 << 20  # bytes of rows on a page
_AT_ONCE = 20  # segments whose index is held
_ALL = Selection()


class _Line(NamedTuple):
    """Where a result is."""

    digest: str
    offset: int
    length: int


class Results(Part):
    """The results of runs. All raises StoreError."""

    def add_segment(self, run: str, segment: Segment, server: str | None = None) -> int:
        """
        Keep the next results of a run; the number of its results now.

        First the file, then its row: a run that is killed has whole segments. Raises SegmentError for one that does not
        begin with the run's next result, so that none is ever there twice, StoreFullError, NotStoredError, and
        ClaimLostError if another server than `server` claims the run.
        """
        check(segment)
        with self._files.written(segment.data, SEGMENT) as new, self._database.write() as connection:
            so_far = select(runs.c.rows, runs.c.bytes, runs.c.score_sum).where(runs.c.id == run)
            row = connection.execute(so_far).first()
            if row is None:
                raise NotStoredError(unknown(run))
            refuse_others(connection, run, server)
            if segment.first != row.rows + 1:
                raise SegmentError(
                    f"the run {run} has {row.rows} results, so that a segment from {segment.first} on is not the next"
                )
            if row.bytes + new.bytes > RUN.bytes():
                raise StoreFullError(f"the run {run} has {RUN} of results, the most of one; raise {RUN.variable}")
            refuse_full(connection, new.bytes)
            new.keep()
            values = {"run": run, "first": segment.first, "rows": segment.rows, "digest": new.digest}
            connection.execute(insert(segments).values(values | {"bytes": new.bytes, "entries": segment.index}))
            counts = {name: runs.c[name] + segment.counts.get(name, 0) for name in OUTCOMES}
            more: dict[str, Any] = {"rows": runs.c.rows + segment.rows, "bytes": runs.c.bytes + new.bytes}
            scores = [entry.score for entry in entries(segment.index) if entry.score is not None]
            more |= {"scores": runs.c.scores + len(scores), "score_sum": sum_of((row.score_sum, *scores))}
            connection.execute(update(runs).where(runs.c.id == run).values(**more, **counts))
            return int(row.rows) + segment.rows

    def segments(self, run: str, after_row: int = 0) -> list[SegmentInfo]:
        """
        The run's segments that have results after this one, in order.

        Raises NotStoredError, and StoreDamagedError if the file of one is gone or cut off.
        """
        c = segments.c
        query = select(c.first, c.rows, c.digest, c.bytes).where(c.run == run, c.first + c.rows > after_row + 1)
        with self._database.read() as connection:
            _direction(connection, run)
            found = connection.execute(query.order_by(c.first)).all()
            made = [SegmentInfo(**row._mapping, path=self._files.path(f"{row.digest}{SEGMENT}")) for row in found]
        for one in made:
            with suppress(OSError):
                if one.path.stat().st_size == one.bytes:
                    continue
            raise StoreDamagedError(f"{one.path} is gone or cut off; delete the run, and run it again")
        return made

    def select(self, run: str, selection: Selection = _ALL) -> Selected:
        """
        The results that match, by index, and one page of them.

        Raises NotStoredError, and StoreDamagedError where a file of results or its index is gone or damaged.
        """
        with self._database.read() as connection:
            chosen = Chosen(selection, _direction(connection, run))
            search = Search(selection.search, self._read) if selection.search else None
            match = matches(selection)
            if match is None and search is None and selection.order == "row":
                numbers = chosen.whole(connection.execute(select(runs.c.rows).where(runs.c.id == run)).scalar_one())
            else:
                numbers = chosen.page(matching(_pieces(connection, run), match, search))
            rows = self._rows(connection, run, numbers)
            return Selected(total=chosen.total, rows=tuple(rows), complete=search is None or search.complete)

    def _rows(self, connection: Connection, run: str, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
        lines = _lines(connection, run, numbers)
        size = 0
        for number in numbers:
            line = lines[number]
            size += line.length
            if size > _PAGE and number != numbers[0]:
                return
            yield {"number": number} | self._row(line, number)

    def _row(self, line: _Line, number: int) -> dict[str, Any]:
        try:
            value = DECODER.decode(self._read(line.digest, line.offset, line.length).decode())
            StoredRow.model_validate(value, strict=True)
            assert isinstance(value, dict)
            return value
        except (ValueError, RecursionError):
            raise StoreDamagedError(
                f"result {number} in {self._files.path(line.digest + SEGMENT)} is damaged; delete the run, and run it "
                "again"
            ) from None

    def _read(self, digest: str, offset: int, length: int) -> bytes:
        path = self._files.path(f"{digest}{SEGMENT}")
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise StoreDamagedError(
                f"{path} cannot be read ({error.strerror}); delete the run, and run it again"
            ) from None


def _direction(connection: Connection, run: str) -> Direction:
    found = connection.execute(select(runs.c.direction).where(runs.c.id == run)).scalar()
    if found is None:
        raise NotStoredError(unknown(run))
    directions: dict[str, Direction] = {"maximize": "maximize", "minimize": "minimize"}
    return directions.get(found, "none")


def _pieces(connection: Connection, run: str) -> Iterator[Piece]:
    """The run's segments in order, with the index of a few at once."""
    c, last = segments.c, 0
    query = select(c.first, c.digest, c.bytes, c.entries).where(c.run == run).order_by(c.first).limit(_AT_ONCE)
    while some := connection.execute(query.where(c.first > last)).all():
        for row in some:
            last = row.first
            yield Piece(last, _entries(run, row.entries), row.digest, min(row.bytes, MOST))


def _entries(run: str, index: bytes) -> Iterator[Entry]:
    try:
        yield from entries(index)
    except SegmentError:
        raise _damaged(run) from None


def _damaged(run: str) -> StoreDamagedError:
    return StoreDamagedError(f"the index of the run {printable(run, 64)} is damaged; delete the run, and run it again")


def _lines(connection: Connection, run: str, numbers: Sequence[int]) -> dict[int, _Line]:
    """Where these results are."""
    made: dict[int, _Line] = {}
    left = sorted(numbers)
    c = segments.c
    while left:
        query = select(c.first, c.rows, c.digest, c.bytes, c.entries).where(c.run == run, c.first <= left[0])
        row = connection.execute(query.order_by(c.first.desc()).limit(1)).one()
        offsets = [entry.offset for entry in _entries(run, row.entries)] + [min(row.bytes, MOST)]
        inside = [number for number in left if number < row.first + row.rows]
        left = left[len(inside) :]
        if len(offsets) != row.rows + 1 or not inside:
            raise _damaged(run)
        for number in inside:
            begin, end = offsets[number - row.first], offsets[number - row.first + 1]
            made[number] = _Line(row.digest, begin, max(0, min(end - begin, MOST)))
    return made
