"""`evalcell run` of a dataset of several files: scored in parts, each by a worker."""

from __future__ import annotations

from dataclasses import replace

from runner.cli.command_options import CommandOptions
from runner.cli.commands.github.summary import tell_step
from runner.cli.commands.score.run import carry_out, report, result_settings
from runner.cli.views import render
from runner.cli.views.progress import ProgressBar
from runner.core.text import rows_of
from runner.runs.parts.run import PartsRun
from runner.runs.store_references import prepare


def run(options: CommandOptions, named: str, dataset: str) -> int:
    """Score a dataset in parts; return the exit code. Raises what a run does."""
    evaluator = options.find(named)
    request = options.request(named, dataset, evaluator)
    # The workers open the sandbox, also those on a cluster.
    prepared = prepare(request.model_copy(update={"on": None}), evaluator=evaluator, lock=options.lock_named)
    work = PartsRun(replace(prepared, request=request), **result_settings(options))
    try:
        interrupted = _execute(work, quiet=options.quiet)
    finally:
        if work.state is not None:
            tell_step(lambda: [work.content(work.state or "finished", work.error)])
    return report(work, options, interrupted)


def _execute(work: PartsRun, *, quiet: bool) -> bool:
    with work.open():
        if not quiet:
            render.err().say(render.text(f"sandbox: {work.prepared.why}", "dim"))
        progress = ProgressBar(not quiet, lambda: work.workers)
        return carry_out(work, _score(work, progress, quiet=quiet), quiet=quiet)


async def _score(work: PartsRun, progress: ProgressBar, *, quiet: bool) -> None:
    def counted(count: int) -> None:
        if progress.total is None:
            progress.total = work.total()
            if not quiet:
                there = f", {work.there:,} of them finished" if work.there else ""
                rows = rows_of((work.total() or 0) // work.prepared.request.repeat)
                parts = f"{work.parts:,} part{'' if work.parts == 1 else 's'}"
                render.err().say(render.text(f"{rows} in {parts}{there}", "dim"))
        progress.at(count)

    with progress:
        await work.score(counted)
