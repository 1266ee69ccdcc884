"""Results files and run folders, read as a side of a comparison. What is in them is not trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from runner.compare.side import Side
from runner.compare.types import RunInfo
from runner.datasets.column_values import RowError, TooLong
from runner.datasets.formats import csv_rows, json_row, lines
from runner.datasets.json_array import array_rows
from runner.datasets.parquet import ParquetRows
from runner.datasets.rows import Row, columns
from runner.datasets.streams import as_utf8
from runner.errors import DatasetError, InputError, NotComparableError
from runner.output.cells import unescaped
from runner.output.folder import LOCK, MANIFEST, MOST_PARTS, PARTS, ROWS, part_name
from runner.results.figures import MOST
from runner.results.worst import safe
from runner.text import near, printable, read_bounded, whole, why
from runner.types import OutputConfig

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
ANEW = f"run it again, or copy its {ROWS} to another folder"
"""The next step for a manifest that cannot be used: it is read wherever it is beside the rows."""
_READ = ("id", "evaluator", "version", "sandbox", "given", "outcome", "label", "score", "outputs")
"""The columns of a table that are read, beside those that are wanted."""
_MANIFEST = 32 << 20
_LOCK = 4 << 20


class Source(NamedTuple):
    """A results file, and what the manifest beside it tells."""

    name: str
    path: Path
    """Of a run in parts, the folder of them."""
    manifest: dict[str, Any]
    """Empty where there is none."""
    lock: str | None
    """A hash of the lock of the run's packages."""
    parts: tuple[Path, ...] = ()
    """The files with the rows of a run in parts, in the dataset's order."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files with rows, in order."""
        return self.parts or (self.path,)

    @property
    def state(self) -> str | None:
        """How the run ended."""
        state = self.manifest.get("state")
        return printable(state, 40) if isinstance(state, str) else None

    @property
    def outputs(self) -> dict[str, OutputConfig]:
        """The output configs of the evaluator; empty if they are not known."""
        evaluator = self.manifest.get("evaluator")
        found = evaluator.get("outputs") if isinstance(evaluator, dict) else None
        try:
            return {} if found is None else TypeAdapter(dict[str, OutputConfig]).validate_python(found)
        except ValidationError:
            raise NotComparableError(
                f"{self.name}: the evaluator's outputs in its {MANIFEST} are not as a run writes them; {ANEW}"
            ) from None

    @property
    def aggregates(self) -> dict[str, float]:
        """The figures of the script's `aggregate`; none if they are not known."""
        summary = self.manifest.get("summary")
        found = summary.get("aggregates") if isinstance(summary, dict) else None
        figures = list(found.items())[:MOST] if isinstance(found, dict) else []
        return {
            safe(name): float(value) for name, value in figures if type(value) in (int, float) and abs(value) < 1e308
        }

    def info(self, side: Side) -> RunInfo:
        """Where the side comes from."""
        return RunInfo(
            name=self.name,
            evaluators=tuple(safe(name) for name in side.evaluators),
            versions=tuple(safe(name) for name in side.versions),
            sandboxes=tuple(safe(name) for name in side.sandboxes),
            lock=self.lock,
            state=self.state,
            rows=side.rows,
            repeated=side.repeated,
        )


def find_source(path: str | os.PathLike[str]) -> Source:
    """Find the rows of a results file or a run folder. Raises NotComparableError for what is neither."""
    place = Path(path)
    name = printable(whole(os.fspath(path)))
    try:
        folder = place if place.is_dir() else None
        if folder is not None and (found := _in_parts(name, folder)) is not None:
            return found
        file = place if folder is None else place / ROWS
        if not file.is_file():
            if folder is not None:
                raise NotComparableError(
                    f"{name} has no {ROWS}; name a folder that a run has written, or a results file"
                )
            if not os.path.lexists(place):
                raise NotComparableError(f"there is no run {name}{near(os.fspath(path))}")
            raise NotComparableError(f"{name} is no regular file; save the results as one first")
    except (OSError, ValueError) as error:
        raise NotComparableError(f"{name} cannot be read ({why(error)}); check the path") from None
    if file.suffix.lower() not in SUFFIXES:
        raise NotComparableError(f"{name} is no results file; its name must end with one of: {', '.join(SUFFIXES)}")
    beside = file.parent / MANIFEST if file.name == ROWS else None
    manifest = {} if beside is None or not beside.is_file() else _manifest(beside)
    return Source(name, file, manifest, _lock(file.parent, manifest))


def _in_parts(name: str, folder: Path) -> Source | None:
    """The rows of a run in parts; None for any other folder."""
    if not (folder / PARTS).is_dir() or not (folder / MANIFEST).is_file():
        return None
    manifest = _manifest(folder / MANIFEST)
    count = manifest.get("parts")
    if type(count) is not int or not 0 < count <= MOST_PARTS:
        return None
    files = tuple(folder / PARTS / part_name(number) / ROWS for number in range(1, count + 1))
    there = tuple(file for file in files if file.is_file())
    if not there or (len(there) < count and manifest.get("state") == "finished"):
        raise NotComparableError(f"{name} lacks {count - len(there):,} of its {count:,} parts; run it again")
    return Source(name, folder / PARTS, manifest, _lock(folder, manifest), there)


