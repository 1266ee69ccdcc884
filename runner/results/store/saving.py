"""A run that is saved while it goes on: its results go to the store in segments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.settings import FileSettings, RunSettings
from runner.core.text import printable, whole
from runner.core.types import Result
from runner.engine.request import PreparedRun
from runner.engine.scoring.summary import Summary
from runner.engine.threads import DaemonCall
from runner.inputs.evaluators.resolve import STORE_PREFIX, is_reference
from runner.results.output.digests import Digests, digests
from runner.results.output.files import WriteError
from runner.results.output.manifest import State, command
from runner.results.output.row_cells import run_layout
from runner.results.store import open_store
from runner.results.store.errors import StoreError
from runner.results.store.segments import SegmentBuilder
from runner.results.store.types import DatasetInfo, RunState, StoredSpec

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from runner.results.store.runs import Changes

_HURRY = 1.5
"""Seconds that the rest of the rows gets after a signal."""
_LATE = 10.0
_STATES: dict[State, RunState] = {"finished": "finished", "stopped": "finished", "interrupted": "cancelled"}


class SavedRun:
    """
    One run in the store: `begin`, `add` and `room` for each result, `close` or `give_up`, `end`.

    Opens the store at once. `read` is what the run reads by content, if somebody finds that out already. Raises
    StoreError.
    """

    def __init__(self, prepared: PreparedRun, read: DaemonCall[Digests] | None = None) -> None:
        self._prepared = prepared
        self._store = open_store()
        self._builder = SegmentBuilder(layout=run_layout(prepared))
        named = prepared.request.dataset or ""
        self._named = named.removeprefix(STORE_PREFIX) if named.startswith(STORE_PREFIX) else None
        if read is None and self._named is None:
            read = DaemonCall(lambda: digests(prepared.dataset, {}), "evalcell-digests")
        self._read = read
        self._writing: DaemonCall[int] | None = None
        self._held: BaseFileLock | None = None
        self.id: str | None = None
        """The run's, once it has begun."""

    async def begin(self, sandbox: str) -> None:
        """Keep what is run; `sandbox` is its identity. Raises StoreError and InputError."""
        self.id = await DaemonCall(lambda: self._begin(sandbox), "evalcell-store").get()

    def _begin(self, sandbox: str) -> str:
        prepared, request = self._prepared, self._prepared.request
        named = request.evaluator
        if isinstance(named, str) and is_reference(named):
            reference = self._store.evaluator(named).reference
        else:
            reference = self._store.add_evaluator(prepared.evaluator).reference
        spec = StoredSpec(
            evaluator=reference,
            dataset=whole(request.dataset or ""),
            sandbox=request.sandbox,
            **{name: getattr(request, name) for name in (*RunSettings.model_fields, *FileSettings.model_fields)},
        )
        run = self._store.create_run(
            spec, dataset=self._dataset(), state="running", owner="cli", command=whole(command(prepared, None))
        )
        self._held = self._store.hold(run.id)
        self._store.set_run(run.id, sandbox=sandbox, why=prepared.why)
        return run.id

    def _dataset(self) -> DatasetInfo:
        named = self._prepared.request.dataset
        if self._named is not None:
            return self._store.dataset(self._named)
        name = "rows of the caller" if named is None else "standard input" if named == "-" else Path(named).name
        return DatasetInfo(name=printable(whole(name)), digest="", suffix="", bytes=0, created=datetime.now(UTC))

    def add(self, results: Iterable[Result]) -> None:
        """Take results, without waiting."""
        for result in results:
            self._builder.add(result)

    async def room(self) -> None:
        """Write a full segment beside the next one; to be awaited between two times. Raises StoreError."""
        if self._builder.full:
            if self._writing is not None:
                await self._writing.get()
            self._writing = self._write()

    async def close(self) -> None:
        """Write the rest. Raises StoreError."""
        for _ in range(2):
            if self._writing is not None:
                await self._writing.get()
            self._writing = self._write()

    async def give_up(self, kind: type[BaseException]) -> None:
        """Write what can be written after this failure, the only one that is reported."""
        with suppress(StoreError, TimeoutError):
            await asyncio.wait_for(self.close(), _LATE if issubclass(kind, Exception) else _HURRY)

    def _write(self) -> DaemonCall[int] | None:
        run = self.id
        if run is None or not len(self._builder):
            return None
        segment = self._builder.take()
        return DaemonCall(lambda: self._store.add_segment(run, segment), "evalcell-store")

    def end(self, state: State, summary: Summary, error: str | None) -> None:
        """Keep how the run ended. Raises WriteError if that cannot be done, or takes too long."""
        run = self.id

        def work() -> None:
            with self._store as store:
                if run is None:
                    return
                changes: Changes = {"state": _STATES.get(state, "failed"), "summary": summary, "error": error}
                if self._read is not None and self._named is None:
                    with suppress(TimeoutError):
                        changes["digest"] = self._read.wait(None if state == "finished" else _HURRY).dataset
                if state == "finished":
                    changes["total"] = self._builder.taken
                elif summary.stop is not None:
                    changes["total"] = summary.stop.rows * summary.repeat
                store.set_run(run, **changes)
                if self._held is not None:
                    store.release(run, self._held)

        try:
            DaemonCall(work, "evalcell-store").wait(None if state == "finished" else 2 * _HURRY)
        except (StoreError, TimeoutError) as failure:
            why = str(failure) or "it hangs"
            raise WriteError(f"the store does not say how the run {run or ''} ended: {why}") from None
