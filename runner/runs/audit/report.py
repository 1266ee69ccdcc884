"""Reports of an audit as files: HTML, Markdown, JUnit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from xml.etree import ElementTree as xml

from runner.results.reports.files import ReportFiles
from runner.results.reports.html.page import page_of
from runner.results.reports.junit import case_of, document, say, with_cases, xml_text
from runner.results.reports.markup import html, markdown
from runner.runs.audit.types import Audit
from runner.runs.audit.words import AuditLine, audit_lines, witness_words

_LINE = 2_000


def audit_html(audit: Audit) -> str:
    """Return what was found as one page that loads nothing."""
    return page_of(f"Audit: {html(audit.evaluator, 80)}", lines_html(audit))


def lines_html(audit: Audit) -> str:
    """Return the lines as a table, each kind under its head."""
    rows = []
    for head, lines in _blocks(audit):
        inner = "".join(map(_line, lines))
        rows.append(f'<tr><th scope="row">{html(head, 60)}</th><td>{inner}</td></tr>')
    return f'<table class="audit"><tbody>{"".join(rows)}</tbody></table>'


def _line(line: AuditLine) -> str:
    text = html(line.text, _LINE)
    return f"<pre><code>{text}</code></pre>" if line.tone == "code" else f'<p class="{line.tone or "plain"}">{text}</p>'


def _blocks(audit: Audit) -> list[tuple[str, list[AuditLine]]]:
    """The lines by their heads: those that go on have none."""
    found: list[tuple[str, list[AuditLine]]] = []
    for line in audit_lines(audit):
        if line.head and (not found or found[-1][0] != line.head):
            found.append((line.head, []))
        found[-1][1].append(line)
    return found


def audit_markdown(audit: Audit) -> str:
    """Return what was found as Markdown."""
    parts = [f"### Audit: {markdown(audit.evaluator, 80)}", ""]
    for head, lines in _blocks(audit):
        parts += [f"- **{head}**", *(f"  - {markdown(line.text, _LINE)}" for line in lines)]
    return "\n".join(parts) + "\n"


def audit_junit(audit: Audit) -> str:
    """Return a case for each check and gate: a failure for a finding, an error for what could not be judged."""
    name, cases = audit.evaluator, []
    for check in audit.checks:
        cases.append(case := case_of(name, check.id))
        if check.status == "found":
            more = "" if check.witness is None else f"; {witness_words(check)}"
            say(case, "failure", check.status, f"{check.words}{more}")
        elif check.status != "clear":
            say(case, "skipped", check.status, check.words or check.status)
    for gate in audit.gates:
        cases.append(case := case_of(name, gate.gate))
        if gate.verdict != "passed":
            say(case, "failure" if gate.verdict == "failed" else "error", gate.verdict, gate.reason)
    if audit.no_verdict is not None:
        cases.append(case := case_of(name, "verdict"))
        say(case, "error", "no verdict", audit.no_verdict)
    suite = xml.Element("testsuite", {"name": xml_text(f"audit of {name}"), "time": "0"})
    return document([with_cases(suite, cases)])


RENDERERS: Mapping[str, Callable[[Audit], str]] = {".html": audit_html, ".md": audit_markdown, ".xml": audit_junit}


def audit_files(paths: Sequence[str | os.PathLike[str]], inputs: Sequence[str] = ()) -> ReportFiles:
    """Return the files of an audit's reports, which `write` writes. Raises OutputError for a path that cannot be."""
    return ReportFiles([os.fspath(path) for path in paths], inputs=inputs, renderers=RENDERERS)
