"""Worked examples: cases that say what should come of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

import templates
from runner.datasets.column_values import RowError
from runner.datasets.ids import Ids
from runner.datasets.rows import Row, as_json, cases, columns, parse_json
from runner.errors import CasesError
from runner.evaluators.resolve import is_path
from runner.results.diff import TOLERANCE
from runner.text import listed, printable, read_bounded, shown, suggestion, whole
from runner.types import Case, ErrorKind, Evaluator, Finite, InputMapping
from sandboxes.base import Language, Model

MAX_BYTES = 16 << 20
"""Of a file of worked examples: all of them are held at once."""
MAX_CASES = 20_000

_SUFFIXES = (".jsonl", ".ndjson")


class ExpectedScore(Model):
    """Of one output; only what is named is compared."""

    label: str | None = None
    score: Finite | None = Field(default=None, strict=True)
    explanation: str | None = None


class Expected(ExpectedScore):
    """What should come of a case. Where it names no outcome, `kind` or `message`, any failure is wrong."""

    outcome: Literal["scored", "abstained", "failed"] | None = None
    kind: ErrorKind | None = None
    message: str | None = None
    """A part of the error's message."""
    outputs: dict[str, ExpectedScore] = Field(default_factory=dict)
    """By name, where the evaluator has several."""


class WorkedCase(Case):
    """A case that says what should come of it."""

    expected: Expected
    mapping: InputMapping = InputMapping()
    """Its own parameters; they go over all others."""
    tolerance: float = TOLERANCE
    """How far the score may be from the expected one."""
    languages: tuple[Language, ...] = ("python", "typescript")
    """In which the case holds."""


class WorkedColumns(Model):
    """The columns that make a case a worked one; an evaluator never sees them."""

    expected: Expected
    set: dict[str, Any] = Field(default_factory=dict)
    map: dict[str, str] = Field(default_factory=dict)
    tolerance: float = Field(default=TOLERANCE, ge=0, strict=True, allow_inf_nan=False)
    languages: list[Language] = Field(default=["python", "typescript"], min_length=1)


def find_cases(evaluator: str | os.PathLike[str] | Evaluator) -> Path:
    """
    The worked examples of a template, or those beside a script: `NAME.cases.jsonl`, else `cases.jsonl`.

    Raises CasesError where there are none.
    """
    if isinstance(evaluator, Evaluator):
        raise CasesError(f"nobody knows where the cases of {printable(evaluator.name, 80)} are; name a file of them")
    name = os.fspath(evaluator)
    if not is_path(name):
        try:
            return templates.cases(name)
        except KeyError:
            raise CasesError(f"there is no template named {printable(whole(name), 80)!r}") from None
    script = Path(name)
    places = [script.with_name(f"{script.stem}.cases.jsonl"), script.with_name("cases.jsonl")]
    for place in places:
        if place.is_file():
            return place
    raise CasesError(
        f"no cases for {printable(whole(name))}: beside it is neither {printable(whole(places[0].name))} nor "
        "cases.jsonl; write one, or name the file"
    )


def read_cases(path: str | os.PathLike[str]) -> tuple[WorkedCase, ...]:
    """All worked examples of a JSON Lines file. Raises InputError for the first thing in it that is wrong."""
    path = Path(path)
    name = printable(whole(path.name))
    if path.suffix.lower() not in _SUFFIXES:
        raise CasesError(f"{printable(whole(str(path)))}: cases are JSON Lines; name a file that ends with .jsonl")
    text = read_bounded("the cases", os.fspath(path), MAX_BYTES).removeprefix("\ufeff")
    return _worked(_lines(text, name), name)


def cases_of(rows: Iterable[Mapping[str, Any]]) -> tuple[WorkedCase, ...]:
    """Python rows as worked examples. Raises CasesError."""

    def read() -> Iterator[Row]:
        for number, row in enumerate(rows, 1):
            try:
                yield f"case {number}", as_json(row)
            except RowError as error:
                yield f"case {number}", error

    return _worked(read(), "the list of cases")


def for_language(found: Iterable[WorkedCase], language: Language) -> tuple[WorkedCase, ...]:
    """Those that hold in it."""
    return tuple(case for case in found if language in case.languages)


def _lines(text: str, name: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{name}:{number}", columns(parse_json(line))
            except RowError as error:
                yield f"{name}:{number}", error


def _worked(rows: Iterable[Row], name: str) -> tuple[WorkedCase, ...]:
    own: deque[WorkedColumns] = deque()

    def stripped() -> Iterator[Row]:
        for where, row in rows:
            if isinstance(row, RowError):
                raise CasesError(f"{where}: {row}")
            own.append(_own(where, row))
            yield where, {column: value for column, value in row.items() if column not in WorkedColumns.model_fields}

    ids = Ids()
    found: list[WorkedCase] = []
    places: dict[str, str] = {}
    try:
        for case in cases(stripped(), ids):
            if case.broken is not None:
                raise CasesError(case.broken)
            if ids.repeated:
                first = case.id.removesuffix(f"#{case.number}")
                raise CasesError(
                    f"{case.where}: {places[first]} has the id {shown(first, 60)} already; give each case its own"
                )
            if case.number > MAX_CASES:
                raise CasesError(f"{name} has more than {MAX_CASES:,} cases; split it, or take a dataset and `run`")
            places[case.id] = case.where
            found.append(_with(case, own.popleft()))
    finally:
        ids.close()
    if not found:
        raise CasesError(f'{name} has no cases; write one a line: {{"output": …, "expected": {{"score": 1}}}}')
    return tuple(found)


def _with(case: Case, own: WorkedColumns) -> WorkedCase:
    mapping = InputMapping(paths=own.map, literals=own.set)
    languages = tuple(dict.fromkeys(own.languages))
    return WorkedCase(
        **dict(case), expected=own.expected, mapping=mapping, tolerance=own.tolerance, languages=languages
    )


def _own(where: str, row: Mapping[str, Any]) -> WorkedColumns:
    if "expected" not in row:
        step = 'add what should come of it, such as "expected": {"score": 1}'
        raise CasesError(f"{where}: the case has no `expected`{suggestion('expected', row)}; {step}")
    try:
        own = WorkedColumns.model_validate({name: row[name] for name in WorkedColumns.model_fields if name in row})
    except ValidationError as error:
        raise CasesError(f"{where}: {_problem(error)}") from None
    if not own.expected.model_fields_set:
        raise CasesError(f"{where}: `expected` is empty; name one of {listed(Expected.model_fields)}")
    return own


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ExpectedScore.model_fields if "outputs" in first["loc"] else Expected.model_fields
        key = str(first["loc"][-1])
        return printable(f"`{place}` is unknown{suggestion(key, known)}; known are {listed(known)}", 400)
    is_object = first["type"] in ("model_type", "dict_type")
    must = "must be an object" if is_object else first["msg"].replace("Input should be", "must be")
    return printable(whole(f"`{place}` {must}, not {shown(first['input'], 60)}"), 400)
