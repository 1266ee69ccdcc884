"""
Decodes a Parquet file in a process of its own, whose memory the kernel bounds.

What a file says about its sizes may be wrong, and a page of 1 GB fits into a kilobyte, so nothing less is a bound.
One pipe has one line, the columns and row groups that are wanted. The other gets a line that tells what the
file is, a line for each row, and `null` after the last one. A row is an object, or text that says why there is none; a
list with such a text says that nothing behind it can be read either; one with an object, what is left out of the rows
that follow, as it is binary. A list of lists has many rows: the values of each
column, in the order of the first line.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from time import monotonic, sleep
from typing import Any, BinaryIO

from runner.core.text import describe, printable
from runner.inputs.datasets.formats.arrow_rows import lines, one_line, plain

MEMORY = 448 << 20
"""Bytes that decoding may take, beside those of pyarrow itself."""
STEP = "map fewer columns, write the file with smaller pages (pyarrow: write_batch_size=16), or as JSON Lines"
"""What to do about it."""
OVER = 3
"""The exit code where memory ran out and nothing more could be said."""

_BATCHES = (256, 16, 1)
"""Rows that are decoded at once; fewer once they did not fit."""
_PATIENCE = 0.1
"""Seconds that a row may wait for others before it is passed on."""
_GROUPS = 10_000
"""Row groups whose sizes the parent is told."""
_TRIED = 16
"""Columns that are tried alone to find the one that cannot be decoded."""
_NAMED = 200
"""Columns that are named to the parent, for its messages."""
_HEADER = 1 << 20
"""Characters of all columns' names up to which the parent is told them."""


def main(requests: int, replies: int, path: str) -> None:
    with open(requests, "rb") as asked, open(replies, "wb") as out:
        _decode(asked.readline(), out, path)


def _decode(line: bytes, out: BinaryIO, path: str) -> None:
    try:
        task = json.loads(line)
        asked, groups, at = task["columns"], task["groups"], task["at"]
        import pyarrow.parquet as parquet

        source = _opened(path)
        bound_memory(MEMORY)
        if path.lower().endswith(".arrow"):
            _arrow(source, asked, out)  # no results file is one, so that `at` is not asked for
            return
        # Without these, a whole row group is in memory at once.
        file = parquet.ParquetFile(source, pre_buffer=False, buffer_size=1 << 16)
        names = file.schema_arrow.names
        repeated = next((name for name, count in Counter(names).items() if count > 1), None)
        unread = set() if asked is None else set(names).difference(asked)
    except Exception as error:
        kind = "Arrow" if path.lower().endswith(".arrow") else "Parquet"
        _tell(out, {"refused": f"cannot be read as {kind}: {_reason(error)}"})
        return
    if repeated is not None:
        _tell(out, {"repeated": repeated})
        return
    others = [name[:_NAMED] for name in names if name in unread][:_NAMED]
    wanted = [name for name in names if name not in unread]
    read = [] if asked is None and sum(map(len, wanted)) > _HEADER else wanted
    about, every = file.metadata, range(file.metadata.num_row_groups)
    some = every if groups is None else every[groups[0] : groups[1]]
    sizes = [(about.row_group(at).num_rows, about.row_group(at).total_byte_size) for at in every[: _GROUPS + 1]]
    rows = max(0, about.num_rows if groups is None else sum(about.row_group(at).num_rows for at in some))
    told = {"rows": rows, "read": read, "unread": others, "groups": sizes if len(every) <= _GROUPS else None}
    _tell(out, told)
    flush = monotonic()
    left_out = _LeftOut(out)
    for row in _Rows(file, wanted, some, rows, at, asked, left_out.places, together=bool(read)):
        left_out.tell()
        out.write(row.encode("ascii") + b"\n")
        if (now := monotonic()) > flush:
            out.flush()
            flush = now + _PATIENCE
    _tell(out, None)


def _opened(path: str) -> Any:
    """The file, or the object of a URL, as pyarrow takes it."""
    if "://" in path:
        from runner.inputs.datasets.location import open_url  # here: few datasets are elsewhere

        return open_url(path)
    import pyarrow as pa

    return pa.OSFile(path, "rb")


def _arrow(source: Any, asked: list[str] | None, out: BinaryIO) -> None:
    """An Arrow IPC file, or a stream, as Hugging Face caches them."""
    import pyarrow as pa

    batches: Iterable[Any]
    try:
        file: Any = pa.ipc.open_file(source)
        batches = (file.get_batch(at) for at in range(file.num_record_batches))
    except pa.ArrowInvalid:
        source.seek(0)
        batches = file = pa.ipc.open_stream(source)
    names = file.schema.names
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        _tell(out, {"repeated": repeated})
        return
    wanted = [name for name in names if asked is None or name in asked]
    others = [name[:_NAMED] for name in names if name not in wanted][:_NAMED]
    _tell(out, {"rows": None, "read": wanted if sum(map(len, wanted)) <= _HEADER else [], "unread": others})
    left_out = _LeftOut(out)
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, _BATCHES[0]):
                part = batch.slice(start, _BATCHES[0])
                for row in lines(part.select(wanted), asked, left_out.places) if wanted else ["{}"] * part.num_rows:
                    left_out.tell()
                    out.write(row.encode("ascii") + b"\n")
                out.flush()
    except Exception as error:
        _tell(out, [f"{_reason(error)}; the rest of the file cannot be read"])
    _tell(out, None)


