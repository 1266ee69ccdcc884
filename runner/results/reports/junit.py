"""
JUnit XML: a suite an evaluator, a case a gate, and a case a failed row.

No standard says what JUnit XML is. These elements and attributes are those of the schema of Jenkins's plugin, which
GitLab, GitHub's actions and others read: `failure` for what was judged, `error` for what could not be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from xml.etree import ElementTree as xml

from runner.core.text import printable, rows_of
from runner.engine.scoring import overview
from runner.engine.scoring.gates import gate_words
from runner.results.compare.types import Comparison
from runner.results.reports import comparison
from runner.results.reports.content import FailedRow, Part, RunContent, distinct

_TEXT = 1000
_GATES = 500


def junit(contents: Sequence[Part]) -> str:
    """Return the report of these runs and comparisons."""
    return document(
        _suite(content, name) if isinstance(content, RunContent) else _comparison(content, name)
        for content, name in zip(contents, distinct(contents), strict=True)
    )


def document(suites: Iterable[xml.Element]) -> str:
    """Return the whole text of these suites."""
    root = xml.Element("testsuites")
    root.extend(suites)
    for counted in ("tests", "failures", "errors", "skipped"):
        root.set(counted, str(sum(int(suite.get(counted, "0")) for suite in root)))
    xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml.tostring(root, encoding="unicode")}\n'


def _suite(content: RunContent, name: str) -> xml.Element:
    suite = xml.Element("testsuite", {"name": xml_text(name)})
    summary = content.summary
    suite.set("time", f"{summary.seconds or 0:.3f}")
    properties = xml.SubElement(suite, "properties")
    for key, value in (*_properties(content), *content.details):
        xml.SubElement(properties, "property", {"name": xml_text(key), "value": xml_text(value)})
    return with_cases(suite, list(_cases(content, name)))


def _comparison(made: Comparison, name: str) -> xml.Element:
    suite = xml.Element("testsuite", {"name": xml_text(name), "time": "0"})
    properties = xml.SubElement(suite, "properties")
    for key, value in (("base", made.base.name), ("new", made.new.name), *comparison.facts(made)):
        xml.SubElement(properties, "property", {"name": xml_text(key), "value": xml_text(value)})
    case = case_of(name, "no worse")
    if made.verdict in ("better", "no worse"):
        xml.SubElement(case, "system-out").text = xml_text(f"{made.verdict}: {comparison.sentence(made)}")
    else:
        found = comparison.verdict(made)
        say(case, "failure" if found == "worse" else "error", found, f"{found}: {comparison.sentence(made)}")
    return with_cases(suite, [case])


def with_cases(suite: xml.Element, cases: Sequence[xml.Element]) -> xml.Element:
    """Return the suite with these cases and their counts."""
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for counted, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(counted, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _properties(content: RunContent) -> Iterator[tuple[str, str]]:
    summary = content.summary
    yield from (("version", summary.version), ("sandbox", summary.sandbox), ("dataset", content.source))
    yield from ((name, str(count)) for name, count in overview.outcome_counts(summary).items())
    for output, stats in overview.outputs(summary).items():
        start = f"{output}." if output else ""
        yield from ((f"{start}{name}", value) for name, value in overview.figures(stats).items())
    yield from ((f"aggregate.{name}", value) for name, value in overview.aggregates(summary).items())


def _cases(content: RunContent, suite: str) -> Iterator[xml.Element]:
    summary = content.summary
    run = case_of(suite, "run")
    if content.state != "finished":
        say(run, "error", content.state, content.error or f"the run was {content.state}")
    elif not summary.judged:
        say(run, "error", "no verdict", overview.nothing_scored(summary))
    else:
        xml.SubElement(run, "system-out").text = xml_text(overview.outcome_words(summary))
    yield run
    for gate in islice(summary.gates, _GATES):
        case = case_of(suite, gate.gate)
        if gate.verdict != "passed":
            tag = "failure" if gate.verdict == "failed" else "error"
            say(case, tag, gate.verdict, gate_words(gate))
        yield case
    if len(summary.gates) > _GATES:
        case = case_of(suite, "more gates")
        say(case, "error", "unjudged", f"{len(summary.gates) - _GATES:,} more gates are not shown")
        yield case
    allowed = any(gate.gate.startswith("max-failed ") and gate.verdict == "passed" for gate in summary.gates)
    for row in content.failed:
        yield _row(content, suite, row, allowed)
    if (more := summary.failed + summary.lost - len(content.failed)) > 0:
        case = case_of(suite, "more rows")
        say(case, "skipped" if allowed else "failure", "failed", f"{rows_of(more)} more failed or were lost")
        yield case


def _row(content: RunContent, suite: str, row: FailedRow, allowed: bool) -> xml.Element:
    case = case_of(suite, f"row {row.number}: {row.id}")
    if content.source:
        case.set("file", xml_text(content.source))
    if row.line is not None:
        case.set("line", str(row.line))
    where = f" ({content.source}:{row.line})" if content.source and row.line is not None else ""
    # A pipeline that allows some rows to fail is not to be red for these.
    tag = "skipped" if allowed else "error" if row.outcome == "lost" else "failure"
    say(case, tag, row.kind, f"{row.outcome}: {row.kind}: {row.message}{where}")
    return case


def case_of(suite: str, name: str) -> xml.Element:
    """Return a case, which nothing is wrong with yet."""
    return xml.Element("testcase", {"classname": xml_text(suite), "name": xml_text(name), "time": "0"})


def say(case: xml.Element, tag: str, kind: str, message: str) -> None:
    """Say what is wrong with a case: `failure`, `error` or `skipped`."""
    found = xml.SubElement(case, tag, {"message": xml_text(message)})
    if tag != "skipped":
        found.set("type", kind)
    found.text = xml_text(message)


def xml_text(text: str) -> str:
    """Return text that XML can hold: what it forbids, in its section 2.2, is never printable, and so is escaped."""
    return printable(text, _TEXT)
