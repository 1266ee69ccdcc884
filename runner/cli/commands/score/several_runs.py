"""Several evaluators in one command: each is a run of its own, and the exit code is that of all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any

import click

from runner.cli import values
from runner.cli.command_options import CommandOptions
from runner.cli.commands.github.summary import tell_step
from runner.cli.commands.score.run import baseline_comparison, execute, report, wants_verdict_only
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED, WRONG_USAGE
from runner.cli.views import render
from runner.core.errors import FailedRowsError, InputError
from runner.core.text import json_text
from runner.core.types import Evaluator
from runner.engine.scoring.overview import overview
from runner.results.output.files import WriteError
from runner.results.reports.content import RunContent
from runner.runs.project.suite import Suite, SuitePart, baseline_of, folder_of, own, refuse_names, share_values
from sandboxes.errors import SandboxError, UnsupportedConfigError

_ORDER = (INTERRUPTED, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, DONE)
"""Of exit codes: the first that one of the runs has is that of all."""
_NAMED = re.compile(r"([\w-]+)=(.+)", re.DOTALL)


def run(options: CommandOptions) -> int:
    """Score a dataset with each evaluator; return the exit code. Raises as `run` of one does, before any has run."""
    if options.dataset is not None or options.evaluator is None:
        what = "with -e, give the dataset alone" if options.dataset is not None else "Missing argument 'DATASET'"
        raise click.UsageError(f"{what}: evalcell run -e json-distance -e contains data.jsonl.")
    found = _evaluators(options)
    parts = _parts(options, options.evaluator, found)
    suite = Suite(
        parts,
        options["report"],
        resume=options["resume"],
        overwrite=options["overwrite"],
        save=options["save"],
        verdict_only=wants_verdict_only(options),
    )
    suite.check()
    return run_all([suite], options)


def run_all(suites: Sequence[Suite], options: CommandOptions) -> int:
    """Run all, also what comes after one that fails; return the exit code."""
    one = options.but(as_json=False, quiet=options.quiet or options.as_json)
    codes: list[int] = []
    told: list[RunContent] = []
    shown: dict[str, Any] = {}
    blocks: list[Callable[[], int]] = []
    with _standard_input(suites) as path:
        for suite in suites:
            contents = _run(suite, path, one, codes, blocks)
            told += contents.values()
            for name, content in contents.items():
                shown[name] = content.summary.model_dump(mode="json") | baseline_comparison(suite.runs[name])
            try:
                suite.report(list(contents.values()))
            except WriteError as error:
                codes.append(_say(error))
            if any(content.state == "interrupted" for content in told):
                break
    summaries = {content.name: content.summary for content in told}
    if len(told) > 1 and not one.quiet:
        render.out().print(render.overview_view(summaries))
    codes += [block() for block in blocks]
    tell_step(lambda: told)
    if options.as_json:
        render.out().out(
            json_text({"overview": [row._asdict() for row in overview(summaries)], "runs": shown}), highlight=False
        )
    return next(code for code in _ORDER if code in codes)


def _run(
    suite: Suite, path: str | None, options: CommandOptions, codes: list[int], blocks: list[Callable[[], int]]
) -> dict[str, RunContent]:
    """
    Run one suite; return what a report shows of those that ended, by name.

    Adds what prints the block of each run, and returns its exit code; of one that failed the code.
    """
    contents: dict[str, RunContent] = {}
    for name, work in suite.runs.items():
        of = f"{name}: "
        try:
            if path is None or work.prepared.request.dataset != "-":
                interrupted = execute(work, None, quiet=options.quiet)
            else:
                with open(path, "rb") as stdin:
                    interrupted = execute(work, stdin, quiet=options.quiet)
            its = options.but(output=tuple(work.written), report=())
            blocks.append(partial(report, work, its, interrupted, of))
        except (SandboxError, UnsupportedConfigError, InputError, WriteError, FailedRowsError) as error:
            codes.append(_say(error, of))
            interrupted = False
        if work.state is not None:
            contents[name] = replace(work.content(work.state, work.error), name=name)
        if interrupted:
            break
    return contents


def _say(error: Exception, of: str = "") -> int:
    """Print what one run ended with; return its exit code."""
    render.err().say(render.text(f"evalcell: {of}{error!s}", "bold red", render.ERROR))
    return WRONG_USAGE if isinstance(error, UnsupportedConfigError | InputError) else COULD_NOT_JUDGE


@contextmanager
def _standard_input(suites: Sequence[Suite]) -> Iterator[str | None]:
    """A file with what stands on stdin, for runs that read it; each reads it from its beginning."""
    if all(work.prepared.request.dataset != "-" for suite in suites for work in suite.runs.values()):
        yield None
        return
    with NamedTemporaryFile(prefix="evalcell-", suffix=".jsonl") as file:
        if (stdin := values.standard_input()) is not None:
            with stdin:
                shutil.copyfileobj(stdin, file)
        file.flush()
        yield file.name


def _evaluators(options: CommandOptions) -> dict[str, tuple[str, Evaluator]]:
    """By its name, what `-e` names, and the evaluator."""
    names, found = [], {}
    for given in options.evaluators:
        named = None if os.path.exists(given) else _NAMED.fullmatch(given)
        path = named[2] if named else given
        evaluator = options.find(path)
        name = named[1] if named else evaluator.name
        names.append(name)
        found[name] = path, evaluator.model_copy(update={"name": name})
    refuse_names(names)
    return found


def _parts(options: CommandOptions, dataset: str, found: dict[str, tuple[str, Evaluator]]) -> list[SuitePart]:
    evaluators = {name: evaluator for name, (_, evaluator) in found.items()}
    paths, literals = (
        _shared(pairs, evaluators) for pairs in (options.settings.get("map", ()), options.settings.get("set", ()))
    )
    parts = []
    for name, (path, evaluator) in found.items():
        mine = options.but(
            map=paths[name],
            set=literals[name],
            require=_own(options["require"], evaluators, name),
            fail_if=_own(options["fail_if"], evaluators, name),
            baseline=baseline_of(options["baseline"], name),
        )
        files = folder_of(options["output"], name)
        parts.append(SuitePart(name, mine.request(path, dataset, evaluator), evaluator, files, options["lock"]))
    return parts


def _shared(pairs: Sequence[str], evaluators: dict[str, Evaluator]) -> dict[str, tuple[str, ...]]:
    """The words of `--map` or `--set` for each evaluator."""
    by_name: dict[str, tuple[str, ...]] = dict.fromkeys(evaluators, ())
    for pair in pairs:
        key, equals, value = pair.partition("=")
        for name, given in share_values(evaluators, {key.strip(): value}, evaluators).items():
            by_name[name] += tuple(f"{parameter}{equals}{value}" for parameter in given)
    return by_name


def _own(gates: Sequence[str], evaluators: dict[str, Evaluator], name: str) -> tuple[str, ...]:
    return tuple(mine for gate in gates if (mine := own(evaluators, name, gate)) is not None)
