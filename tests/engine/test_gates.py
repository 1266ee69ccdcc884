"""`--fail-if`: what is a gate, what it is judged on."""

from __future__ import annotations

import pytest

from runner import Report
from runner.core.errors import InputError, RequirementError
from runner.core.types import Continuous, OutputConfig
from runner.engine.scoring.failure_limits import parse_most
from runner.engine.scoring.gates import gate_words, judge, parse_gate
from runner.engine.scoring.summary import Stats, Summary

THRESHOLD: dict[str, OutputConfig] = {"": Continuous(threshold=0.5)}
NAMED: dict[str, OutputConfig] = {"a": Continuous(threshold=1), "a.b": Continuous(), "rows": Continuous()}

SUMMARY = Summary(
    rows=10,
    scored=6,
    abstained=1,
    failed=2,
    lost=1,
    count=5,
    mean=0.5,
    median=0.4,
    min=0,
    max=1,
    passed=4,
    labels={"no>w": 3, "x": 2},
)


@pytest.mark.parametrize(
    ("text", "value", "broken"),
    [
        ("mean>0.2", 0.5, True),
        (" mean >= 0.5 ", 0.5, True),
        ("mean<.5", 0.5, False),
        ("median <= 4e-1", 0.4, True),
        ("min==0", 0.0, True),
        ("max != 1", 1.0, False),
        ("rows<10", 10.0, False),
        ("scored<7", 6.0, True),
        ("abstained>0", 1.0, True),
        ("failed>-1", 2.0, True),
        ("lost>0", 1.0, True),
        ("failed_rate>0.1", 0.2, True),
        ("passed<4", 4.0, False),
        ("pass_rate<0.9", 0.8, True),
        ("label:x>1", 2.0, True),
        ("label:no>w>=3", 3.0, True),
        ("label:never > 0", 0.0, False),
    ],
)
def test_a_gate_is_judged_on_its_metric(text: str, value: float, broken: bool) -> None:
    gate = parse_gate(text, THRESHOLD)
    assert gate.value(SUMMARY) == value
    assert gate.broken_by(value) is broken


def test_a_requirement_is_broken_where_its_condition_is_false() -> None:
    for text, broken in (("mean>=0.5", False), ("mean>0.5", True), ("failed==0", True), ("label:x>=2", False)):
        gate = parse_gate(text, THRESHOLD, required=True)
        value = gate.value(SUMMARY)
        assert value is not None
        assert gate.broken_by(value) is broken
    with pytest.raises(InputError, match=r"^the requirement 'mean' is not METRIC OP NUMBER"):
        parse_gate("mean", {}, required=True)


