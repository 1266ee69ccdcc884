"""One run: its rows go into the results files and the summary as they come, whoever asked for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from time import perf_counter
from typing import BinaryIO

from runner.datasets.dataset import Dataset
from runner.output.files import WriteError
from runner.output.manifest import State
from runner.output.sinks import Outputs
from runner.request import Prepared, Rows
from runner.results.gates import judge, parse_gate, parse_max_failed
from runner.results.summary import Summary, Tally
from runner.types import Case, Result


class Run:
    """
    One run, from its dataset to its summary. Use it once: `open`, then all of `results`, then `end`.

    `files` are the paths of the results: files, and at most one folder. `lock` is the path that the request's lock was
    read from. Raises InputError for a gate that means nothing, OutputError for a path that cannot be written.
    """

    def __init__(self, prepared: Prepared, *, files: Sequence[str] = (), lock: str | None = None) -> None:
        request, evaluator = prepared.request, prepared.evaluator
        self.prepared = prepared
        self._gates = [parse_gate(text, evaluator.outputs) for text in request.gates]
        self._max_failed = None if request.max_failed is None else parse_max_failed(request.max_failed)
        inputs = prepared.inputs if files else ()
        self._outputs = Outputs(files, inputs=inputs, lock=lock, outputs=tuple(evaluator.outputs))
        self._tally = Tally(evaluator.outputs)
        self._cases: Iterable[Case] = ()
        self._seconds = 0.0

    @contextmanager
    def open(self, rows: Rows | None = None, stdin: BinaryIO | None = None) -> Iterator[None]:
        """Opens the dataset, or takes these rows. Raises DatasetError."""
        with self.prepared.open(rows, stdin) as self._cases:
            yield

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of the dataset, in words."""
        return self._cases.notes if isinstance(self._cases, Dataset) else ()

    def total(self) -> int | None:
        """How many rows there are to score, where that is known before they are read."""
        total, limit = self._cases.total() if isinstance(self._cases, Dataset) else None, self.prepared.request.limit
        return total if limit is None or total is None else min(total, limit)

    @property
    def written(self) -> dict[str, int]:
        """How many whole rows are in each file and the folder, by its path."""
        return self._outputs.rows

    async def results(self) -> AsyncGenerator[Result, None]:
        """
        Each result as it comes, in the dataset's order; it is on its way to the files by then.

        Opens and closes the sandbox. Raises what `score` does, OutputError and WriteError.
        """
        async with self.prepared.sandbox as opened, self._outputs:
            await self._outputs.begin(self.prepared)
            began = perf_counter()
            async with aclosing(self.prepared.score(self._cases, opened)) as found:
                try:
                    async for result in found:
                        self._outputs.add(result)
                        self._tally.add(result)
                        yield result
                        await self._outputs.room()
                finally:
                    self._seconds = perf_counter() - began

    def summary(self, state: State = "finished") -> Summary:
        """What the rows so far add up to. Gates are judged once all rows are done."""
        summary = self._tally.summary(self._seconds)
        if state != "finished":
            return summary
        complete = self._cases.complete if isinstance(self._cases, Dataset) else True
        return judge(summary, self._gates, self._max_failed, complete=complete)

    def end(self, state: State, error: str | None = None) -> WriteError | None:
        """
        Says in the manifest how the run ended.

        Raises WriteError where a run that is finished cannot say so; beside what went wrong before it is returned.
        """
        try:
            self._outputs.end(state, self.summary(state), self.notes, error)
        except WriteError as e:
            if state == "finished":
                raise
            return e
        return None
