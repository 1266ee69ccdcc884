"""`evalcell test`: try a script on worked examples, and show where its results differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing

from rich.console import RenderableType
from rich.text import Text

from runner.cli import signals
from runner.cli.command_options import CommandOptions
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.views import render
from runner.cli.views.progress import ProgressBar
from runner.core.text import json_text, printable
from runner.engine.request import PreparedRun
from runner.engine.scoring.diff import windows
from runner.engine.scoring.look_alikes import tell_json_apart
from runner.runs.examples.check import ExampleResult, ExamplesReport, prepare_examples, report, run_examples
from runner.runs.examples.load import Example, find_examples, read_examples

_SHOWN = 50  # failed examples in full
_TEXT = 300  # characters of a text that differs
_STYLES = {"passed": "green", "failed": "bold red", "lost": "yellow"}


def test(options: CommandOptions) -> int:
    """Try all examples; return the exit code. Raises what `check_examples` does."""
    evaluator = options.find(options.script)
    every = read_examples(find_examples(options.script) if options.examples is None else options.examples)
    dataset = "cases" if options.examples is None else options.examples
    request = options.request(options.script, dataset, evaluator)
    prepared, examples = prepare_examples(request, every, evaluator=evaluator, lock=options.lock_named)
    if not options.quiet:
        render.err().say(render.text(f"sandbox: {prepared.why}", "dim"))
    found: list[ExampleResult] = []
    progress = ProgressBar(not options.quiet)
    interrupted = bool(examples) and signals.run(_try(prepared, examples, found, progress), quiet=options.quiet)
    result = report(prepared, found, len(every) - len(examples))
    _print(result, options, interrupted)
    return INTERRUPTED if interrupted else _code(result)


async def _try(
    prepared: PreparedRun, examples: Sequence[Example], found: list[ExampleResult], progress: ProgressBar
) -> None:
    async with prepared.sandbox as opened:
        with progress:
            progress.total = len(examples)
            async with aclosing(run_examples(prepared, examples, opened)) as results:
                async for case in results:
                    found.append(case)
                    progress.add([case.result])


def _code(result: ExamplesReport) -> int:
    if result.failed:
        return GATE_FAILED
    return COULD_NOT_JUDGE if result.lost or not result.passed else DONE


def _print(result: ExamplesReport, options: CommandOptions, interrupted: bool) -> None:
    out = render.out()
    if options.as_json:
        out.out(json_text(result.model_dump(mode="json")), highlight=False)
    elif not options.quiet:
        for view in _views(result, options.verbose):
            out.print(view)
        out.say(_summary(result))
    if interrupted:
        render.err().say(render.text(f"interrupted after {len(result.examples):,} examples", "yellow"))
    elif not result.examples:
        render.err().say(render.text(f"no example is for {result.language}; nothing was tried", "bold red"))


def _views(result: ExamplesReport, verbose: bool) -> Iterable[RenderableType]:
    shown = 0
    for case in result.examples:
        if case.verdict != "passed":
            shown += 1
            if shown <= _SHOWN:
                yield _full(case)
        elif verbose:
            yield _head(case)
    if shown > _SHOWN:
        yield Text(f"and {shown - _SHOWN:,} more; --json has them all\n")


def _head(case: ExampleResult) -> Text:
    head = Text.assemble((case.verdict, _STYLES[case.verdict]), "  ", render.text(case.id, "bold"), "  ")
    return head.append_text(render.text(case.where, "dim"))


def _full(case: ExampleResult) -> RenderableType:
    rows: list[tuple[str, str, Text]] = []
    for one in case.differences:
        ours = one.field in ("outcome", "kind")
        # As JSON, which shows null apart from text.
        values = tell_json_apart(windows((one.expected, one.got), _TEXT))
        expected, got = (printable(value, 2 * _TEXT) for value in values)
        rows.append((one.field, "expected", Text(str(one.expected) if ours else expected)))
        value = render.text(_outcome(case), "red", render.ERROR) if ours else Text(got, style="red")
        rows.append(("", "got", value))
    if case.verdict == "lost":
        rows.append(("outcome", "got", render.text(_outcome(case), "yellow", render.ERROR)))
    if case.result.stdout.strip():
        rows.append(("printed", "", render.text(case.result.stdout.strip()[-_TEXT:], "dim")))
    return render.block(_head(case), rows)


def _outcome(case: ExampleResult) -> str:
    """The result in words."""
    result = case.result
    if result.error is not None:
        kind = "" if result.outcome == "lost" else f"{result.error.kind}: "
        return f"{result.outcome}: {kind}{result.error.message}"
    said = [f"label {result.label}"] if result.label is not None else []
    said += [f"score {result.score!r}"] if result.score is not None else []
    return ", ".join([result.outcome, *said])


def _summary(result: ExamplesReport) -> Text:
    line = Text.assemble((f"{result.passed:,} passed", "green" if result.passed else ""))
    line.append(f", {result.failed:,} failed", style="bold red" if result.failed else "")
    if result.lost:
        line.append(f", {result.lost:,} lost (the sandbox failed; run it again)", style="yellow")
    if result.skipped:
        line.append(f", {result.skipped:,} not for {result.language}", style="dim")
    return line
