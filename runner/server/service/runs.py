"""Runs of the service: begun, watched, stopped, looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TypeVar

from anyio import to_thread

from runner.core.errors import InputError
from runner.core.types import Direction
from runner.engine.request import RunRequest
from runner.engine.scoring.summary import Summary
from runner.results.compare.files import Source
from runner.results.compare.pairs import Wish
from runner.results.compare.runs import FlipPage, check_tolerance, compare_sources, compare_with_flips
from runner.results.compare.types import Comparison, Flips
from runner.results.reports.runs import read_run
from runner.results.store.errors import InUseError, NotStoredError, StoreError
from runner.results.store.selection import FacetCounts
from runner.results.store.types import OVER, Page, ResultSelection, RunInfo, RunSpec, RunState, Selection
from runner.runs.pool.types import VerifyJob
from runner.runs.store_references import source_of
from runner.runs.verify import VERIFIED_ROWS, Verification, run_folder
from runner.server.service.base import ServicePart, call_in_thread
from runner.server.service.downloads import Download, Format, as_table, join_files, table
from runner.server.service.errors import ServiceError
from runner.server.service.folders import Folders
from runner.server.service.queue import RENEWAL_SECONDS, Queue
from runner.server.service.request import check_run, job_of, request_of
from runner.server.service.rows import writable_result
from runner.server.service.run_events import Feed
from runner.server.service.types import RunEvent, line
from sandboxes.base import SandboxConfig

T = TypeVar("T")
LOG = logging.getLogger("evalcell.runs")
BEAT = 15.0
"""Seconds without an event after which a watcher is told that the connection lives."""
_LOOK = 2.0
"""Seconds between looks at a run that another process does."""
_STOPPED = 2 * RENEWAL_SECONDS
"""Seconds in which another server has noticed that a run of its is to be stopped."""
_FIRST = FlipPage()


class RunService(ServicePart):
    """What can be done with runs."""

    queue: Queue
    folders: Folders
    _summaries: dict[str, asyncio.Future[RunInfo]]
    """Those that are being made, by run."""

    async def start_run(self, spec: RunSpec) -> RunInfo:
        """
        Queue a run. What can be checked before is: script, columns, gates, sandbox.

        Raises ServiceError, NotStoredError, and what `runner.evaluate` does before its first row.
        """
        config = await self._config(spec.sandbox)
        self.settings.refuse_limits(spec.limits)
        version, script = await self._script(spec.evaluator)
        pinned = spec.model_copy(update={"evaluator": version.reference, "sandbox": config})

        def make() -> RunInfo:
            dataset = self.store.dataset(spec.dataset)
            path = self.store.dataset_path(dataset)
            with request_of(self.store, pinned, script, config, path, self.incoming) as asked:
                request = self.settings.permitted(asked)
                words = check_run(request, version.reference, dataset.name, pinned.baseline)
            kept = pinned.model_copy(update={"sandbox": request.sandbox})
            return self.store.create_run(kept, server=self.queue.server, command=words)

        with self.queue.room():
            info = await to_thread.run_sync(make)  # to its end: nobody would begin a run that is only kept
            self.queue.add(info)
        return info

    async def runs(
        self,
        after: str | None = None,
        count: int = 50,
        *,
        evaluator: str | None = None,
        dataset: str | None = None,
        states: tuple[RunState, ...] = (),
    ) -> Page[RunInfo]:
        """Return the runs, the newest first; after those of the store, those of the folders."""
        if after is None or not after.startswith(Folders.PREFIX):
            look = partial(self.store.runs, after, count, evaluator=evaluator, dataset=dataset, states=states)
            page = await call_in_thread(look)
            if any(map(_of_a_command, page.items)):
                await call_in_thread(self.store.end_abandoned)
                page = await call_in_thread(look)
            if page.next is not None or not self.folders:
                return page
            items, after = page.items, None
        else:
            items = ()
        more = await call_in_thread(self.folders.runs, evaluator, dataset, states)
        start = 0 if after is None else next((n for n, one in enumerate(more) if one.id > after), len(more))
        room = max(0, count - len(items))
        some = more[start : start + room]
        last = some[-1].id if some else Folders.PREFIX
        return Page(items=(*items, *some), next=last if start + room < len(more) else None)

    async def run(self, id: str) -> RunInfo:
        """Return one run. Raises NotStoredError."""
        if self.folders.has(id):
            return await call_in_thread(self.folders.run, id)
        info = await self._kept(id)
        return await self._summed(info) if info.summary is None and info.state in OVER and info.rows else info

    async def _summed(self, info: RunInfo) -> RunInfo:
        """The run with a summary of what is stored: one that was cancelled or lost its server has none of its own."""
        making = self._summaries.get(info.id)
        if making is None:
            making = self._summaries[info.id] = asyncio.ensure_future(self._slowly(self._sum, info))
            making.add_done_callback(lambda _: self._summaries.pop(info.id, None))
        return await asyncio.shield(making)

    def _sum(self, info: RunInfo) -> RunInfo:
        try:
            with source_of(self.store, info, self.incoming) as source:
                found = read_run(source, worst=0, show="worst", failed=False, listed=False).summary
            found = found.model_copy(update={"repeat": self.store.spec(info.id).repeat})
            return self.store.set_summary(info.id, info.rows, found)
        except (InputError, StoreError) as error:
            LOG.warning("its results cannot be summed up: %s", error, extra={"run": info.id})
            return info

    async def _kept(self, id: str) -> RunInfo:
        """A run of the store; one whose command was killed has failed."""
        info = await call_in_thread(self.store.run, id)
        if _of_a_command(info):
            await call_in_thread(self.store.end_abandoned)
            info = await call_in_thread(self.store.run, id)
        return info

    async def cancel(self, id: str) -> RunInfo:
        """Stop a run for good, with its script; what is stored stays. Raises NotStoredError and ServiceError."""
        info = await self._own(id)
        if info.state in OVER:
            raise ServiceError("run-state", f"the run is {info.state} already; nothing is left to cancel")
        await self._stop(info)
        return await call_in_thread(self.store.run, id)

    async def _stop(self, info: RunInfo) -> None:
        """Stop a run, also at another server that has the same store. Raises ServiceError for that of a command."""
        if await self.queue.cancel(info.id):
            return
        if info.owner == "cli":
            raise ServiceError("run-state", "another process does this run; stop it there")
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOPPED):
                while (await call_in_thread(self.store.ask_to_stop, info.id)).state not in OVER:
                    await asyncio.sleep(_LOOK / 4)

    async def resume(self, id: str) -> RunInfo:
        """Let a run that failed or was cancelled go on after its last stored row. Raises ServiceError."""
        await self._own(id)
        with self.queue.room(id):
            info = await self._own(id)  # as it is now that nobody else changes it
            if info.owner == "cli":
                raise ServiceError("run-state", f"a command did this run; run it again: {info.command}")

            def check() -> None:
                with job_of(self.store, id, self.incoming) as request:
                    self.settings.permitted(request)

            try:
                await call_in_thread(check)
            except NotStoredError as error:
                raise ServiceError("run-state", str(error)) from None
            try:
                queued = await to_thread.run_sync(self.store.requeue, id, self.queue.server)
            except InUseError as error:
                raise ServiceError("run-state", str(error)) from None
            self.queue.add(queued)
        return queued

    async def delete_run(self, id: str, *, force: bool = False) -> int:
        """Delete a run with its results; the bytes that the disk gets back. With `force` it is cancelled before."""
        info = await self._own(id)
        if force and info.state not in OVER:
            await self._stop(info)
        return await call_in_thread(self.store.delete_run, id, force=force)

    async def results(
        self, id: str, selection: Selection | None = None, facets: FacetCounts | None = None
    ) -> ResultSelection:
        """Return chosen results of a run; `facets` are counted. Raises NotStoredError."""
        chosen = Selection() if selection is None else selection
        select = self.folders.select if self.folders.has(id) else self.store.select
        found = await (
            self._slowly(select, id, chosen, facets)
            if chosen.reads_rows
            else call_in_thread(select, id, chosen, facets)
        )
        return found.model_copy(update={"rows": tuple(map(writable_result, found.rows))})

    async def events(self, id: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """Yield what happens to a run after so many stored rows: its state first, how it ended last."""
        async for event in self.watch(id, after, BEAT):
            if event is not None:
                yield event

    async def watch(self, id: str, after: int, beat: float) -> AsyncIterator[RunEvent | None]:
        """Yield what `events` does, with None after each `beat` seconds without one."""
        feed = self.queue.feed(id)
        if feed is not None:
            async for event in feed.watch(after, beat):
                yield event
            return
        info = await self.run(id)
        feed = Feed(info)
        feed.closed = info.state in OVER
        if feed.closed:
            async for event in feed.watch(after, beat):
                yield event
            return
        # Another process does it: what it stores is looked at now and then. No group of tasks: who watches may leave in
        # the middle.
        looking = asyncio.create_task(self._look(id, feed), name=f"look at {id}")
        try:
            async for event in feed.watch(after, beat):
                yield event
        finally:
            looking.cancel()

    async def _look(self, id: str, feed: Feed) -> None:
        while not feed.closed:
            await asyncio.sleep(_LOOK)
            try:
                feed.catch_up(await self.run(id))
            except NotStoredError:
                feed.end()  # it was deleted
            except (InputError, StoreError) as error:
                LOG.warning("the run cannot be looked at: %s", error, extra={"run": id})

    async def download(self, id: str, format: Format) -> Download:
        """Return all results of a run as a file. Raises NotStoredError."""
        info = await self.run(id)
        if self.folders.has(id):
            paths = [(await call_in_thread(self.folders.source, id)).path]
        else:
            paths = [segment.path for segment in await call_in_thread(self.store.segments, id)]
        if format == "jsonl":
            return join_files(info, paths)
        return as_table(info, format, await self._slowly(table, paths, format, self.incoming))

    async def groups(self, id: str, by: str) -> Summary:
        """Return a run's summary with figures by a column that its results carry. Raises NotStoredError, InputError."""
        info = await self.run(id)

        def read() -> Summary:
            with self._source(info) as source:
                return read_run(source, worst=0, show="worst", failed=False, listed=False, by=by).summary

        return await self._slowly(read)

    async def verify(self, id: str, sample: str = VERIFIED_ROWS) -> Verification:
        """
        Run rows of a run again, and tell whether they give the same. A caller that is cancelled stops it.

        Raises ServiceError, NotStoredError, NotComparableError, BusyError, WorkerLostError, and what a run does.
        """
        if self.folders.has(id):
            raise ServiceError("read-only", f"a results folder is verified where it lies: `evalcell verify` {line(id)}")
        info = await self.run(id)
        allowed: list[SandboxConfig] = []

        def permit(asked: RunRequest) -> RunRequest:
            request = self.settings.permitted(asked)
            allowed.append(request.sandbox)
            return request

        with ExitStack() as stack:
            copying = partial(run_folder, self.store, info, permit, self.incoming)
            folder = await self._slowly(lambda: stack.enter_context(copying()))
            return await self.pool.verify(VerifyJob(folder=str(folder), name=id, sample=sample), allowed[0])

    async def compare(
        self,
        base: str,
        new: str,
        *,
        by: str | None = None,
        cluster: str | None = None,
        tolerance: float = 0.0,
    ) -> Comparison:
        """Return two runs of one dataset, row by row: is `new` better than `base`? Raises NotComparableError."""
        check_tolerance(tolerance)
        wish = Wish(tolerance, by, cluster, False)
        return await self._compared(base, new, lambda sources: compare_sources(sources, wish))

    async def flips(
        self,
        base: str,
        new: str,
        page: FlipPage = _FIRST,
        *,
        by: str | None = None,
        direction: Direction | None = None,
    ) -> tuple[Comparison, Flips]:
        """
        Return the comparison, and the rows whose outcome, score or label is another.

        `direction`: which scores are better, where neither run says. Raises NotComparableError.
        """
        wish = Wish(by=by)
        return await self._compared(base, new, lambda sources: compare_with_flips(sources, wish, page, direction))

    async def _compared(self, base: str, new: str, compare: Callable[[tuple[Source, Source]], T]) -> T:
        infos = await self.run(base), await self.run(new)

        def compared() -> T:
            with self._source(infos[0]) as one, self._source(infos[1]) as other:
                return compare((one, other))

        return await self._slowly(compared)

    @contextmanager
    def _source(self, info: RunInfo) -> Iterator[Source]:
        """The results of a run as one file, and what its manifest would tell. Blocks."""
        if self.folders.has(info.id):
            yield self.folders.source(info.id)
            return
        with source_of(self.store, info, self.incoming) as source:
            yield source

    async def _own(self, id: str) -> RunInfo:
        if self.folders.has(id):
            raise ServiceError("read-only", "a results folder is only read; change it where it was written")
        return await self._kept(id)


def _of_a_command(info: RunInfo) -> bool:
    """Whether a command does the run, unless it was killed."""
    return info.owner == "cli" and info.state == "running"