def read_side(source: Source, wanted: Sequence[str] = ()) -> Side:
    """Read all rows, and the values of the columns that are wanted. Raises NotComparableError."""
    side = Side(source.name, wanted)
    add = side.add
    for where, row in source_rows(source, wanted):
        if isinstance(row, RowError):
            raise NotComparableError(f"{where}: {row}; is the file whole, and a results file?")
        add(where, row)
    if not side.ids:
        raise NotComparableError(f"{source.name} has no rows; run it again, and compare then")
    return side


def read_rows(source: Source, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """The rows at these places, from 0, as they are in the file."""
    wanted, found = set(numbers), {}
    if not wanted:
        return {}
    if source.files[0].suffix.lower() == ".jsonl":
        for number, line in enumerate(_lines_of(source)):
            if number in wanted and line is not None:
                try:
                    found[number] = json_row(line)
                except RowError:
                    raise _changed(source) from None
        return found
    with open_rows(source.files[0], None, wanted) as rows:  # only JSON Lines are in several files
        for number, (_, row) in zip(sorted(wanted), rows, strict=False):
            if isinstance(row, RowError):
                raise _changed(source)
            found[number] = row
    return found


def source_rows(source: Source, wanted: Sequence[str] | None) -> Generator[Row, None, None]:
    """All rows of a run; see `open_rows`. Raises NotComparableError."""
    for file in source.files:
        with open_rows(file, wanted) as rows:
            yield from rows


def _lines_of(source: Source) -> Iterator[bytes | None]:
    for path in source.files:
        with path.open("rb") as raw:
            file, _ = as_utf8(raw, source.name, None)
            yield from (line for line in lines(file) if line is None or line.strip())


@contextmanager
def open_rows(path: Path, wanted: Sequence[str] | None, at: Collection[int] | None = None) -> Iterator[Iterator[Row]]:
    """
    The rows of a results file, as objects of the keys that `.jsonl` has. `wanted` None: with all columns.

    With `at` the rows at these places alone, from 0; not of JSON Lines.
    """
    suffix, name = path.suffix.lower(), printable(whole(path.name))
    if path.parent.parent.name == PARTS:
        name = f"{PARTS}/{path.parent.name}/{name}"
    try:
        if suffix == ".parquet":
            table = ParquetRows(path, None if wanted is None else (*_READ, *wanted), at=at)
            try:
                yield iter(table)
            finally:
                table.close()
            return
        with path.open("rb") as raw:
            file, _ = as_utf8(raw, name, None)
            if suffix == ".csv":
                csv = csv_rows(file, name, ",", empty=None, at=at)
                yield _table(csv.rows, csv.header)
            elif suffix == ".json":
                every = array_rows(file, name, _quick)
                yield every if at is None else (row for number, row in enumerate(every) if number in at)
            else:
                yield _json_lines(file, name)
    except DatasetError as error:
        raise NotComparableError(str(error)) from None
    except OSError as error:
        raise NotComparableError(f"{name} cannot be read ({why(error)}); check the path") from None


_quick = partial(from_json, allow_inf_nan=False)


def _json_lines(file: BufferedReader, name: str) -> Iterator[Row]:
    """As `jsonl_rows`, in a third of the time."""
    for number, line in enumerate(lines(file), 1):
        if line is None:
            yield f"{name}:{number}", TooLong()
            continue
        try:
            row = _quick(line)
            if type(row) is not dict:
                columns(row)
        except ValueError:  # the slower parser has the words, and takes what this one is too strict for
            if not line.strip():
                continue
            try:
                row = json_row(line)
            except RowError as error:
                row = error
        yield f"{name}:{number}", row


def _table(rows: Iterator[Row], header: Sequence[str]) -> Iterator[Row]:
    """Rows of a `.csv` file with texts as they were, and several outputs under one key."""
    known = {unescaped(name) for name in header}
    outputs = [
        (name, f"{name}.score", f"{name}.label")
        for name in (one.removesuffix(".score") for one in known if one.endswith(".score"))
        if f"{name}.label" in known and f"{name}.explanation" in known
    ]
    names = [unescaped(name) for name in header]
    same = names == list(header)
    for where, row in rows:
        if isinstance(row, RowError):
            yield where, row
            continue
        found: dict[str, Any] = row if same else dict(zip(names, row.values(), strict=True))
        for name, cell in found.items():
            if cell and cell[0] == "'":
                found[name] = unescaped(cell)
        if outputs:
            found["outputs"] = {name: {"score": found[s], "label": found[label]} for name, s, label in outputs}
        yield where, found


def _manifest(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bounded("the manifest", str(path), _MANIFEST))
    except InputError as error:
        raise NotComparableError(str(error)) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NotComparableError(f"{printable(whole(str(path)))} is no manifest; {ANEW}")
    return found


def _lock(folder: Path, manifest: dict[str, Any]) -> str | None:
    path = folder / LOCK
    if not manifest.get("lock") or not path.is_file():
        return None
    try:
        return blake2b(read_bounded("the lock", str(path), _LOCK).encode(), digest_size=6).hexdigest()
    except InputError as error:
        raise NotComparableError(str(error)) from None


def _changed(source: Source) -> NotComparableError:
    return NotComparableError(f"{source.name} changed while it was read; compare again")
