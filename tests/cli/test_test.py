"""`evalcell test`, in this process: which cases are tried, what is shown, how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import evalcell, header, write_rows

SAME = '''"""Whether two texts are the same."""
def evaluate(output, reference, strict=False):
    print("comparing", output)
    same = output == reference if strict else output.strip() == reference.strip()
    return {"label": "same" if same else "different", "score": float(same), "explanation": f"{output!r}"}
'''
EQUAL = {"id": "equal", "output": "a", "reference": "a", "expected": {"label": "same", "score": 1}}
BLANK = {"id": "blank", "output": "a ", "reference": "a", "expected": {"score": 1}}
STRICT = BLANK | {"id": "strict", "set": {"strict": True}}


@pytest.fixture
def same(here: Path) -> Path:
    """A folder with a script and two worked examples that hold."""
    Path("same.py").write_text(SAME)
    write_rows(Path("cases.jsonl"), [EQUAL, BLANK])
    return here


def words(text: str) -> str:
    return " ".join(text.split())


def test_all_pass(same: Path) -> None:
    result = evalcell("test", "same.py")
    assert (result.exit_code, result.stdout) == (0, "2 passed, 0 failed\n"), result.stderr
    assert result.stderr == "sandbox: no packages declared -> wasm\n"


def test_a_failed_case_shows_expected_above_got(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL, STRICT, EQUAL | {"id": "null", "output": None}])
    result = evalcell("test", "same.py")
    assert result.exit_code == 1
    shown = [words(line) for line in result.stdout.splitlines()]
    assert shown[:4] == ["failed strict cases.jsonl:2", "score expected 1.0", "got 0.0", "printed comparing a"]
    assert shown[5:8] == [
        "failed null cases.jsonl:3",
        "outcome expected scored",
        "got failed: raised: AttributeError: 'NoneType' object has no",
    ]
    assert shown[-1] == "1 passed, 2 failed"
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_texts_that_differ_in_what_cannot_be_seen_are_told_apart(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [BLANK | {"expected": {"explanation": "'a'", "label": None}}])
    shown = words(evalcell("test", "same.py").stdout)
    assert """explanation expected "'a'" got "'a '" """ in shown + " "
    assert 'label expected null got "same"' in shown


def test_a_long_text_is_shown_where_it_differs(same: Path) -> None:
    Path("long.py").write_text("def evaluate(output):\n    return {'score': 1, 'explanation': 'x' * 5000 + output}\n")
    write_rows(Path("cases.jsonl"), [{"output": "y", "expected": {"explanation": "x" * 5000 + "z"}}])
    shown = evalcell("test", "long.py").stdout
    assert re.search(r'expected +"…x+z"', shown)
    assert re.search(r'got +"…x+y"', shown)
    assert len(shown) < 500


def test_verbose_lists_what_passed_and_quiet_nothing(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL, STRICT])
    assert "passed  equal  cases.jsonl:1\nfailed  strict  cases.jsonl:2\n" in evalcell("test", "same.py", "-v").stdout
    result = evalcell("test", "same.py", "-q")
    assert (result.exit_code, result.output) == (1, "")


def test_json_has_every_case(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL, STRICT])
    result = evalcell("test", "same.py", "--json", "-q")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert (report["passed"], report["failed"], report["lost"], report["skipped"]) == (1, 1, 0, 0)
    assert [(case["id"], case["verdict"]) for case in report["examples"]] == [("equal", "passed"), ("strict", "failed")]
    assert report["examples"][1]["differences"] == [{"field": "score", "expected": 1.0, "got": 0.0}]
    assert report["examples"][1]["result"]["label"] == "different"


def test_cases_of_the_scripts_own_name_come_first(same: Path) -> None:
    write_rows(Path("same.cases.jsonl"), [EQUAL])
    assert evalcell("test", "same.py").stdout.startswith("1 passed")
    assert evalcell("test", str(same / "same.py")).stdout.startswith("1 passed")
    assert evalcell("test", "same.py", "cases.jsonl").stdout.startswith("2 passed")


def test_a_template_brings_its_own(same: Path) -> None:
    write_rows(Path("mine.jsonl"), [{"output": {"a": 1}, "reference": {"a": 2}, "expected": {"score": 1}}])
    result = evalcell("test", "json_distance")
    assert result.exit_code == 0, result.output
    assert " passed, 0 failed" in result.stdout
    result = evalcell("test", "json-distance", "mine.jsonl", "--lang", "py")
    assert result.stdout.startswith("1 passed, 0 failed"), result.output


def test_set_and_map_of_a_case_go_over_those_of_the_command_line_and_of_the_script(here: Path) -> None:
    source = "def evaluate(a, b=None, c=None):\n    return f'{a} {b} {c}'\n"
    Path("abc.py").write_text(header(source, "[tool.evalcell.mapping]", 'c = "output.c"'))
    row = {"output": {"c": "C", "x": "X"}, "set": {"a": 1}}
    rows: list[dict[str, Any]] = [
        row | {"expected": {"label": "1 B C"}},
        row | {"map": {"b": "output.x"}, "expected": {"label": "1 X C"}},
        row | {"set": {"a": 1, "c": None}, "expected": {"label": "1 B None"}},
        row | {"set": {}, "expected": {"kind": "mapping", "message": "cases.jsonl:4: the row has no `a`"}},
    ]
    write_rows(Path("cases.jsonl"), rows)
    result = evalcell("test", "abc.py", "--set", 'b="B"')
    assert result.exit_code == 0, result.output


def test_a_case_that_cannot_be_filled_fails_alone(same: Path) -> None:
    rows = [EQUAL, STRICT | {"set": {"stric": 1}}, EQUAL | {"id": "c", "map": {"strict": "$.output["}}]
    write_rows(Path("cases.jsonl"), rows)
    result = evalcell("test", "same.py")
    assert result.exit_code == 1
    shown = words(result.stdout)
    assert "mapping: cases.jsonl:2: evaluate(output, reference, strict) has no parameter `stric`" in shown
    assert "mapping: cases.jsonl:3: `strict`: $.output[ is not an RFC 9535 path" in shown
    assert "1 passed, 2 failed" in shown


def test_the_paths_of_a_cases_file_are_not_trusted(same: Path) -> None:
    costly = EQUAL | {
        "map": {"strict": "$..[?@..a]"},
        "expected": {"kind": "mapping", "message": "which a header must"},
    }
    write_rows(Path("cases.jsonl"), [costly])
    result = evalcell("test", "same.py")
    assert result.exit_code == 0, result.output


def test_the_columns_that_make_a_case_are_hidden_from_the_script(here: Path) -> None:
    Path("sees.py").write_text("def evaluate(output, metadata=None):\n    return str(metadata)\n")
    row = {"output": 1, "tag": "t", "set": {}, "map": {}, "tolerance": 1, "languages": ["python"]}
    write_rows(Path("cases.jsonl"), [row | {"expected": {"label": "{'tag': 't'}"}}])
    result = evalcell("test", "sees.py")
    assert result.exit_code == 0, result.output


def test_cases_of_another_language_are_left_out_and_counted(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL, STRICT | {"languages": ["typescript"]}])
    result = evalcell("test", "same.py")
    assert (result.exit_code, result.stdout) == (0, "1 passed, 0 failed, 1 not for python\n")
    write_rows(Path("cases.jsonl"), [STRICT | {"languages": ["typescript"]}])
    result = evalcell("test", "same.py")
    assert result.exit_code == 3
    assert "no example is for python; nothing was tried" in result.stderr


WRONG = [
    ("", "cases.jsonl has no examples; write one a line"),
    ("\n \n", "cases.jsonl has no examples"),
    ("[1]", "cases.jsonl:1: a row must be an object"),
    ('{"output": 1}', "cases.jsonl:1: the example has no `expected`; add the expected result"),
    ('{"output": 1, "expecte": {}}', "has no `expected` (did you mean `expecte`?)"),
    ('\n{"output": 1, "expected": {}}', "cases.jsonl:2: `expected` is empty; name one of `label`, `score`"),
    ('{"expected": {"scor": 1}}', "`expected.scor` is unknown (did you mean `score`?); known are `label`"),
    ('{"expected": 1}', "cases.jsonl:1: `expected`"),
    ('{"expected": {"score": "1"}}', "`expected.score` must be a valid number, not '1'"),
    ('{"expected": {"score": true}}', "`expected.score` must be a valid number, not True"),
    ('{"expected": {"label": 1}}', "`expected.label` must be a valid string, not 1"),
    ('{"expected": {"outcome": "lost"}}', "`expected.outcome` must be 'scored', 'abstained' or 'failed', not 'lost'"),
    ('{"expected": {"outputs": {"a": {"kind": "x"}}}}', "`expected.outputs.a.kind` is unknown; known are `label`"),
    ('{"expected": {"score": 1}, "set": []}', "`set` must be an object, not []"),
    ('{"expected": {"score": 1}, "map": {"a": 1}}', "`map.a` must be a valid string, not 1"),
    ('{"expected": {"score": 1}, "tolerance": -1}', "`tolerance` must be greater than or equal to 0, not -1"),
    ('{"expected": {"score": 1}, "languages": ["perl"]}', "`languages.0` must be 'python' or 'typescript'"),
    ('{"expected": {"score": 1}, "languages": []}', "`languages`"),
    ('{"expected": {"score": NaN}}', "cases.jsonl:1: NaN is not JSON"),
    ('{"id": "x", "expected": {"score": 1}}\n' * 2, "cases.jsonl:2: cases.jsonl:1 already has the id 'x'"),
    ('{"expected": {"score": 1}, "metadata": 3}', "cases.jsonl:1: metadata must be an object"),
    ('{"expected": ' + "[" * 600 + "]" * 600 + "}", "cases.jsonl:1: nested more than 500 levels deep"),
    ('{"\x1b[2J": 1}\x1b[2J', "cases.jsonl:1: not JSON: Invalid control character"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m[:50] for _, m in WRONG])
def test_cases_that_cannot_be_tried_are_2_and_name_the_line(same: Path, text: str, message: str) -> None:
    Path("cases.jsonl").write_text(text)
    result = evalcell("test", "same.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in words(result.stderr)
    assert "\x1b" not in result.stderr


def test_cases_that_are_not_there_are_2(same: Path) -> None:
    result = evalcell("test", "length.py", "nothing.jsonl")
    assert result.exit_code == 2
    assert "the examples nothing.jsonl: there is no such file" in result.stderr
    Path("cases.jsonl").unlink()
    result = evalcell("test", "length.py")
    assert result.exit_code == 2
    assert (
        "no worked examples for length.py: there is neither length.cases.jsonl nor cases.jsonl beside it"
        in result.stderr
    )
    result = evalcell("test", "length.py", "length.py")
    assert (result.exit_code, "examples are JSON Lines" in result.stderr) == (2, True)
    result = evalcell("test", "same.py", "--set", "nope=1")
    assert result.exit_code == 2


def test_a_file_of_cases_is_bounded(same: Path) -> None:
    with Path("cases.jsonl").open("wb") as file:
        file.truncate(17 << 20)
    result = evalcell("test", "same.py")
    assert result.exit_code == 2
    assert "cases.jsonl is larger than 16 MB" in result.stderr
    row = json.dumps({"expected": {"score": 1}})
    Path("cases.jsonl").write_text(f"{row}\n" * 20_001)
    result = evalcell("test", "same.py")
    assert result.exit_code == 2
    assert "more than 20,000 examples" in result.stderr


def test_nothing_that_a_script_or_a_case_says_reaches_the_terminal_as_it_is(same: Path) -> None:
    evil = "\x1b[2J\u202e[bold]"
    Path("evil.py").write_text(f"def evaluate(output):\n    print({evil!r})\n    return {evil!r}\n")
    write_rows(Path("cases.jsonl"), [{"id": evil, "expected": {"label": evil + "x"}, "output": 1}])
    shown = evalcell("test", "evil.py").stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]" in shown


def test_half_of_a_surrogate_pair_is_told_whatever_is_printed(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL | {"id": "\ud800", "expected": {"label": "\ud800"}}])
    result = evalcell("test", "same.py")
    assert result.exit_code == 1
    assert 'expected "\\ud800"' in words(result.stdout)
    assert evalcell("test", "same.py", "--json").exit_code == 1


@pytest.mark.usefixtures("theirs")
def test_a_sandbox_of_a_third_party_and_its_options(same: Path) -> None:
    write_rows(Path("cases.jsonl"), [EQUAL | {"expected": {"score": 1, "label": None}}])
    result = evalcell("test", "same.py", "--with", "pandas", "--sandbox", "theirs", "--json", "-j", "2")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sandbox"] == "theirs"


@pytest.mark.usefixtures("lossy")
def test_a_sandbox_that_is_lost_is_3_and_no_failed_case(same: Path) -> None:
    result = evalcell("test", "same.py", "--sandbox", "lossy")
    assert result.exit_code == 3
    assert "lost equal cases.jsonl:1" in words(result.stdout)
    assert "0 passed, 0 failed, 2 lost (the sandbox failed; run it again)" in result.stdout


@pytest.mark.usefixtures("lossy")
def test_a_sandbox_that_cannot_start_is_3(same: Path) -> None:
    result = evalcell("test", "same.py", "--sandbox", "lossy", "--allow-network")
    assert result.exit_code == 3
    assert "cannot start here" in result.stderr
