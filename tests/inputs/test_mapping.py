"""Binding and paths, beyond the tables of docs/rules.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runner
from runner.core.errors import EvaluatorError, MappingError, PathError
from runner.core.types import Case, InputMapping
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import Binding, bind
from runner.inputs.evaluators.paths.jsonpath import MAX_PATH, NoMatchError, parse_path
from runner.inputs.evaluators.paths.rfc9535 import PLACES
from tests.cli.commands import evalcell

SUITE = Path(__file__).parents[3] / "shared" / "cases" / "public_suites" / "jsonpath_cts.jsonl"


def binding(signature: str, mapping: InputMapping | None = None) -> Binding:
    return bind(parse_evaluator(f"def {signature}: pass", "x"), mapping)


def case(**columns: Any) -> Case:
    return Case(number=1, id="1", where="f.jsonl:1", present=frozenset(columns), **columns)


@pytest.mark.skipif(not SUITE.exists(), reason="the compliance suite is not here")
def test_jsonpath_compliance_suite() -> None:
    wrong: list[tuple[str, Any]] = []
    tests = [json.loads(line) for line in SUITE.open("rb")]
    for test in tests:
        try:
            path = parse_path(test["selector"], trusted=True)
        except PathError:
            if not test.get("invalid_selector"):
                wrong.append((test["id"], "refused"))
            continue
        if test.get("invalid_selector"):
            wrong.append((test["id"], "accepted"))
            continue
        try:
            value = path.value(test["document"])
            got = [value] if path.singular else value
        except NoMatchError:
            got = []
        if got not in (test["results"] if "results" in test else [test["result"]]):
            wrong.append((test["id"], got))
    assert len(tests) == 703
    assert not wrong


@pytest.mark.parametrize(
    "path",
    [
        "$[?match(@.a, 'x')]",
        "$[?search(@.a, '(a+)+b')]",
        "output[?@..a]",
        "output[?@.a[*]]",
        "output[?@.a == $.reference]",
        "output[?!(@.a && (@.b || @.*))]",
        "output[?count(@..*) > 1]",
        "output[?length(@.a) > 1 && value(@..x) == 1]",
    ],
)
def test_a_header_may_not_ask_for_much_work(path: str) -> None:
    parse_path(path, trusted=True)
    with pytest.raises(PathError, match="a header must not"):
        parse_path(path)
    script = f"# /// script\n# [tool.evalcell]\n# mapping.x = {json.dumps(path)}\n# ///\ndef evaluate(x): 0\n"
    with pytest.raises(EvaluatorError, match=r"x\.py:3: `mapping\.x`.*a header must not"):
        parse_evaluator(script, "x", "x.py")


@pytest.mark.parametrize("path", ["output[*].a", "output..a", "output[?@.a == 'x' && !@.b[0]].c", "$..[0:9:2]"])
def test_a_header_may_ask_for_some_work(path: str) -> None:
    assert parse_path(path).singular is False


@pytest.mark.rotating("bounds of work and memory", "scripts")
@pytest.mark.parametrize("path", ["$..x", "$..*", "$..[?@.a == 1]", "$" + "[*,*]" * 30, "$" + "..*" * 20])
def test_work_on_one_row_is_bounded(path: str) -> None:
    row = {"output": [{"a": [1, 2, 3]}] * (PLACES // 2)}
    with pytest.raises(PathError, match="looks at more than 200,000 places of the row; narrow it"):
        parse_path(path).value(row)


WIDE = [{"a": [{"b": [1] * 6}] * 10}] * 20
DEEP: Any = "x" * 100_000
for _ in range(400):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("mapping", "output", "why"),
    [
        (
            {"x": "output..*..*..*..*"},
            WIDE * 9,
            "`x`: $.output..*..*..*..* looks at more than 50,000 places of the row",
        ),
        # One path alone may do so.
        (dict.fromkeys("abcdefgh", "output..*..*"), WIDE, "looks at more than 50,000 places of the row"),
        ({"x": "output..*"}, DEEP, "$.output..* gives more than 4 MB of the row"),
        ({"x": f"output[{','.join(['0'] * 450)}]"}, ["x" * 100_000], "gives more than 4 MB of the row"),
        ({f"x{n}": "output" for n in range(60)}, "x" * 100_000, "$.output gives more than 4 MB of the row"),
        ({f"x{n}": "output[0]" for n in range(60)}, ["x" * 100_000], "$.output[0] gives more than 4 MB of the row"),
    ],
)
def test_work_of_all_paths_on_one_row_is_bounded_by_its_calls_timeout(
    mapping: dict[str, str], output: Any, why: str
) -> None:
    evaluator = parse_evaluator("def evaluate(**values): return 1\n", "e")
    row = case(output=output)
    with pytest.raises(MappingError) as error:
        bind(evaluator, InputMapping(paths=mapping), timeout=1).arguments(row)
    assert why in str(error.value)
    assert str(error.value).endswith("; narrow it, or raise Limits(timeout=…)")
    if "looks" in why and len(mapping) > 1:
        assert bind(evaluator, InputMapping(paths=mapping), timeout=50).arguments(row)[1]
    with pytest.raises(MappingError, match=r"; narrow it$"):
        bind(evaluator, InputMapping(paths={"x": "output..*..*..*..*"}), timeout=1e9).arguments(case(output=WIDE * 999))


def test_the_row_alone_fails_and_the_timeout_is_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def evaluate(x): return len(x)\n")
    rows = [{"output": one} for one in (["a"], WIDE * 20, ["b", "c"])]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["run", str(tmp_path / "s.py"), str(tmp_path / "rows.jsonl"), "--map", "x=output..*..*", "--json"]
    summary = json.loads(evalcell(*asked, "--timeout", "1").stdout)
    assert (summary["scored"], summary["failed"]) == (2, 1)
    told = evalcell(*asked[:-1], "--timeout", "1").output
    assert "rows.jsonl:2: `x`: $.output..*..* looks at more than 50,000 places of the row" in " ".join(told.split())
    assert "or raise --timeout" in " ".join(told.split())
    assert json.loads(evalcell(*asked, "--timeout", "30").stdout)["failed"] == 0


def test_a_path_to_keep_or_for_the_id_that_is_too_much_fails_its_row_and_is_no_null() -> None:
    rows = [{"output": "a", "reference": "a", "tree": one} for one in (WIDE, WIDE * 200)]
    report = runner.evaluate("exact-match", rows, keep="metadata.tree..*..*")
    assert [result.outcome for result in report.results] == ["scored", "failed"]
    assert report.results[1].error is not None
    assert "a column to keep: $.metadata.tree..*..* looks at more than" in report.results[1].error.message
    named = runner.evaluate("exact-match", rows[1:], id="$.metadata.tree..*..*").results
    assert [(one.outcome, one.error and one.error.message) for one in named] == [
        ("failed", "row 1: its id: $.metadata.tree..*..* looks at more than 200,000 places of the row; narrow it")
    ]


def test_deep_rows_do_not_run_out_of_stack() -> None:
    deep: Any = {"x": 1}
    for _ in range(3000):
        deep = {"a": [deep]}
    assert parse_path("$..x").value(deep) == [1]


@given(st.text(st.sampled_from("$.[]*?@()'\"\\:,!<>=&| -0a1e²\ud800\n")) | st.text(max_size=20))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
        path.value({"output": {"a": [1, {"e": 2}]}, "a": 1})
        said = ""
    except PathError as error:
        said = str(error)
    assert said.isprintable()


@pytest.mark.parametrize("text", ["$[?" + "(" * 900, "$[?" + "!" * 900, "$" + "[" * 900, "a" * (MAX_PATH + 1)])
def test_hostile_paths_are_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_path(text)


def test_no_match_says_where_it_ended() -> None:
    for path, message in [
        ("output.a.c", r"\$\.output\.a has the keys `b`"),
        ("output.a.b[2]", r"\$\.output\.a\.b is a list of 1"),
        ("output.a.b[0].x", r"\$\.output\.a\.b\[0\] is text, which paths do not look into"),
        ("reference", r"\$ has the keys `output`"),
    ]:
        with pytest.raises(NoMatchError, match=message):
            parse_path(path).value({"output": {"a": {"b": ["x"]}}})


def test_a_caller_beats_the_header() -> None:
    header = '# /// script\n# [tool.evalcell]\n# mapping.k = {literal = 1}\n# mapping.output = "input"\n# ///\n'
    evaluator = parse_evaluator(header + "def evaluate(output, k): pass\n", "x")
    row = case(input=2, output=3)
    assert bind(evaluator).arguments(row) == ((), {"output": 2, "k": 1})
    asked = InputMapping(paths={"k": "output"}, literals={"output": None})
    assert bind(evaluator, asked).arguments(row) == ((), {"output": None, "k": 3})


def test_positional_parameters() -> None:
    bound = binding("evaluate(output, reference=0, /, *, metadata)")
    assert bound.arguments(case(output=1, reference=2, metadata={})) == ((1, 2), {"metadata": {}})
    assert bound.arguments(case(output=1, metadata={})) == ((1,), {"metadata": {}})


def test_names_for_keyword_arguments_are_checked() -> None:
    for name in ("a b", "", "1x"):
        with pytest.raises(MappingError, match="cannot be a parameter's name"):
            binding("evaluate(output, **rest)", InputMapping(literals={name: 1}))


def test_literals_must_be_json() -> None:
    for literal in (float("nan"), object(), {1, 2}):
        with pytest.raises(MappingError, match="is not a JSON value"):
            binding("evaluate(k)", InputMapping(literals={"k": literal}))


def test_a_row_without_the_column_is_named() -> None:
    with pytest.raises(MappingError, match=r"^f\.jsonl:1: the row has no `reference` \(did you mean `Reference`\?\); "):
        binding("evaluate(reference)").arguments(case(metadata={"Reference": 1}))
    with pytest.raises(
        MappingError,
        match=r"another with InputMapping\(paths={\"reference\": \"COLUMN\"}\) \(it has `output`, `gold`\), or give",
    ):
        binding("evaluate(reference)").arguments(case(output=1, metadata={"gold": 1}))


def test_a_path_to_a_column_in_metadata_is_told() -> None:
    bound = binding("evaluate(output)", InputMapping(paths={"output": "answer.text"}))
    with pytest.raises(MappingError, match=r"; other columns are in metadata: \$\.metadata\.answer\.text$"):
        bound.arguments(case(metadata={"answer": {"text": 1}}))
    with pytest.raises(MappingError, match=r"\$ is an empty object$"):
        bound.arguments(case())


def test_describe() -> None:
    mapping = InputMapping(paths={"a": "output.x"}, literals={"b": [1]})
    words = binding("evaluate(output, a, b, c=1, reference=None)", mapping).describe()
    assert words == {
        "output": "$.output (by name)",
        "a": "$.output.x",
        "b": "literal [1]",
        "c": "c (by name, else its default)",
        "reference": "$.reference (by name, else its default)",
    }