def test_a_report_is_required_in_words() -> None:
    report = Report(results=[], summary=SUMMARY)
    assert report.require("failed <= 2", "median > 0.3", max_failed=3, max_abstained="10%") is report
    with pytest.raises(RequirementError) as caught:
        report.require("mean >= 0.8", "rows>=10", max_failed=5, max_abstained=0)
    assert str(caught.value) == (
        "gate 'max-abstained 0' failed: 1 abstained of 10 rows; "
        "required 'mean >= 0.8' is not met: the value is 0.5 (2 rows gave no score for it; 1 of them abstained)"
    )
    with pytest.raises(RequirementError, match="could not be judged, 2 failed and 1 lost of 10 rows"):
        report.require("mean >= 0.1")
    with pytest.raises(RequirementError, match="could not be read to its end"):
        Report(results=[], summary=SUMMARY.model_copy(update={"complete": False})).require("mean>=0", max_failed="100%")
    with pytest.raises(RequirementError, match="nothing was scored: none failed of 0 rows"):
        Report(results=[], summary=Summary()).require()
    with pytest.raises(InputError, match="needs a threshold"):
        report.require("pass_rate>=0.5") and Report(results=[], summary=Summary()).require("pass_rate>=1")
    with pytest.raises(InputError, match="`max_abstained` 'x' is neither"):
        report.require(max_abstained="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "METRIC OP NUMBER"),
        ("mean", "METRIC OP NUMBER"),
        ("mean=0.2", "METRIC OP NUMBER"),
        ("mean=>0.2", "METRIC|metric"),
        ("> 3", "METRIC OP NUMBER"),
        ("mean > ", "is not a number"),
        ("mean > nan", "is not a number"),
        ("mean > inf", "is not a number"),
        ("mean > 1_0", "is not a number"),
        ("mean > 50%", "is not a number"),
        ("average > 1", r"no metric 'average' \(did you mean `mean`\?\); choose one of: mean, median"),
        ("maen > 1", r"no metric 'maen' \(did you mean `mean`\?\)"),
        ("mean=>1", "is not METRIC OP NUMBER; write 'mean>=1'"),
        ("mean =< 0.5", "write 'mean<=0.5'"),
        ("failed≤1", "write 'failed<=1'"),
        ("rows=3", "write 'rows==3'"),
        ("mean=>x", "write for example 'mean>0.2'"),
        ("x.mean > 1", "no metric"),
        ("__class__ > 1", "no metric"),
        ("1 < mean < 2", "no metric"),
        ("pass_rate < 1", "needs a threshold"),
    ],
)
def test_anything_else_is_refused_with_words(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_gate(text, {})


def test_a_gate_may_name_an_output() -> None:
    outputs = {"a": Stats(count=1, mean=1, labels={"x": 1}), "a.b": Stats(count=1, mean=2)}
    summary = Summary(rows=1, count=1, mean=1, outputs=outputs)
    assert parse_gate("a.mean>0", NAMED).value(summary) == 1
    assert parse_gate("a.b.mean>0", NAMED).value(summary) == 2
    assert parse_gate("mean>0", NAMED).value(summary) == 1
    assert parse_gate("a.label:x>0", NAMED).value(summary) == 1
    assert parse_gate("rows>0", NAMED).value(summary) == 1
    with pytest.raises(InputError, match=r"or of a named output, such as a\.mean, a\.b\.mean"):
        parse_gate("c.mean>0", NAMED)
    with pytest.raises(InputError, match="needs a threshold"):
        parse_gate("a.b.pass_rate<1", NAMED)


@pytest.mark.parametrize("text", ["mean>0", "median>0", "min<0", "max>0", "passed<1", "pass_rate<1"])
def test_nothing_to_judge_is_no_value(text: str) -> None:
    nothing = Summary(rows=3, failed=3, passed=0)
    assert parse_gate(text, THRESHOLD).value(nothing) is None
    assert parse_gate("failed_rate>0", {}).value(Summary()) is None


@pytest.mark.parametrize(
    "text", ["", "-1", "5 rows", "0.05", "1_0", "101%", "100.1%", "-1%", "%", "nan", "1e2", "\u0665%"]
)
def test_anything_else_is_no_number_of_rows_that_may_fail(text: str) -> None:
    with pytest.raises(InputError, match=r"neither a number of rows nor a percentage.*max_failed=\"5%\""):
        parse_most(text)


def test_a_gate_on_a_named_output_is_one_on_scores() -> None:
    summary = Summary(
        rows=2, scored=1, failed=1, outputs={"a": Stats(count=1, mean=1, labels={"x": 1}), "a.b": Stats()}
    )
    gates = [parse_gate(text, NAMED) for text in ("a.mean<1", "a.pass_rate<1", "a.label:x>1")]
    verdicts = [gate.verdict for gate in judge(summary, gates).gates]
    assert verdicts == ["unjudged", "unjudged", "unjudged"]
    allowed = judge(summary, [parse_gate("a.b.mean<1", NAMED)], parse_most("50 %")).gates
    assert [(gate.verdict, gate.missing_rows) for gate in allowed] == [("passed", False), ("unjudged", False)]


def test_a_dataset_that_was_not_read_to_its_end_is_judged_on_counts_alone() -> None:
    summary = Summary(rows=10, scored=9, failed=1, count=9, mean=1)
    gates = [parse_gate(text, {}) for text in ("mean<0.9", "rows<10", "failed>0")]
    verdicts = [
        [gate.verdict for gate in judge(summary, gates, parse_most(most), complete=False).gates] for most in ("5", "0")
    ]
    assert verdicts == [["unjudged", "unjudged", "passed", "failed"], ["failed", "unjudged", "passed", "failed"]]


@pytest.mark.parametrize(
    ("text", "failed", "unread"),
    [
        ("label:bad==0", "unjudged", "unjudged"),
        ("label:good>=9", "passed", "passed"),
        ("label:good>=10", "failed", "failed"),
        ("label:good<=11", "passed", "unjudged"),
        ("label:good<=10", "unjudged", "unjudged"),
        ("label:good!=10.5", "passed", "passed"),
        ("label:good!=11", "unjudged", "unjudged"),
    ],
)
def test_a_count_of_labels_passes_only_if_no_missing_row_could_break_it(text: str, failed: str, unread: str) -> None:
    summary = Summary(rows=11, scored=9, failed=1, lost=1, labels={"good": 9})
    gate = parse_gate(text, {}, required=True)
    assert judge(summary, [gate]).gates[0].verdict == failed
    allowed = judge(summary, [gate], parse_most("2")).gates[1]
    assert allowed.verdict == ("failed" if failed == "failed" else "passed")
    assert judge(summary, [gate], parse_most("2"), complete=False).gates[1].verdict == unread


def test_rows_without_a_score_for_a_gate_are_told() -> None:
    outputs = {"a": Stats(count=4, mean=1), "b": Stats(count=1, mean=1)}
    summary = Summary(rows=5, scored=4, abstained=1, count=4, mean=1, outputs=outputs)
    gates = judge(summary, [parse_gate(text, outputs, required=True) for text in ("a.mean>=1", "b.mean>=1")]).gates
    assert [gate_words(gate) for gate in gates] == [
        "required 'a.mean>=1' is met: the value is 1 (1 row abstained and is in no score)",
        "required 'b.mean>=1' is met: the value is 1 (4 rows gave no score for it; 1 of them abstained)",
    ]


def test_a_value_that_rounds_to_its_bound_has_all_its_digits() -> None:
    summary = Summary(rows=1, scored=1, count=1, mean=0.7999999999)
    gate = judge(summary, [parse_gate("mean>=0.8", {}, required=True)]).gates[0]
    assert gate_words(gate) == "required 'mean>=0.8' is not met: the value is 0.7999999999"


def test_what_a_gate_says() -> None:
    summary = Summary(rows=1500, scored=1, failed=1498, lost=1, count=1, mean=1, median=1, min=1, max=1)
    gates = judge(summary, [parse_gate("mean<0.9", {}), parse_gate("rows>2e3", {})], parse_most("5%")).gates
    assert [gate.model_dump(exclude={"required", "abstained", "unscored"}) for gate in gates] == [
        {
            "gate": "max-failed 5%",
            "verdict": "failed",
            "value": 1499,
            "reason": "1,498 failed and 1 lost of 1,500 rows",
            "missing_rows": False,
        },
        {
            "gate": "mean<0.9",
            "verdict": "unjudged",
            "value": None,
            "reason": "1,498 failed and 1 lost of 1,500 rows",
            "missing_rows": True,
        },
        {"gate": "rows>2e3", "verdict": "passed", "value": 1500, "reason": "", "missing_rows": False},
    ]


def test_a_label_that_may_be_among_the_uncounted_is_no_value() -> None:
    summary = Summary(labels={"x": 1}, other_labels=4)
    assert parse_gate("label:y>0", {}).value(summary) is None
    assert parse_gate("label:x>0", {}).value(summary) == 1
