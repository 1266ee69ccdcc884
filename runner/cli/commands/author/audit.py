"""`evalcell audit`: plant outputs in rows, and tell what their scores give away."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.text import Text

from runner.cli import signals
from runner.cli.command_options import CommandOptions
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.option_groups import on_the_command_line
from runner.cli.views import render
from runner.cli.views.progress import ProgressBar
from runner.core.text import json_text
from runner.engine.scoring.overview import usage_words
from runner.engine.scoring.summary import ModelUsage
from runner.runs.audit.audit import EvaluatorAudit
from runner.runs.audit.report import audit_files
from runner.runs.audit.types import Audit, AuditOptions
from runner.runs.audit.words import AuditLine, audit_lines
from runner.runs.examples.load import read_examples
from runner.runs.project.effects import refuse_untrusted
from runner.runs.project.load import FILE, find_project
from runner.runs.project.parts import parts

_BESIDE_PROJECT = ("script", "as_json", "quiet", "require", *AuditOptions.model_fields)
_STYLES = {"": "", "bad": "red", "good": "bold green", "warn": "yellow", "dim": "dim", "code": "cyan"}
_HEAD = len("treats as different")


def audit(options: CommandOptions) -> int:
    """Audit a script, or those of `evalcell.toml`; return the exit code. Raises what `evaluate` does."""
    script, dataset = options.script, options.dataset
    if options["inline"] is not None:
        script, dataset = "inline", options.script
    if dataset is None:
        return _audit_project(options)
    evaluator = options.find(script)
    request = options.request(script, dataset, evaluator)
    examples = None if options.examples is None else read_examples(options.examples)
    return _carry_out(EvaluatorAudit(request, _own(options), examples=examples, lock=options.lock_named), options)


def _own(options: CommandOptions) -> AuditOptions:
    return AuditOptions(**{name: getattr(options, name) for name in AuditOptions.model_fields})


def _audit_project(options: CommandOptions) -> int:
    """Audit the evaluators of a project's runs, or of the one that is named."""
    project = find_project()
    if project is None:
        missing = "DATASET" if options.script is not None else "SCRIPT"
        raise click.UsageError(f"Missing argument '{missing}'; no {FILE} was found here or above.")
    for name, word in on_the_command_line():
        if name not in _BESIDE_PROJECT:
            raise click.UsageError(f"{word} is not taken together with {project.name}: name SCRIPT and DATASET.")
    runs = parts(project, () if options.script is None else (options.script,))
    refuse_untrusted(project, runs)
    own = {"require": options["require"], "fail_if": (), "baseline": None}
    works = {
        part.name: EvaluatorAudit(
            part.request.model_copy(update=own), _own(options), lock="the lock" if part.lock is None else part.lock
        )
        for some in runs.values()
        for part in some
    }
    codes = []
    for name, work in works.items():
        if not options.quiet and not options.as_json:
            render.out().print(render.text(name, "bold"))
        codes.append(_carry_out(work, options))
        if codes[-1] == INTERRUPTED:
            break
    return next(code for code in (INTERRUPTED, GATE_FAILED, COULD_NOT_JUDGE, DONE) if code in codes)


def _carry_out(work: EvaluatorAudit, options: CommandOptions) -> int:
    files = audit_files(options["report"], work.run.inputs)
    if not options.quiet:
        mutants = f", then {work.mutants:,} mutants on worked examples" if work.mutants else ""
        asks = ", each of which may ask a judge" if work.asks else ""
        render.err().say(render.text(f"sandbox: {work.run.why}; {work.calls:,} calls{asks}{mutants}", "dim"))

    def say(cost: ModelUsage) -> None:
        if not options.quiet:
            render.err().say(render.text(f"judges will be asked for about {usage_words(cost)}, by the first call"))

    async def score() -> None:
        with ProgressBar(not options.quiet) as progress:
            await work.score(progress.add, tell=say)

    if signals.run(score(), quiet=options.quiet):
        render.err().say(render.text("interrupted before all planted rows were scored", "yellow"))
        return INTERRUPTED
    found = work.report()
    if options.as_json:
        render.out().out(json_text(found.model_dump(mode="json")), highlight=False)
    elif not options.quiet:
        _print(audit_lines(found))
    files.write(found)
    return exit_code(found)


def exit_code(audit: Audit) -> int:
    """Return 1 for findings and gates that are not met, 3 where it, or a gate, could not be judged, else 0."""
    if audit.no_verdict is None and (audit.findings or any(gate.verdict == "failed" for gate in audit.gates)):
        return GATE_FAILED
    return DONE if audit.passed else COULD_NOT_JUDGE


def _print(lines: Iterable[AuditLine]) -> None:
    """Lines to copy stand on lines of their own, which nothing breaks."""
    out, rows = render.out(), list[tuple[str, Text]]()

    def flush() -> None:
        if rows:
            out.print(render.facts(rows))
            rows.clear()

    for line in lines:
        if line.tone == "code":
            flush()
            out.print(render.text(line.text, _STYLES["code"], len(line.text)), soft_wrap=True)
        else:
            rows.append((line.head.ljust(_HEAD), render.text(line.text, _STYLES[line.tone], render.ERROR)))
    flush()
