"""`evalcell run`: everything is checked first, then scored; what is done stays, whatever happens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

from runner.cli import render, signals, values
from runner.cli.main import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.progress import Progress
from runner.cli.sandbox_options import Asked
from runner.datasets.dataset import Dataset, open_dataset
from runner.engine.local import refuse_unfit, score
from runner.evaluators.mapping import bind
from runner.evaluators.resolve import find_dataset, find_evaluator, find_files, is_path
from runner.output.files import WriteError
from runner.output.manifest import Run, State
from runner.output.sinks import Outputs
from runner.results.gates import Gate, MaxFailed, judge, parse_gate, parse_max_failed
from runner.results.summary import Summary, Tally
from runner.results.worst import Worst
from runner.types import Case, Result
from sandboxes.registry import create


@dataclass(frozen=True, kw_only=True)
class Options(Asked):
    """The command line of `run`, as click parsed it."""

    evaluator: str
    dataset: str
    timeout: float | None
    memory: int | None
    seed: int | None
    paths: tuple[str, ...]
    literals: tuple[str, ...]
    limit: int | None
    files: tuple[str, ...]
    as_json: bool
    quiet: bool
    gates: tuple[str, ...]
    max_failed: str | None


def run(options: Options) -> int:
    """Scores a dataset; returns the exit code. Raises what `evaluate` does, OutputError and WriteError."""
    evaluator = find_evaluator(options.evaluator, options.language)
    gates = [parse_gate(text, evaluator.outputs) for text in options.gates]
    most = None if options.max_failed is None else parse_max_failed(options.max_failed)
    mapping = values.mapping(options.paths, options.literals, evaluator)
    columns = bind(evaluator, mapping).columns
    limits = values.limits(options.timeout, options.memory)
    choice = options.choice(evaluator, options.evaluator, find_files(options.dataset, options.evaluator))
    sandbox = create(choice.config)
    if options.quiet:
        sandbox.progress = lambda line: None
    refuse_unfit(evaluator, sandbox)
    path = find_dataset(options.dataset, options.evaluator)
    inputs = _inputs(options, path, choice.config.files.values())
    outputs = Outputs(options.files, inputs=inputs, lock=options.lock, outputs=tuple(evaluator.outputs))
    stdin = values.standard_input() if path == "-" else None
    with open_dataset(path, stdin=stdin, columns=columns) as dataset:
        if not options.quiet:
            render.err().say(render.text(f"sandbox: {choice.why}", "dim"))
        work = _Work(Run(options, evaluator, mapping, limits, sandbox), dataset, outputs, gates, most)
        interrupted = work.do()
        return _report(work, dataset, options, interrupted)


class _Work:
    """One run under way, and what it adds up to."""

    def __init__(
        self, run: Run, dataset: Dataset, outputs: Outputs, gates: Sequence[Gate], max_failed: MaxFailed | None
    ) -> None:
        self._run = run
        self._gates = gates
        self._max_failed = max_failed
        self._dataset = dataset
        self._outputs = outputs
        self._tally = Tally(run.evaluator.outputs)
        self._progress = Progress(not run.options.quiet)
        self._seconds = 0.0
        self.worst = Worst(next(iter(run.evaluator.outputs.values()), None))

    def do(self) -> bool:
        """Returns whether a signal stopped it."""
        self._progress.total = self._total()
        try:
            interrupted = signals.run(self._score())
        except Exception as e:
            self._end("failed", str(e))
            raise
        self._end("interrupted" if interrupted else "finished")
        return interrupted

    def kept(self, rows: int) -> str:
        """Where so many rows are, in words."""
        if not self._run.options.files:
            return "with -o FILE they would be kept"
        short = [f"{path} took {_rows(count)}" for path, count in self._outputs.rows.items() if count != rows]
        have = [path for path, count in self._outputs.rows.items() if count == rows]
        return "; ".join([*([f"they are in {', '.join(have)}"] if have else []), *short])

    def summary(self, state: State) -> Summary:
        """Gates are judged once all rows are done."""
        summary = self._tally.summary(self._seconds)
        if state != "finished":
            return summary
        return judge(summary, self._gates, self._max_failed, complete=self._dataset.complete)

    def _end(self, state: State, error: str | None = None) -> None:
        try:
            self._outputs.end(state, self.summary(state), self._dataset.notes, error)
        except WriteError as e:
            if state == "finished":
                raise
            render.err().say(render.text(f"evalcell: {e}", "bold red", render.ERROR))  # beside what went wrong first

    async def _score(self) -> None:
        run, limit = self._run, self._run.options.limit
        cases: Iterable[Case] = self._dataset if limit is None else islice(self._dataset, limit)
        async with run.sandbox as opened, self._outputs:
            await self._outputs.begin(run)
            began = perf_counter()
            found = score(
                run.evaluator,
                cases,
                opened,
                limits=run.limits,
                mapping=run.mapping,
                seed=run.options.seed,
            )
            with self._progress:
                async with aclosing(found):
                    try:
                        async for result in found:
                            self._take(result)
                            await self._outputs.room()
                    finally:
                        self._seconds = perf_counter() - began

    def _take(self, result: Result) -> None:
        self._outputs.add(result)
        self._tally.add(result)
        self.worst.add(result)
        self._progress.add(result)

    def _total(self) -> int | None:
        total, limit = self._dataset.total() if self._progress.shown else None, self._run.options.limit
        return total if limit is None or total is None else min(total, limit)


def _report(work: _Work, dataset: Dataset, options: Options, interrupted: bool) -> int:
    summary, err = work.summary("interrupted" if interrupted else "finished"), render.err()
    if not options.quiet:
        for note in dataset.notes:
            err.say(render.text(f"note: {note}"))
    if interrupted:
        when = (
            f"after {_rows(summary.rows)}; {work.kept(summary.rows)}"
            if summary.rows
            else "before the first row was done"
        )
        err.say(render.text(f"interrupted {when}", "yellow"))
        err.print(render.summary_view(summary))
        return INTERRUPTED
    _print(work, summary, options)
    if not summary.scored:
        err.say(render.text(_nothing(summary), "bold red", render.ERROR))
    else:
        for result in sorted(summary.gates, key=lambda result: result.verdict):  # failed, passed, unjudged
            if result.verdict != "passed":
                err.say(render.gate_line(result))
    return exit_code(summary)


def exit_code(summary: Summary) -> int:
    """Of a run that was done to its end. A gate that failed outweighs one that could not be judged."""
    verdicts = {result.verdict for result in summary.gates}
    if not summary.scored:
        return COULD_NOT_JUDGE
    if "failed" in verdicts:
        return GATE_FAILED
    return COULD_NOT_JUDGE if "unjudged" in verdicts else DONE


def _print(work: _Work, summary: Summary, options: Options) -> None:
    out = render.out()
    if options.as_json:
        out.out(json.dumps(summary.model_dump(mode="json"), ensure_ascii=True), highlight=False)
    elif not options.quiet:
        if not options.files and work.worst.entries:
            out.print(render.worst_view(work.worst))
        out.print(render.summary_view(summary))
        for file in options.files:
            out.say(render.text(f"written: {file}"))


def _nothing(summary: Summary) -> str:
    if not summary.rows:
        return "nothing was scored: the dataset has no rows"
    if not summary.errors:
        return f"nothing was scored: the script abstained on all of {_rows(summary.rows)}"
    first = summary.errors[0]
    row = f"as in row {first.example}"
    return f"nothing was scored; {first.kind} in {_rows(first.count)}, {row}: {first.message}"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _inputs(options: Options, path: str, files: Iterable[str]) -> list[str]:
    scripts = [options.evaluator] if is_path(options.evaluator) else []
    return [*scripts, *([path] if path != "-" else []), *files]
