"""The tables of docs/rules.md, row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter

from runner import Report, RequirementError
from runner.cli.commands.score.run import exit_code
from runner.cli.values import mapping
from runner.core.doors import speaking
from runner.core.errors import MappingError
from runner.core.types import Case, Continuous, Evaluator, InputMapping, Outcome, OutputConfig, Result
from runner.engine.scoring.failure_limits import parse_most
from runner.engine.scoring.gates import judge, parse_gate
from runner.engine.scoring.normalize import InvalidResultError, normalize
from runner.engine.scoring.run_totals import Repeats
from runner.engine.scoring.tally import Tally
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.rows import RowReading, cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind
from runner.results.output.cells import escape_cell
from tests.inputs.parsing import parsed, refusal

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"


def tables() -> dict[str, list[tuple[str, ...]]]:
    """The rows of every table, by its heading line `a | b`, without backticks."""
    found: dict[str, list[tuple[str, ...]]] = {}
    rows: list[tuple[str, ...]] | None = None
    for line in DOCUMENT.read_text("utf-8").splitlines():
        if not line.startswith("|"):
            rows = None
        elif rows is None:
            rows = found.setdefault(line.strip("| "), [])
        elif set(line) - set("|-"):
            cells = re.split(r"(?<!\\)\|", line.strip()[1:-1])
            rows.append(tuple(re.sub(r"^(`+) ?(.*?) ?\1$", r"\2", cell.strip()) for cell in cells))
    return found


TABLES = tables()
USED = {"config | is", "TypeScript returned | is taken for", "TypeScript returned or threw | kind | the message says"}
"""At first those that are not read here: the last two need a sandbox, tests/deno/test_values.py tries them."""
CONFIGS: dict[str, OutputConfig] = {
    name: TypeAdapter(OutputConfig).validate_json(text) for name, text in TABLES["config | is"] if text != "null"
}


def rows(heading: str, least: int) -> list[Any]:
    table = TABLES[heading]
    assert len(table) >= least, "the document has lost rows"
    USED.add(heading)
    return [pytest.param(*row, id=f"{number}-{row[0]}"[:60]) for number, row in enumerate(table, 1)]


def outputs(config: str) -> dict[str, OutputConfig]:
    return {} if config == "none" else {"": CONFIGS[config]}


@pytest.mark.parametrize(("several", "row"), rows("results of a row | the row", 7))
def test_several_results_of_a_row(several: str, row: str) -> None:
    from tests.engine.test_repeats import result

    given, expected = json.loads(several), json.loads(row)
    repeats = Repeats(len(given))
    found = [repeats.add(result(one, repeat=number)) for number, one in enumerate(given, 1)]
    last = found.pop()
    assert last is not None
    assert found == [None] * (len(given) - 1)
    assert last.score == (None if expected["score"] is None else pytest.approx(expected["score"], abs=1e-15))
    assert (last.outcome, repeats.unstable, repeats.rows) == (expected["outcome"], expected.get("unstable", False), 1)


@pytest.mark.parametrize(
    ("config", "returned", "outcome", "label", "score", "explanation"),
    rows("config | returned | outcome | label | score | explanation", 30),
)
def test_accepted_returns(config: str, returned: str, outcome: str, label: str, score: str, explanation: str) -> None:
    normalized = normalize(json.loads(returned), outputs(config))
    got = normalized.scores[""]
    assert normalized.outcome == outcome
    assert got.label == json.loads(label)
    assert got.explanation == json.loads(explanation)
    assert repr(got.score) == repr(json.loads(score))


@pytest.mark.parametrize(("config", "returned", "message"), rows("config | returned | the message says", 25))
def test_refused_returns(config: str, returned: str, message: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        normalize(json.loads(returned), outputs(config))
    assert message in str(caught.value)
    assert "; return " in str(caught.value), "the message shows no accepted shape"


@pytest.mark.parametrize(("config", "returned", "label"), rows("config | TypeScript returned | label", 3))
def test_accepted_returns_of_typescript(config: str, returned: str, label: str) -> None:
    normalized = normalize(json.loads(returned), outputs(config), "typescript")
    assert normalized.scores[""].label == json.loads(label)


@pytest.mark.parametrize(("config", "returned", "message"), rows("config | TypeScript returned | the message says", 8))
def test_refused_returns_of_typescript(config: str, returned: str, message: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        normalize(json.loads(returned), outputs(config), "typescript")
    assert message in str(caught.value)


@pytest.mark.parametrize(("names", "returned", "outcome", "scores"), rows("outputs | returned | outcome | scores", 20))
def test_several_outputs(names: str, returned: str, outcome: str, scores: str) -> None:
    configs = {name: CONFIGS[config] for name, config in json.loads(names).items()}
    value = json.loads(returned)
    if outcome == "invalid_result":
        with pytest.raises(InvalidResultError, match=re.escape(scores)):
            normalize(value, configs)
        return
    normalized = normalize(value, configs)
    assert normalized.outcome == outcome
    assert {name: score.score for name, score in normalized.scores.items()} == json.loads(scores)


@pytest.mark.parametrize(("names", "returned", "explanations"), rows("outputs | returned | explanations", 6))
def test_a_shared_explanation(names: str, returned: str, explanations: str) -> None:
    configs = {name: CONFIGS[config] for name, config in json.loads(names).items()}
    normalized = normalize(json.loads(returned), configs)
    assert {name: score.explanation for name, score in normalized.scores.items()} == json.loads(explanations)


def arguments(signature: str, mapping: str, row: str) -> dict[str, Any]:
    evaluator = parse_evaluator(f"def {signature}: pass\n", "rules")
    binding = bind(evaluator, InputMapping.model_validate_json(mapping))
    positional, keywords = binding.arguments(case_of(json.loads(row)))
    assert not positional
    return keywords


def case_of(row: dict[str, Any]) -> Case:
    (case,) = cases_from_rows([row])
    assert case.broken is None
    return case


@pytest.mark.parametrize(("signature", "mapping", "row", "expected"), rows("evaluate | mapping | row | arguments", 12))
def test_mapping(signature: str, mapping: str, row: str, expected: str) -> None:
    assert arguments(signature, mapping, row) == json.loads(expected)


@pytest.mark.parametrize(
    ("signature", "mapping", "row", "message"), rows("evaluate | mapping | row | the message says", 7)
)
def test_mapping_refused(signature: str, mapping: str, row: str, message: str) -> None:
    with speaking("options"), pytest.raises(MappingError) as caught:
        arguments(signature, mapping, row)
    assert message in str(caught.value)


@pytest.mark.parametrize(("source", "mapping", "row", "given"), rows("TypeScript | mapping | row | is given", 12))
def test_typescript_mapping(source: str, mapping: str, row: str, given: str) -> None:
    binding = bind(parsed(source, "typescript"), InputMapping.model_validate_json(mapping))
    positional, keywords = binding.arguments(case_of(json.loads(row)))
    assert (list(positional) or keywords) == json.loads(given)
    assert not (positional and keywords)


@pytest.mark.parametrize(("source", "message"), rows("TypeScript | the message says", 8))
def test_typescript_refused(source: str, message: str) -> None:
    assert message in refusal(source, "typescript")


def declaring(declared: str) -> Evaluator:
    table = f"# [tool.evalcell.parameters]\n# k = {declared}\n"
    return parse_evaluator(f"# /// script\n{table}# ///\ndef evaluate(k): pass\n", "rules")


def by_path(evaluator: Evaluator, value: str) -> Any:
    binding = bind(evaluator, InputMapping(paths={"k": "output"}))
    return binding.arguments(case_of({"output": json.loads(value)}))[1]["k"]


def by_literal(evaluator: Evaluator, value: str) -> Any:
    binding = bind(evaluator, InputMapping(literals={"k": json.loads(value)}))
    return binding.arguments(case_of({}))[1]["k"]


@pytest.mark.parametrize("given", [by_path, by_literal])
@pytest.mark.parametrize(("declared", "value", "gets"), rows("declared | value | evaluate gets", 16))
def test_declared(declared: str, value: str, gets: str, given: Callable[[Evaluator, str], Any]) -> None:
    assert repr(given(declaring(declared), value)) == repr(json.loads(gets))


@pytest.mark.parametrize("given", [by_path, by_literal])
@pytest.mark.parametrize(("declared", "value", "message"), rows("declared | value | the message says", 14))
def test_declared_refused(declared: str, value: str, message: str, given: Callable[[Evaluator, str], Any]) -> None:
    with pytest.raises(MappingError) as caught:
        given(declaring(declared), value)
    assert f"`k` {message}" in str(caught.value)


@pytest.mark.parametrize(("declared", "written", "gets"), rows("declared | written | evaluate gets", 8))
def test_set(declared: str, written: str, gets: str) -> None:
    evaluator = declaring(declared)
    asked = mapping((), [f"k={written}"], evaluator)
    assert bind(evaluator, asked).arguments(case_of({})) == ((), {"k": json.loads(gets)})


@pytest.mark.parametrize(("path", "over", "gives"), rows("path | over | gives", 17))
def test_paths(path: str, over: str, gives: str) -> None:
    binding = bind(parse_evaluator("def evaluate(value): pass\n", "rules"), InputMapping(paths={"value": path}))
    case = case_of(json.loads(over))
    if gives == "no match":
        with pytest.raises(MappingError, match="matches nothing"):
            binding.arguments(case)
    else:
        assert binding.arguments(case) == ((), {"value": json.loads(gives)})


def shape(case: Case) -> dict[str, Any]:
    """What the case has, by column."""
    return {"id": case.id} | {name: getattr(case, name) for name in case.present}


@pytest.mark.parametrize(("line", "expected"), rows("line | the case", 12))
def test_jsonl_row(line: str, expected: str) -> None:
    (case,) = open_dataset("-", stdin=BytesIO(line.encode()))
    assert case.broken is None
    assert shape(case) == json.loads(expected)


@pytest.mark.parametrize(("line", "message"), rows("line | the message says", 11))
def test_jsonl_row_refused(line: str, message: str) -> None:
    broken, good = open_dataset("-", stdin=BytesIO(f'{line}\n{{"output": 1}}'.encode()))
    assert broken.broken is not None
    assert broken.broken.startswith("stdin:1: ")
    assert message in broken.broken
    assert good.output == 1
    assert good.number == 2


@pytest.mark.parametrize(("header", "row", "expected"), rows("header | row | the case", 4))
def test_csv_row(tmp_path: Path, header: str, row: str, expected: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n{row}\n", "utf-8")
    with open_dataset(path) as dataset:
        (case,) = dataset
    assert shape(case) == json.loads(expected)


NAMES = {"Decimal": Decimal, "datetime": datetime, "date": date, "timedelta": timedelta, "UUID": UUID}


@pytest.mark.parametrize(("value", "becomes"), rows("value | becomes", 10))
def test_python_value(value: str, becomes: str) -> None:
    output = case_of({"output": eval(value, NAMES)}).output
    assert repr(output) == repr(json.loads(becomes))


@pytest.mark.parametrize(("text", "expected"), rows("text | cell", 9))
def test_csv_cell_of_a_results_file(text: str, expected: str) -> None:
    assert escape_cell(json.loads(text)) == json.loads(expected)


@pytest.mark.parametrize(
    ("outcomes", "fail_if", "max_failed", "not_passed", "code"),
    rows("outcomes | fail-if | max-failed | not passed | exit code", 38),
)
def test_gates(outcomes: str, fail_if: str, max_failed: str, not_passed: str, code: str) -> None:
    configs: dict[str, OutputConfig] = {"": Continuous(threshold=1)}
    tally = Tally(configs)
    for outcome, count in json.loads(outcomes).items():
        for _ in range(count):
            tally.add(result_of(outcome))
    gates = [parse_gate(text, configs) for text in fail_if.replace("`", "").split(", ") if text]
    judged = judge(tally.summary(), gates, parse_most(max_failed) if max_failed else None)
    got = [f"{gate.gate} {gate.verdict}" for gate in judged.gates if gate.verdict != "passed"]
    assert sorted(got) == sorted(text for text in not_passed.replace("`", "").split(", ") if text)
    assert exit_code(judged) == int(code)


@pytest.mark.parametrize(
    ("outcomes", "require", "max_failed", "max_abstained", "not_passed", "code"),
    rows("outcomes | require | max-failed | max-abstained | not passed | exit code", 15),
)
def test_requirements(
    outcomes: str, require: str, max_failed: str, max_abstained: str, not_passed: str, code: str
) -> None:
    configs: dict[str, OutputConfig] = {"": Continuous(threshold=1)}
    tally = Tally(configs)
    for outcome, count in json.loads(outcomes).items():
        for _ in range(count):
            tally.add(result_of(outcome))
    conditions = [text for text in require.replace("`", "").split(", ") if text]
    gates = [parse_gate(text, configs, required=True) for text in conditions]
    failed, abstained = (parse_most(text) if text else None for text in (max_failed, max_abstained))
    judged = judge(tally.summary(), gates, failed, abstained)
    got = [f"{gate.gate} {gate.verdict}" for gate in judged.gates if gate.verdict != "passed"]
    assert sorted(got) == sorted(text for text in not_passed.replace("`", "").split(", ") if text)
    assert exit_code(judged) == int(code)
    report = Report(results=[], summary=tally.summary())
    if int(code):
        with pytest.raises(RequirementError):
            report.require(*conditions, max_failed=max_failed or None, max_abstained=max_abstained or None)
    else:
        assert report.require(*conditions, max_failed=max_failed or None, max_abstained=max_abstained or None) is report


def result_of(outcome: Outcome) -> Result:
    known = {"id": "1", "number": 1, "evaluator": "e", "version": "v", "sandbox": "s"}
    said = {"score": 1.0, "label": "good"} if outcome == "scored" else {}
    return Result.model_validate(known | {"outcome": outcome} | said)


@pytest.mark.parametrize(("file", "place", "found"), rows("JSON file | place | its rows", 4))
def test_rows_within_a_json_file(tmp_path: Path, file: str, place: str, found: str) -> None:
    (path := tmp_path / "d.json").write_text(file)
    with open_dataset(path, reading=RowReading(rows=place)) as dataset:
        assert [row for _, row in dataset.rows] == json.loads(found)


def test_every_table_is_read() -> None:
    assert set(TABLES) == USED


def test_the_header_of_declared_parameters_is_accepted() -> None:
    """docs/rules.md shows it; the other block of Python there is run by test_cells.py."""
    (header,) = re.findall(r"^```python\n(# \[.*?)^```", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    script = f"# /// script\n{header}# ///\ndef evaluate(output, pattern, mode, limit): ...\n"
    declared = {parameter.name: parameter.declared for parameter in parsed(script).parameters}
    assert declared.pop("output") is None
    assert {name: spec.types for name, spec in declared.items() if spec} == {
        "pattern": ("string",),
        "mode": ("string",),
        "limit": ("integer", "null"),
    }
