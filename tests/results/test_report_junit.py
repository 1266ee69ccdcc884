"""JUnit XML and GitLab's code quality: what their readers read, and text that XML can hold."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as xml

import pytest

from runner.results.reports.code_quality import code_quality
from runner.results.reports.content import FAILED_ROWS
from runner.results.reports.junit import junit
from tests.results.report_contents import EVIL, content, failed, scored

SCHEMA = {
    # By element, of Jenkins's xunit schema: what it may hold, and the attributes of which the first are required.
    "testsuites": ({"testsuite"}, ["tests", "failures", "errors", "skipped"], set()),
    "testsuite": (
        {"properties", "testcase"},
        ["name", "tests", "failures", "errors", "skipped", "time"],
        set(),
    ),
    "properties": ({"property"}, [], set()),
    "property": (set(), ["name", "value"], set()),
    "testcase": ({"failure", "error", "skipped", "system-out"}, ["classname", "name", "time"], {"file", "line"}),
    "failure": (set(), ["message", "type"], set()),
    "error": (set(), ["message", "type"], set()),
    "skipped": (set(), ["message"], set()),
    "system-out": (set(), [], set()),
}


def read(text: str) -> xml.Element:
    """The root, after its shape and its counts are checked."""
    root = xml.fromstring(text.encode())
    for element in root.iter():
        children, required, more = SCHEMA[element.tag]
        assert {child.tag for child in element} <= children
        assert set(required) <= set(element.attrib) <= {*required, *more}
    for suite in root:
        cases = suite.findall("testcase")
        names = [(case.get("classname"), case.get("name")) for case in cases]
        assert len(set(names)) == len(names)  # GitLab takes two of one name for one
        assert suite.get("tests") == str(len(cases)) != "0"
        for counted, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(counted) == str(len(suite.findall(f"testcase/{tag}")))
    assert root.get("failures") == str(sum(int(suite.get("failures", "")) for suite in root))
    return root


def verdicts(root: xml.Element) -> dict[str, list[str]]:
    return {case.get("name", ""): [child.tag for child in case] for case in root.iter("testcase")}


def test_a_case_a_gate_and_a_failed_row_with_its_place() -> None:
    rows = [scored(1), scored(2, 0.2), failed(3), failed(4, lost=True)]
    root = read(junit([content(rows, require=["mean>=0.9", "rows>=1", "rows>9"])]))
    assert verdicts(root) == {
        "run": ["system-out"],
        "mean>=0.9": ["error"],  # it cannot be judged
        "rows>=1": [],
        "rows>9": ["failure"],
        "row 3: r3": ["failure"],
        "row 4: r4": ["error"],
    }
    place = {(case.get("file"), case.get("line")) for case in root.iter("testcase") if case.get("file")}
    assert place == {("data.jsonl", "3"), ("data.jsonl", "4")}
    (message,) = [f.get("message", "") for f in root.iter("failure") if f.get("type") == "raised"]
    assert message == "failed: raised: ValueError: no (data.jsonl:3)"


def test_rows_that_may_fail_make_no_pipeline_red() -> None:
    root = read(junit([content([scored(1), failed(2)], max_failed="50%")]))
    assert verdicts(root) == {"run": ["system-out"], "max-failed 50%": [], "row 2: r2": ["skipped"]}
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "nothing was scored: the dataset has no rows"),
        ({"state": "interrupted"}, "the run was interrupted"),
        ({"state": "failed", "error": "no disk"}, "no disk"),
    ],
)
def test_a_run_without_a_verdict_is_an_error(more: dict[str, Any], said: str) -> None:
    run = content([], **more)
    assert [error.get("message") for error in read(junit([run])).iter("error")] == [said]
    assert [said in finding["description"] for finding in json.loads(code_quality([run]))] == [True]


def test_of_very_many_failed_rows_the_first_are_named() -> None:
    run = content([scored(1), *(failed(n, id=str(n)) for n in range(2, FAILED_ROWS + 12))])
    root = read(junit([run]))
    assert len([name for name in verdicts(root) if name.startswith("row ")]) == FAILED_ROWS
    assert [case.get("name") for case in root.iter("testcase")][-1] == "more rows"
    assert root.findall("testsuite/testcase")[-1][0].get("message") == "10 rows more failed or were lost"
    assert len(json.loads(code_quality([run]))) == FAILED_ROWS


def test_any_text_makes_xml() -> None:
    evil = content([failed(1, EVIL, id=EVIL)], source=EVIL, name=EVIL, error=EVIL, state="failed")
    text = junit([evil, evil])
    root = read(text)
    assert [suite.get("name", "")[-4:] for suite in root][1] == " (2)"
    assert "<script" not in text
    assert not {"\x00", "\x1b", "\ud800", "\u202e"} & set(text)


def test_a_finding_is_the_same_in_the_next_run() -> None:
    first = json.loads(code_quality([content([scored(1), failed(2)], require=["rows>9"])]))
    again = json.loads(code_quality([content([scored(1), failed(2, "another"), failed(3)], require=["rows>9"])]))
    assert {finding["severity"] for finding in first} == {"critical", "major"}
    assert {f["fingerprint"] for f in first} == {f["fingerprint"] for f in again[:2]}
    assert [f["location"]["lines"]["begin"] for f in again] == [1, 2, 3]
    for finding in json.loads(code_quality([content([failed(1, EVIL, id=EVIL)], source=EVIL)])):
        assert finding.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert finding["description"].isprintable()
        assert finding["location"]["path"].isprintable()
