"""Worked examples: cases with their expected results."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, ValidationError

import templates
from runner.core.errors import ExamplesError
from runner.core.text import describe, list_names, printable, read_bounded, suggestion, whole
from runner.core.types import Case, ErrorKind, Evaluator, Finite, InputMapping
from runner.engine.scoring.diff import TOLERANCE
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.formats.json_array import array_rows, object_rows
from runner.inputs.datasets.formats.signatures import SAMPLE, json_kind
from runner.inputs.datasets.ids import Ids
from runner.inputs.datasets.rows import Row, as_json, cases, columns, parse_json
from runner.inputs.evaluators.load import in_folder, split_entry
from runner.inputs.evaluators.resolve import is_path
from sandboxes.base import Language, Model

MAX_BYTES = 16 << 20
"""Of a file of worked examples: all of them are held at once."""
MAX_EXAMPLES = 20_000

_SUFFIXES = (".jsonl", ".ndjson")


class ExpectedScore(Model):
    """The expected result of one output; only fields that are set are compared."""

    label: str | None = None
    score: Finite | None = Field(default=None, strict=True)
    explanation: str | None = None


class ExpectedResult(ExpectedScore):
    """The expected result of an example. Unless it has an outcome, `kind` or `message`, any failure is wrong."""

    outcome: Literal["scored", "abstained", "failed"] | None = None
    kind: ErrorKind | None = None
    message: str | None = None
    """A part of the error's message."""
    outputs: dict[str, ExpectedScore] = Field(default_factory=dict)
    """By name, where the evaluator has several."""


class Example(Case):
    """A case with its expected result."""

    expected: ExpectedResult
    mapping: InputMapping = InputMapping()
    """Its own parameters, which override all others."""
    tolerance: float = TOLERANCE
    """The allowed difference of the score."""
    languages: tuple[Language, ...] = ("python", "typescript")
    """The languages that the example is for."""


class ExampleColumns(Model):
    """The columns that make a case an example; an evaluator never sees them."""

    expected: ExpectedResult
    set: dict[str, Any] = Field(default_factory=dict)
    map: dict[str, str] = Field(default_factory=dict)
    tolerance: float = Field(default=TOLERANCE, ge=0, strict=True, allow_inf_nan=False)
    languages: list[Language] = Field(default=["python", "typescript"], min_length=1)


def find_examples(evaluator: str | os.PathLike[str] | Evaluator) -> Path:
    """
    Return the worked examples of a template, or those beside a script: `NAME.cases.jsonl`, else `cases.jsonl`.

    Raises:
        ExamplesError: Where there are none.
    """
    if isinstance(evaluator, Evaluator):
        raise ExamplesError(
            f"an Evaluator has no folder to look for the examples of {printable(evaluator.name, 80)}; name a file"
        )
    name = os.fspath(evaluator)
    if not is_path(name):
        try:
            return templates.cases(name)
        except KeyError:
            raise ExamplesError(f"there is no template named {printable(whole(name), 80)!r}") from None
    script = in_folder(split_entry(name)[0])
    places = [script.with_name(f"{script.stem}.cases.jsonl"), script.with_name("cases.jsonl")]
    for place in places:
        if place.is_file():
            return place
    raise ExamplesError(
        f"no worked examples for {printable(whole(name))}: there is neither {printable(whole(places[0].name))} nor "
        "cases.jsonl beside it; write one, or name the file"
    )


def read_examples(path: str | os.PathLike[str]) -> tuple[Example, ...]:
    """Return all worked examples of a JSON Lines file. Raises InputError for the first mistake in it."""
    path = Path(path)
    name = printable(whole(path.name))
    if path.suffix.lower() not in _SUFFIXES:
        raise ExamplesError(f"{printable(whole(str(path)))}: worked examples are JSON Lines; name a .jsonl file")
    text = read_bounded("the examples", os.fspath(path), MAX_BYTES).removeprefix("\ufeff")
    if (kind := json_kind(text[:SAMPLE], name)) == "lines":
        return _worked(_lines(text, name), name)
    file: BufferedReader = BufferedReader(BytesIO(text.encode("utf-8", "surrogatepass")))
    return _worked(array_rows(file, name) if kind == "array" else object_rows(file, name), name)


