"""`evalcell check`: show how a script would be run, and try it on a few rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field

import click
from rich.console import RenderableType

from runner.cli import signals, values
from runner.cli.command_options import CommandOptions
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.views import render
from runner.core.errors import InputError
from runner.core.text import command_text, printable, rows_of, whole
from runner.core.types import Case, Categorical, Continuous, Evaluator, OutputConfig, Result
from runner.engine.equal_rows import EqualRows
from runner.engine.request import PreparedRun, RunRequest
from runner.engine.scoring.label_notes import label_notes
from runner.engine.scoring.shown_rows import Worst
from runner.engine.scoring.tally import Tally
from runner.inputs.evaluators.evaluator_files import names_of
from runner.inputs.evaluators.mapping import bind
from runner.inputs.evaluators.parameters import about
from runner.inputs.evaluators.python.beside import left_behind
from runner.inputs.evaluators.typescript.type_errors import problems_of, that_count
from runner.runs.audit.audit import EvaluatorAudit
from runner.runs.audit.types import AuditOptions
from runner.runs.store_references import prepare
from sandboxes.base import Problem

_TRIED = 3
_AUDITED, _READ, _AUDIT_SECONDS = 10, 200, 4.0
"""Rows of a small audit, of so many of the dataset, if its calls together likely take no more seconds."""


def check(options: CommandOptions) -> int:
    """Check a script; return the exit code. Raises what `evaluate` does."""
    script, dataset = options.script or "inline", options.dataset
    if options["inline"] is not None:
        script, dataset = "inline", options.script
    elif options.script is None:
        raise click.UsageError("Missing argument 'SCRIPT'.")
    evaluator = options.find(script)
    request = options.request(script, dataset, evaluator)
    one = request.sandbox.model_copy(update={"jobs": 1})  # starts sooner than workers do
    request = request.model_copy(update={"sandbox": one, "limit": _TRIED})
    prepared = prepare(request, evaluator=evaluator, lock=options.lock_named)
    sandbox = prepared.sandbox
    out = render.out()
    tried = _Tried()
    stdin = values.standard_input() if dataset == "-" else None
    # Opened here, where a file that hangs holds up no event loop.
    with nullcontext() if dataset is None else prepared.open(stdin=stdin) as cases:
        out.print(render.facts(_facts(prepared)))
        for note in [] if cases is None else prepared.column_notes(cases):
            render.err().say(render.text(f"note: {printable(whole(script))}: {note}"))
        if dataset is None and not sandbox.capabilities.checks:
            return DONE
        if signals.run(_try(prepared, cases, tried)):
            return INTERRUPTED
    if tried.problems:
        where = printable(whole(script))
        for problem in tried.problems:
            render.err().say(render.text(f"{where}:{problem.line}:{problem.column}: {problem.message}"))
        return GATE_FAILED
    if sandbox.capabilities.checks:
        out.say(render.text("no type errors"))
    if dataset is None:
        return DONE
    results = tried.results
    shown, tally = Worst(None, keep=_TRIED), Tally(prepared.evaluator.outputs)
    for result in results:
        shown.add(result)
        tally.add(result)
    for note in label_notes(tally.summary(), prepared.evaluator, shown.rows().rows, tried.hidden):
        render.err().say(render.text(f"note: {note}"))
    out.print()
    out.print(render.rows_table(shown.rows().rows))
    if dataset != "-" and (work := _small_audit(request, results, options.lock_named)) is not None:
        if signals.run(work.score()):
            return INTERRUPTED
        for line in _audit_notes(work, script, dataset):
            render.err().say(render.text(line))
    if any(result.outcome == "scored" for result in results) or (results and not prepared.evaluator.evaluates):
        return DONE
    render.err().say(render.text(_nothing(results), "bold red", render.ERROR))
    return COULD_NOT_JUDGE


def _small_audit(request: RunRequest, results: list[Result], lock: str) -> EvaluatorAudit | None:
    """An audit of ten rows; None where nothing can be planted, or where it would ask a judge or take long."""
    times = [result.duration_ms for result in results if result.outcome == "scored"]
    try:
        few = request.model_copy(update={"limit": _READ})
        work = EvaluatorAudit(few, AuditOptions(sample=_AUDITED, mutants=0), lock=lock) if times else None
    except InputError:
        return None
    if work is None or work.asks or not work.run.evaluator.evaluates:
        return None
    return work if work.calls * min(times) <= _AUDIT_SECONDS * 1000 else None


def _audit_notes(work: EvaluatorAudit, script: str, dataset: str) -> Iterator[str]:
    """At most one line: the first finding, and where there is more."""
    found = work.report()
    if found.findings and found.no_verdict is None:
        first, more = found.findings[0], len(found.findings) - 1
        words = f"{first.words} ({first.id}){f', and {more} more' if more else ''}"
        command = printable(whole(command_text(["evalcell", "audit", script, dataset])))
        yield f"note: an audit of {rows_of(found.rows)}: {words}: {command} shows {'them' if more else 'it'}"


def _nothing(results: list[Result]) -> str:
    if not results:
        return "the dataset has no rows"
    words = "the first row was not scored" if len(results) == 1 else f"none of the first {len(results)} rows was scored"
    error = next((f"; {one.error.kind} in row {one.id}: {one.error.message}" for one in results if one.error), "")
    return words + error


@dataclass
class _Tried:
    """The type errors of a script, its results on a few rows, and the errors that it may hide in them."""

    problems: list[Problem] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    hidden: str = ""


async def _try(prepared: PreparedRun, cases: Iterable[Case] | None, tried: _Tried) -> None:
    async with prepared.sandbox as opened:
        every = await problems_of(prepared.evaluator, opened)
        tried.problems += that_count(prepared.evaluator, every)
        if cases is None or tried.problems:
            return
        equal = EqualRows(prepared.evaluator)
        async with aclosing(prepared.score(cases, opened, equal.watch)) as found:
            async for result in found:
                tried.results.append(result)
        tried.hidden = await equal.hidden(opened, prepared.request.limits)


def _facts(prepared: PreparedRun) -> list[tuple[str, RenderableType]]:
    text, evaluator = render.text, prepared.evaluator
    bound = bind(evaluator, prepared.request.mapping).describe()
    rows: list[tuple[str, RenderableType]] = [
        ("evaluator", text(f"{evaluator.name}, {evaluator.language}, version {evaluator.version}")),
    ]
    words: Mapping[str, str] = {}
    if evaluator.dialect is not None:
        from runner.inputs.evaluators.foreign.registry import find as find_dialect  # here: most scripts are of none

        dialect = find_dialect(evaluator.dialect)
        words = dialect.arguments
        rows.append(("dialect", text(f"{dialect.title}: {evaluator.entry}")))
    elif evaluator.evaluates:
        rows.append(("signature", text(_signature(evaluator))))
    if evaluator.aggregate is not None:
        alone = "" if evaluator.evaluates else "; no evaluate: each row abstains"
        rows.append(("aggregate", text(f"{_aggregate(evaluator)} judges all rows together{alone}")))
    if evaluator.description.strip():
        rows.append(("description", text(evaluator.description)))
    declared = {p.name: f": {about(p.declared)}" for p in evaluator.parameters if p.declared is not None}
    for number, (name, source) in enumerate(bound.items()):
        rows.append(
            ("mapping" if not number else "", text(f"{words.get(name, name)} <- {source}{declared.get(name, '')}"))
        )
    for name, config in evaluator.configs.items():
        rows.append((f"output {name}".strip()[:30], text(_config(config))))
    if not evaluator.configs:
        rows.append(("output", text("no config: any label, any finite score")))
    if evaluator.requires_python:
        rows.append(("python", text(evaluator.requires_python)))
    rows.append(("packages", text(", ".join(prepared.sandbox.config.packages) or "none")))
    if evaluator.files:
        rows.append(("files", text(f"with {names_of(evaluator.files)}")))
    for number, file in enumerate(dict.fromkeys(evaluator.beside.values())):
        rows.append(("lacks" if not number else "", text(left_behind(file))))
    rows.append(("sandbox", text(prepared.why)))
    return rows


def _signature(evaluator: Evaluator) -> str:
    optional = "?" if evaluator.language == "typescript" else "=…"
    words = [p.name if p.required else p.name + optional for p in evaluator.parameters]
    if evaluator.language == "typescript":
        by_name = not any(p.positional_only for p in evaluator.parameters)
        inside = ", ".join([*words, "…"] if evaluator.accepts_any else words)
        return f"{evaluator.called}({{ {inside} }})" if by_name and inside else f"{evaluator.called}({inside})"
    positional = sum(p.positional_only for p in evaluator.parameters)
    if positional:
        words.insert(positional, "/")
    return f"{evaluator.called}({', '.join([*words, '**…'] if evaluator.accepts_any else words)})"


def _aggregate(evaluator: Evaluator) -> str:
    """The call of `aggregate`, in the evaluator's language."""
    aggregate = evaluator.aggregate
    if evaluator.language == "typescript" or aggregate is None:
        return "aggregate(results, { … })"
    words = [p.name if p.required else f"{p.name}=…" for p in aggregate.parameters]
    return f"aggregate({', '.join(['results', *words, *(['**…'] if aggregate.accepts_any else [])])})"


def _config(config: OutputConfig) -> str:
    words = [config.kind, config.direction if config.direction != "none" else "no direction"]
    if isinstance(config, Categorical):
        words += [f"{label}={'no score' if score is None else f'{score:g}'}" for label, score in config.labels.items()]
    elif isinstance(config, Continuous):
        words += [f"{n} {b:g}" for n, b in (("from", config.lower_bound), ("to", config.upper_bound)) if b is not None]
    if config.threshold is not None:
        words.append(f"threshold {config.threshold:g}")
    return ", ".join(words)
