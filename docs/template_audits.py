"""
What an audit lists of each template on its demo: `python -m docs.template_audits [NAME …]`, after a change of one.

It takes some seconds for each, so that docs/templates.md is made of the file that it writes; a test compares that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypeAlias

import templates
from runner.core.errors import InputError
from runner.engine.request import RunRequest
from runner.inputs.evaluators.judges import imports_judge
from runner.inputs.evaluators.resolve import find_evaluator
from runner.results.notebook.waiting import wait
from runner.runs.audit.audit import EvaluatorAudit
from runner.runs.audit.checks import SEES
from runner.runs.audit.types import Audit, AuditOptions
from sandboxes.base import SandboxConfig

FILE = Path(__file__).with_name("template_audits.json")
ROWS = 20
Listed: TypeAlias = dict[str, list[str]]
"""What it does not see, and what it treats as different, in words. Empty: it was not audited."""


def why_not(name: str) -> str:
    """Return why a template is not audited; empty if it is."""
    if imports_judge(find_evaluator(name)):
        return "it asks a judge"
    return "" if templates.demo(name) else "no demo has references for it"


def audit_template(name: str, mutants: int = 0) -> Audit:
    """Return what an audit of a template on its demo finds. Raises InputError where nothing can be planted."""
    files = {variable: str(path) for variable, path in templates.demo_files(name).items()}
    config = SandboxConfig(backend="process", files=files) if files else SandboxConfig()
    request = RunRequest(evaluator=name, dataset="demo", sandbox=config)
    work = EvaluatorAudit(request, AuditOptions(sample=ROWS, mutants=mutants))
    wait(work.score)
    return work.report()


def listed(audit: Audit) -> Listed:
    """Return what an audit lists and judges not."""
    known = [SEES[check.id] for check in audit.checks if check.status == "allowed" and check.id in SEES]
    return {
        "does not see": [*known, *(check.words for check in audit.blind)],
        "treats as different": [check.words for check in audit.strict],
    }


def read() -> dict[str, Listed]:
    """Return what the file has, by template."""
    found: dict[str, Listed] = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
    return found


def main(names: list[str]) -> None:
    """Audit these templates, or all, and write what is listed. Exits with 1 for a finding."""
    found = read()
    for name in names or templates.names():
        try:
            audit = None if why_not(name) else audit_template(name)
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            audit = None
        if audit is not None and audit.findings:
            sys.exit(f"{name}: {[check.id for check in audit.findings]}")
        if audit is not None and audit.no_verdict:
            print(f"{name}: {audit.no_verdict}", file=sys.stderr)
            audit = None
        found[name] = {} if audit is None else listed(audit)
        FILE.write_text(json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