def examples_from_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[Example, ...]:
    """Return Python rows as worked examples. Raises ExamplesError."""

    def read() -> Iterator[Row]:
        for number, row in enumerate(rows, 1):
            try:
                yield f"example {number}", as_json(row)
            except RowError as error:
                yield f"example {number}", error

    return _worked(read(), "the list of examples")


def any_examples(
    examples: str | os.PathLike[str] | Iterable[Mapping[str, Any]] | Iterable[Example],
) -> tuple[Example, ...]:
    """Return the examples of a file, or those of rows, or those that were read before. Raises ExamplesError."""
    if isinstance(examples, str | os.PathLike):
        return read_examples(examples)
    some = tuple(examples)
    read = tuple(one for one in some if isinstance(one, Example))
    return read if read and len(read) == len(some) else examples_from_rows(cast("Iterable[Mapping[str, Any]]", some))


def row_of(example: Example) -> dict[str, Any]:
    """Return an example as the row that it is read from."""
    columns = {name: getattr(example, name) for name in ("id", "input", "output", "reference")}
    row = {**example.metadata, **{name: value for name, value in columns.items() if name in example.present}}
    own = ExampleColumns(
        expected=example.expected,
        set=dict(example.mapping.literals),
        map=dict(example.mapping.paths),
        tolerance=example.tolerance,
        languages=list(example.languages),
    )
    return {**row, "id": example.id, **own.model_dump(mode="json", exclude_unset=True)}


def for_language(examples: Iterable[Example], language: Language) -> tuple[Example, ...]:
    """Return the examples for this language."""
    return tuple(case for case in examples if language in case.languages)


def _lines(text: str, name: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{name}:{number}", columns(parse_json(line))
            except RowError as error:
                yield f"{name}:{number}", error


def _worked(rows: Iterable[Row], name: str) -> tuple[Example, ...]:
    own: deque[ExampleColumns] = deque()

    def stripped() -> Iterator[Row]:
        for where, row in rows:
            if isinstance(row, RowError):
                raise ExamplesError(f"{where}: {row}")
            own.append(_own(where, row))
            yield where, {column: value for column, value in row.items() if column not in ExampleColumns.model_fields}

    ids = Ids()
    found: list[Example] = []
    places: dict[str, str] = {}
    try:
        for case in cases(stripped(), ids):
            if case.broken is not None:
                raise ExamplesError(case.broken)
            if ids.repeated:
                first = case.id.removesuffix(f"#{case.number}")
                raise ExamplesError(
                    f"{case.where}: {places[first]} already has the id {describe(first, 60)}; give each example its own"
                )
            if case.number > MAX_EXAMPLES:
                raise ExamplesError(
                    f"{name} has more than {MAX_EXAMPLES:,} examples; split it, or take a dataset and `run`"
                )
            places[case.id] = case.where
            found.append(_with(case, own.popleft()))
    finally:
        ids.close()
    if not found:
        raise ExamplesError(f'{name} has no examples; write one a line: {{"output": …, "expected": {{"score": 1}}}}')
    return tuple(found)


def _with(case: Case, own: ExampleColumns) -> Example:
    mapping = InputMapping(paths=own.map, literals=own.set)
    languages = tuple(dict.fromkeys(own.languages))
    return Example(**dict(case), expected=own.expected, mapping=mapping, tolerance=own.tolerance, languages=languages)


def _own(where: str, row: Mapping[str, Any]) -> ExampleColumns:
    if "expected" not in row:
        step = 'add the expected result, such as "expected": {"score": 1}'
        raise ExamplesError(f"{where}: the example has no `expected`{suggestion('expected', row)}; {step}")
    try:
        own = ExampleColumns.model_validate({name: row[name] for name in ExampleColumns.model_fields if name in row})
    except ValidationError as error:
        raise ExamplesError(f"{where}: {_problem(error)}") from None
    if not own.expected.model_fields_set:
        raise ExamplesError(f"{where}: `expected` is empty; name one of {list_names(ExpectedResult.model_fields)}")
    return own


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ExpectedScore.model_fields if "outputs" in first["loc"] else ExpectedResult.model_fields
        key = str(first["loc"][-1])
        return printable(f"`{place}` is unknown{suggestion(key, known)}; known are {list_names(known)}", 400)
    is_object = first["type"] in ("model_type", "dict_type")
    must = "must be an object" if is_object else first["msg"].replace("Input should be", "must be")
    return printable(whole(f"`{place}` {must}, not {describe(first['input'], 60)}"), 400)