def bound_memory(size: int) -> None:
    """Allow `size` bytes beside what is held now: more is refused, or ends the process with OVER."""
    import resource

    if sys.platform.startswith("linux"):
        with open("/proc/self/status") as file:
            held = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData:"))
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limits = [limit for limit in (held + size, soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    else:
        # Other kernels do not count what is mapped, so that the peak is looked at instead.
        threading.Thread(target=_watch, args=[_peak() + size], daemon=True).start()


def _watch(limit: int) -> None:
    while _peak() <= limit:
        sleep(0.01)
    os._exit(OVER)


def _peak() -> int:
    """Bytes of memory, at most so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _LeftOut:
    """Tells the parent where binary values were, before the first row without them."""

    def __init__(self, out: BinaryIO) -> None:
        self.places: dict[str, None] = {}
        self._out = out
        self._told = 0

    def tell(self) -> None:
        if len(self.places) > self._told:
            self._told = len(self.places)
            _tell(self._out, [{"left_out": list(self.places)}])


class _Rows:
    """Each row as a line of JSON; with `at` those at these places alone."""

    def __init__(
        self,
        file: Any,
        wanted: list[str],
        groups: Sequence[int],
        rows: int,
        at: Collection[int] | None,
        asked: Collection[str] | None,
        left_out: dict[str, None],
        together: bool,
    ) -> None:
        self._asked = asked
        self._left_out = left_out
        self._file = file
        self._wanted = wanted
        self._groups = groups
        self._rows = rows
        self._at = None if at is None else frozenset(at)
        self._done = 0
        types = file.schema_arrow
        self._together = together and all(plain(types.field(name).type) for name in wanted)

    def __iter__(self) -> Iterator[str]:
        if not self._wanted:
            # There is nothing to decode, and pyarrow gives no batches.
            yield from ("{}" for at in range(self._rows) if self._at is None or at in self._at)
            return
        for size in _BATCHES:
            try:
                yield from self._of(size)
                if self._done < self._rows:
                    yield json.dumps([f"it has fewer rows than the {self._rows:,} that it names"])
                return
            except Exception as error:
                if isinstance(error, MemoryError) and size != _BATCHES[-1]:
                    continue
                where = self._where(error)
                yield json.dumps([f"{where}{_reason(error)}; the rest of the file cannot be read"])
                return

    def _of(self, size: int) -> Iterator[str]:
        for batch in self._batches(size):
            if self._at is not None:
                for row in range(batch.num_rows):
                    self._done += 1
                    if self._done - 1 in self._at:
                        yield from lines(batch.slice(row, 1), self._asked, self._left_out)
                continue
            if self._together and (line := one_line(batch)) is not None:
                self._done += batch.num_rows
                yield line
                continue
            for line in lines(batch, self._asked, self._left_out):
                self._done += 1
                yield line

    def _batches(self, size: int) -> Iterator[Any]:
        """The rows that are not done yet."""
        first, skip = self._group()
        groups = list(self._groups[first:])
        for batch in self._file.iter_batches(size, groups, columns=self._wanted, use_threads=False):
            left = min(skip, batch.num_rows)
            skip -= left
            if left < batch.num_rows:
                # A path that a wanted column's name is the beginning of is read with it.
                yield batch.slice(left).select(self._wanted)

    def _group(self) -> tuple[int, int]:
        """The place of the next row's group among those wanted, and the number of its rows that are done."""
        about = self._file.metadata
        if not self._done:
            return 0, 0
        ends = accumulate(about.row_group(at).num_rows for at in self._groups)
        start = 0
        for at, end in enumerate(ends):
            if self._done < end:
                return at, self._done - start
            start = end
        return len(self._groups), 0

    def _where(self, error: Exception) -> str:
        """The column that cannot be decoded, found by decoding each alone."""
        wanted = self._wanted
        for column in wanted if 1 < len(wanted) <= _TRIED else ():
            self._wanted = [column]
            try:
                next(self._batches(_BATCHES[1]), None)
            except Exception as own:
                if type(own) is type(error):
                    return f"column {describe(column, 60)}: "
        return f"column {describe(wanted[0], 60)}: " if len(wanted) == 1 else ""


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return memory_ran_out()
    return printable(str(error)) or type(error).__name__


def memory_ran_out() -> str:
    return f"decoding it takes more than {MEMORY >> 20} MB of memory; {STEP}"


def _tell(out: BinaryIO, value: Any) -> None:
    out.write(json.dumps(value).encode() + b"\n")
    out.flush()
