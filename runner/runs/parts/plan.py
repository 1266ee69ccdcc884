"""Divide a dataset into parts: the same ones, however many workers there are."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from runner.core.errors import DatasetError
from runner.core.text import printable, whole
from runner.engine.request import PreparedRun
from runner.inputs.datasets.formats.signatures import SAMPLE, json_kind, packing
from runner.inputs.datasets.location import File, is_url, open_file
from runner.inputs.datasets.rows import RowReading
from runner.inputs.datasets.slices import Slice
from runner.results.output.folder import MOST_PARTS, part_name
from runner.runs.parts.scan import find_taken, own_ids
from runner.runs.parts.scheduler import CrewWorker, share
from runner.runs.parts.types import Count, CountTask, Look, LookTask, Part, PartPlan

BYTES = 64 << 20
"""Bytes of JSON Lines, or of Parquet's values before compression, in a part."""

_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_UTF8 = (None, "utf-8", "utf8", "utf-8-sig")


async def plan_parts(
    prepared: PreparedRun, dataset_files: Sequence[File], folder: Path, workers: Sequence[CrewWorker]
) -> PartPlan:
    """
    Divide the files that were found of the request's dataset, and count what each part has.

    `folder` is where files of keys go, which the parts need while they run. Raises DatasetError, and what the workers
    raise.
    """
    request = prepared.request
    # Workers may be in another folder.
    files = [file if is_url(file.path) else file._replace(path=os.path.abspath(file.path)) for file in dataset_files]
    slices = await _slices(files, prepared.reading, request.id, workers)
    if len(slices) > MOST_PARTS:
        raise DatasetError(f"{printable(whole(request.dataset or ''))}: more than {MOST_PARTS:,} parts; run some files")
    counts = await _counted(slices, prepared, folder, workers)
    taken = [folder / f"{part_name(number)}.taken" for number in range(1, len(slices) + 1)]
    keys = [folder / f"{part_name(number)}.keys" for number in range(1, len(slices) + 1)]

    def own(place: int) -> Iterator[str | None]:
        return own_ids(CountTask(slices[place][0], prepared.reading, request.id, ""))

    some = await asyncio.to_thread(find_taken, keys, taken, counts, own)
    for path in keys:
        path.unlink(missing_ok=True)
    files_of_ids = [str(path) if has else None for path, has in zip(taken, some, strict=True)]
    return _numbered([one for one, _ in slices], counts, files_of_ids, request.limit)


def _numbered(
    slices: Sequence[Slice], counts: Sequence[Count], taken: Sequence[str | None], limit: int | None
) -> PartPlan:
    parts: list[Part] = []
    first, before, path = 1, 0, None
    for one, count, ids in zip(slices, counts, taken, strict=True):
        if one.path != path:
            path, before = one.path, 0
        left = count.rows if limit is None else min(count.rows, limit - first + 1)
        if left > 0 or (not parts and limit is None):
            update = {"first": first, "before": before, "taken": ids}
            parts.append(Part(slice=one.model_copy(update=update), rows=left))
        first += count.rows
        before += count.lines or count.rows
    return PartPlan(parts=tuple(parts))


async def _slices(
    files: Sequence[File], reading: RowReading, id: str | None, workers: Sequence[CrewWorker]
) -> list[tuple[Slice, int | None]]:
    """All parts, and the rows of those whose ids need not be read."""
    tables = [file for file in files if _suffix(file) in (".parquet", ".arrow")]
    looks: dict[str, Look] = {}

    def take(place: int, look: object) -> None:
        looks[tables[place].path] = cast(Look, look)

    await share(workers, [LookTask(file.path, id) for file in tables], take)
    found: list[tuple[Slice, int | None]] = []
    for file in files:
        if (look := looks.get(file.path)) is not None:
            found += _of_table(file, look)
        elif _suffix(file) in (".jsonl", ".ndjson") and _is_plain(file, reading):
            edges = [*range(0, max(1, file.size - BYTES // 2), BYTES), file.size]
            found += [(_slice(file, start=a, end=b), None) for a, b in itertools.pairwise(edges)]
        else:
            found.append((_slice(file), None))
    return found


def _of_table(file: File, look: Look) -> list[tuple[Slice, int | None]]:
    if not look.groups:
        return [(_slice(file), None if look.ids else look.rows)]
    found: list[tuple[Slice, int | None]] = []
    start = size = rows = 0
    for place, (count, bytes) in enumerate(look.groups, 1):
        size, rows = size + bytes, rows + count
        if size >= BYTES or place == len(look.groups):
            found.append((_slice(file, groups=(start, place)), None if look.ids else rows))
            start, size, rows = place, 0, 0
    return found


async def _counted(
    slices: Sequence[tuple[Slice, int | None]], prepared: PreparedRun, folder: Path, workers: Sequence[CrewWorker]
) -> list[Count]:
    counts: dict[int, Count] = {place: Count(rows=rows) for place, (_, rows) in enumerate(slices) if rows is not None}
    places = [place for place in range(len(slices)) if place not in counts]
    tasks = [
        CountTask(slices[place][0], prepared.reading, prepared.request.id, str(folder / f"{part_name(place + 1)}.keys"))
        for place in places
    ]

    def take(place: int, count: object) -> None:
        counts[places[place]] = cast(Count, count)

    await share(workers, tasks, take)
    return [counts[place] for place in range(len(slices))]


def _slice(file: File, start: int = 0, end: int | None = None, groups: tuple[int, int] | None = None) -> Slice:
    return Slice(path=file.path, stamp=file.stamp, start=start, end=end, groups=groups)


def _suffix(file: File) -> str:
    return Path(file.path).suffix.lower()


def _is_plain(file: File, reading: RowReading) -> bool:
    """Whether its lines can be found from anywhere in it."""
    if reading.encoding is not None and reading.encoding.lower() not in _UTF8:
        return False
    try:
        with open_file(file.path) as opened:
            start = opened.read(SAMPLE)
    except OSError as error:
        raise DatasetError(f"{printable(whole(file.path))} cannot be read: {error.strerror or error}") from None
    if start.startswith(_MARKS) or b"\0" in start or packing(start) or (b"\r" in start and b"\n" not in start):
        return False
    return json_kind(start.decode("utf-8", "replace").removeprefix("\ufeff"), file.path) == "lines"
