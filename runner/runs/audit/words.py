"""What an audit found, in lines for people: a terminal, a page and reports show the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple

from runner.core.text import rows_of
from runner.engine.scoring.gates import figure, gate_words
from runner.engine.scoring.overview import usage_words
from runner.runs.audit.people import FEWEST_OF_CLASS
from runner.runs.audit.types import Agreement, Audit, Check, Gap, MutantScore, Rate

Tone = Literal["", "bad", "good", "warn", "dim", "code"]
"""`code` is a line to copy as it is."""
_TONES: dict[str, Tone] = {"passed": "good", "failed": "bad", "unjudged": "warn"}
_SHOWN = 6
"""Findings of one kind that are shown each in a line: a grader with one score for all is fooled by everything."""
_GAPS, _EXAMPLES, _DISAGREEMENTS = 4, 6, 10
_TEXT, _ERROR, _LONGEST = 120, 400, 1_500


class AuditLine(NamedTuple):
    """A line, and what it is of; the head of lines that go on is empty."""

    head: str
    text: str
    tone: Tone = ""


def audit_lines(audit: Audit) -> Iterator[AuditLine]:
    """Yield the lines, the verdict last."""
    of = f"{audit.rows:,} of {rows_of(audit.of)}"
    yield AuditLine("audit", f"{audit.evaluator} {audit.version}: {audit.calls:,} calls for {of}, {audit.sandbox}")
    if audit.lower_taken:
        words = "a lower score is taken for the better one, as right answers have the lowest; the header can say it: "
        yield AuditLine("direction", f'{words}output = {{kind = "continuous", direction = "minimize"}}', "warn")
    if audit.no_verdict is not None and audit.failed * 2 > audit.planted:
        yield from _failed(audit)
        yield verdict_line(audit)
        return
    yield from _findings(audit)
    if allowed := [check.id for check in audit.checks if check.status == "allowed"]:
        yield AuditLine("allowed", ", ".join(allowed))
    clear = [check.id for check in audit.checks if check.status == "clear"]
    yield AuditLine("clear", f"{len(clear)} checks: {_ids(clear)}")
    reasons: dict[str, list[str]] = {}
    for check in audit.checks:
        if check.status == "not applicable":
            reasons.setdefault(check.words, []).append(check.id)
    for why, ids in reasons.items():
        yield AuditLine("does not apply", f"{_ids(ids)}: {why}", "dim")
    for word, some in (("does not see", audit.blind), ("treats as different", audit.strict)):
        if some:
            yield AuditLine(word, " · ".join(check.words for check in some))
    if audit.judges is not None and audit.judges.calls:
        before = "" if audit.foreseen is None else f"; foreseen were about {usage_words(audit.foreseen)}"
        yield AuditLine("judges", f"{usage_words(audit.judges)}{before}")
    if audit.failed:
        yield from _failed(audit)
    if audit.mutants is not None:
        yield from _mutants(audit.mutants)
    if audit.people is not None:
        yield from _people(audit.people)
    for gate in audit.gates:
        yield AuditLine("gate", gate_words(gate), _TONES[gate.verdict])
    yield verdict_line(audit)


def verdict_line(audit: Audit) -> AuditLine:
    """Return the last line, in one clause."""
    count = len(audit.findings)
    words = "nothing found" if not count else "1 finding" if count == 1 else f"{count} findings"
    if not count and any(check.id == "right" and check.status == "not applicable" for check in audit.checks):
        applied = sum(check.status != "not applicable" for check in audit.checks)
        words += f", but only {applied} of {len(audit.checks)} checks apply"
    if audit.no_verdict is not None:
        return AuditLine("verdict", f"none: {audit.no_verdict}", "warn")
    if failed := sum(gate.verdict == "failed" for gate in audit.gates):
        words += f", {failed} of {len(audit.gates)} gates not met"
    return AuditLine("verdict", words, "good" if audit.passed else "bad")


def _failed(audit: Audit) -> Iterator[AuditLine]:
    yield AuditLine("failed", f"{audit.failed:,} of {audit.planted:,} planted rows, which prove nothing", "warn")
    if audit.error is not None:
        words = audit.error if len(audit.error) <= _ERROR else f"{audit.error[:_ERROR]} …"
        yield AuditLine("", f"for example row {words}", "warn")


def _findings(audit: Audit) -> Iterator[AuditLine]:
    kinds: dict[str, list[Check]] = {}
    for check in audit.findings:
        kinds.setdefault(check.id.partition(".")[0], []).append(check)
    for checks in kinds.values():
        for check in checks[:_SHOWN]:
            yield AuditLine("finding", f"{check.words} ({check.id})", "bad")
            if check.witness is not None:
                yield AuditLine("", witness_words(check), "dim")
        if more := checks[_SHOWN:]:
            yield AuditLine("", f"and {len(more)} more: {', '.join(check.id for check in more)}", "bad")


def witness_words(check: Check) -> str:
    """Return the row that shows a finding, in a line."""
    assert check.witness is not None
    one = check.witness
    marks = [] if one.score is None else [f"score {one.score:.4g}"]
    marks += [] if one.label is None else [f"label {one.label}"]
    source = "" if one.source is None else f", the answer of row {one.source},"
    if one.score not in (None, 1) and check.id.startswith(("wrong.", "changed.")):
        marks.append("no worse than the right answer of the row")
    return f"row {one.id}: the output {_short(one.output)}{source} has {', '.join(marks) or 'no score'}"


def _mutants(found: MutantScore) -> Iterator[AuditLine]:
    head = "worked examples"
    if found.why is not None:
        yield AuditLine(head, f"no mutant tried: {found.why}", "warn")
        return
    seen = found.killed + len(found.gaps)
    tried = f"{found.tried:,}" if found.tried == found.of else f"{found.tried:,} of {found.of:,}"
    words = (
        f"{found.killed:,} of {seen:,} mutants killed, {len(found.gaps):,} {'gap' if len(found.gaps) == 1 else 'gaps'}"
    )
    quiet = f"; {found.silent:,} change no result" if found.silent else ""
    broken = f"; {found.broken:,} do not load" if found.broken else ""
    yield AuditLine(head, f"{words} ({tried} tried{quiet}{broken})", "warn" if found.gaps else "")
    if found.failing:
        few = f"{len(found.failing)} of them fail with the script as it is, and notice nothing: `evalcell test`"
        yield AuditLine("", few, "warn")
    by_row: dict[str, list[Gap]] = {}
    for gap in found.gaps:
        by_row.setdefault(gap.id, []).append(gap)
    for gaps in [*by_row.values()][:_EXAMPLES]:
        for gap in gaps[:_GAPS]:
            rows = f"{gap.rows:,} of {rows_of(gap.of)}" if gap.rows else f"{gap.planted:,} planted rows, no real one"
            place = f"line {gap.line}" if gap.file is None else f"{gap.file}:{gap.line}"
            yield AuditLine("gap", f"{place}: {gap.change} (here {gap.result} -> {gap.mutant}; changes {rows})", "warn")
        if (more := len(gaps) - _GAPS) > 0:
            yield AuditLine("", f"and {more} more", "warn")
        line = example_line(gaps[0].example)
        which = "this change" if len(gaps) == 1 else f"these {len(gaps)} changes"
        yield AuditLine("", f"no example notices {which}; row {gaps[0].id} would:", "dim")
        if len(line) <= _LONGEST:
            yield AuditLine("", line, "code")
        else:
            yield AuditLine("", "its row is long: the JSON has the line to paste", "dim")
    if (more := len(by_row) - _EXAMPLES) > 0:
        yield AuditLine("", f"and {more} more rows, which the JSON has", "warn")
    if found.gaps:
        yield AuditLine("", "a line expects what the script says now: read it before you paste it", "dim")


def example_line(example: dict[str, object]) -> str:
    """Return a worked example as a line of JSON that shows each of its characters."""
    text = json.dumps(example, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(example)


def _people(found: Agreement) -> Iterator[AuditLine]:
    head = "people"
    without = [f"{n:,} {word}" for n, word in ((found.abstained, "abstained"), (found.failed, "failed")) if n]
    cover = f"{found.scored:,} of {found.labelled:,} labelled rows have a score"
    cover += f" ({' and '.join(without)}: in no figure)" if without else ""
    if found.clusters is not None:
        cover += f", in {found.clusters:,} clusters"
    yield AuditLine(head, cover)
    if found.few:
        classes = "" if found.right is None else f": {found.right:,} right, {found.wrong:,} wrong"
        yield AuditLine("", f"fewer than {FEWEST_OF_CLASS} rows of a class{classes}; too few for rates", "warn")
    if found.true_passes is not None and found.right is not None and found.wrong is not None:
        bound = f"from a score of {figure(found.threshold or 0.0)} on{', chosen on these rows' if found.chosen else ''}"
        yield AuditLine(
            "",
            f"{found.true_passes:,} of {found.right:,} that people call right pass, and {found.false_passes:,} of "
            f"{found.wrong:,} that they call wrong ({bound})",
        )
    rates = {
        "TPR": found.tpr,
        "TNR": found.tnr,
        "kappa": found.kappa,
        "AC1": found.ac1,
        "AUC": found.auc,
        "rank correlation": found.rank,
    }
    if any(rates.values()):
        yield AuditLine("", " · ".join(f"{name} {_rate(rate)}" for name, rate in rates.items() if rate is not None))
    if found.best_threshold is not None and found.youden is not None and found.optimism is not None:
        rest = found.youden - found.optimism
        yield AuditLine(
            "",
            f"best threshold {figure(found.best_threshold)}: TPR + TNR - 1 is {found.youden:.3f} on these rows that it "
            f"was chosen on, {rest:.3f} to be expected of others",
        )
    for one in found.disagreements[:_DISAGREEMENTS]:
        word = "false pass" if one.passes else "false fail"
        yield AuditLine("", f"{word}: row {one.id} has {one.score}, people say {_short(one.label)}", "warn")
    if (more := len(found.disagreements) - _DISAGREEMENTS) > 0:
        yield AuditLine("", f"and {more:,} more, which the JSON has", "dim")


def _rate(rate: Rate) -> str:
    return f"{rate.value:.3f} [{rate.low:.2f}, {rate.high:.2f}]"


def _short(value: object) -> str:
    if isinstance(value, str) and '"' in value and "'" not in value and value.isprintable():
        return f"'{_short_text(value)}'"  # JSON in it stays easy to read
    return _short_text(json.dumps(value, ensure_ascii=False))


def _short_text(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT // 3]} … {text[-2 * _TEXT // 3 :]}"


def _ids(ids: list[str]) -> str:
    """Ids of one kind together: wrong.(empty, null), right."""
    kinds: dict[str, list[str]] = {}
    for id in ids:
        kind, _, name = id.partition(".")
        kinds.setdefault(kind, []).append(name)
    return ", ".join(kind if names == [""] else f"{kind} ({', '.join(names)})" for kind, names in kinds.items())
