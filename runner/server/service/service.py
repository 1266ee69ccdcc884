"""The service: what a server can do, each operation once."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self
from uuid import uuid4

from anyio import to_thread

import templates
from runner.core import tracing
from runner.core.errors import DatasetError, EvaluatorError, InputError
from runner.core.types import Evaluator
from runner.engine.request import RunRequest
from runner.inputs.datasets.formats.unnest import write_as_utf8, write_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.resolve import STORE_PREFIX
from runner.inputs.evaluators.zip_file import MAX_ZIP, read_zip
from runner.results.store.names import split_file_name
from runner.results.store.store import Store
from runner.results.store.types import DatasetInfo, EvaluatorVersion, Preset
from runner.runs.audit.types import Audit, AuditOptions
from runner.runs.pool.pool import WorkerPool
from runner.runs.pool.types import AuditJob, PoolStatus, TryJob, TryReply
from runner.server.service import scripts
from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError
from runner.server.service.folders import Folders
from runner.server.service.queue import Queue
from runner.server.service.rows import looked_at
from runner.server.service.runs import RunService
from runner.server.service.settings import ServiceSettings
from runner.server.service.types import (
    AuditRequest,
    CheckRequest,
    EvaluateRequest,
    EvaluatorInput,
    SandboxFit,
    ScoreRequest,
    ScriptCheck,
    ScriptSource,
)
from sandboxes.base import SandboxConfig
from sandboxes.host.cores import cores
from sandboxes.words.wording import Setting

_ANY = ScriptSource(source="def evaluate(output):\n    return output\n")
_OWN_NAME = re.compile(r"(?<=[ \"'])rows\.(?=\w)")
_AT_ONCE = 1 << 20
"""Bytes that are gathered before they go to the disk."""
_EXAMPLE, _EXAMPLE_ROWS = "json-distance", "demo"
"""What there is to look at after a first start."""


def _add_example(store: Store) -> None:
    """Add an evaluator and its rows to a store that holds nothing. Blocks."""
    usage, path = store.usage(), templates.demo(_EXAMPLE)
    if usage.evaluators or usage.datasets or usage.runs or path is None:
        return
    store.add_evaluator(parse_evaluator(templates.source(_EXAMPLE), _EXAMPLE), name=_EXAMPLE)
    rows, columns, _ = looked_at(path)
    store.add_dataset(path, name=_EXAMPLE_ROWS, suffix="".join(path.suffixes[-1:]), rows=rows, columns=columns)


class Service(RunService):
    """
    Every operation of the server. Used by HTTP, pages and MCP alike; open it with `async with`.

    It closes the pool, and leaves the store open. `folder` is for files that are not accepted yet; `server` is the name
    by which it claims runs, and goes on with them when it begins again. All raises
    ServiceError, or an exception that `runner.server.service.errors.translate_error` makes one of.
    """

    def __init__(
        self,
        store: Store,
        pool: WorkerPool,
        settings: ServiceSettings | None = None,
        *,
        folder: Path | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(store, pool, settings, folder)
        self.queue = Queue(store, pool, self.settings, server or uuid4().hex, folder)
        self.folders = Folders(self.settings.folders)
        self.places = asyncio.Semaphore(cores() + 1)
        """Of programs that trainers send; others wait in the order in which they came."""
        self._summaries = {}
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self.incoming is not None:
            # What a server that was killed had not accepted.
            await call_in_thread(shutil.rmtree, self.incoming, ignore_errors=True)
            await call_in_thread(self.incoming.mkdir, parents=True, exist_ok=True, mode=0o700)
        with suppress(InputError):
            await call_in_thread(_add_example, self.store)
        await self._opened.enter_async_context(self.pool)
        await call_in_thread(self.store.end_abandoned)
        await self.queue.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
        await self._opened.aclose()

    async def stop(self) -> None:
        """Park the runs that go on, let their watchers go, and end what is slow. Safe twice."""
        self.end_slow_work()
        await self.queue.close()

    async def ready(self) -> dict[str, Any]:
        """Say whether scripts can be run, and what is active in each sandbox of this machine that is allowed."""
        await call_in_thread(self.store.ping)
        notes = await call_in_thread(self._machine.tiers, self.settings.refused())
        usable = any(not why for _, why in notes.values())
        sandboxes = {name: " ".join(filter(None, note)) or "available" for name, note in notes.items()}
        return {"ready": usable and not self.queue.stopping, "sandboxes": sandboxes}

    def status(self) -> PoolStatus:
        """Return what the workers do."""
        return self.pool.status()

    async def check(self, request: CheckRequest) -> ScriptCheck:
        """Read a script without running it; what is wrong with it are its `problems`, each with its place."""
        name = scripts.stem_of(request.file_name)
        try:
            return scripts.check_evaluator(await self._parsed(request, request.file_name))
        except EvaluatorError as error:
            language = scripts.language_of(request.file_name, request.language)
            return ScriptCheck(name=name, language=language, problems=(scripts.problem_of(error, name),))

    async def fits(self, evaluator: str | None = None, script: ScriptSource = _ANY) -> list[SandboxFit]:
        """
        Return each sandbox with whether it can run the evaluator here: one that is kept, or a `script`, or any in
        Python.

        Raises:
            NotStoredError: There is none in the store.
            EvaluatorError: It is not an evaluator.
        """
        wanted = await self._parsed(script) if evaluator is None else (await self._script(evaluator))[1]
        return await call_in_thread(self._machine.fits, wanted, self.settings.refused())

    async def evaluator_script(self, reference: str) -> Evaluator:
        """Return the script of an evaluator that is kept. Raises NotStoredError, and EvaluatorError."""
        return (await self._script(reference))[1]

    async def evaluate(self, request: EvaluateRequest, *, bare: bool = False) -> TryReply:
        """
        Score a few rows at once. A caller that is cancelled stops the script. `bare`: as in TryJob.

        Raises ServiceError, NotStoredError, BusyError, WorkerLostError, and what `runner.evaluate` does.
        """
        script = await self.evaluator_of(request)
        asked = await self._run_of(script, request)
        rows = request.rows
        if rows is None:
            found = await self.dataset_rows(request.dataset or "", request.first, request.count)
            rows = [row.row for row in found.rows if row.row is not None]
        with tracing.span("try", {"evalcell.version": script.version, "evalcell.rows": len(rows)}) as span:
            chooses = self.settings.chooses(asked.sandbox)  # only then a thread has to be waited for
            permitted = (
                await call_in_thread(self.settings.permitted, asked) if chooses else self.settings.with_judges(asked)
            )
            reply = await self.pool.evaluate(TryJob(request=permitted, rows=rows, bare=bare))
            span.set({"evalcell.sandbox": reply.sandbox})
            return reply

    async def audit(self, request: AuditRequest) -> Audit:
        """
        Audit a grader at once. A caller that is cancelled stops it.

        Raises ServiceError, NotStoredError, BusyError, WorkerLostError, and what `runner.audit` does.
        """
        script = await self.evaluator_of(request)
        dataset, stored = None, None
        if request.dataset is not None:
            info, path = await call_in_thread(self._dataset_file, request.dataset)
            dataset, stored = STORE_PREFIX + info.name, str(path)
        asked = await self._run_of(script, request, dataset=dataset, require=request.require)
        permitted = await call_in_thread(self.settings.permitted, asked)
        options = AuditOptions(**{name: getattr(request, name) for name in AuditOptions.model_fields})
        return await self.pool.audit(
            AuditJob(request=permitted, stored=stored, options=options, rows=request.rows, examples=request.examples)
        )

    async def _run_of(self, script: Evaluator, request: ScoreRequest, **more: Any) -> RunRequest:
        """The run that is asked for. Raises ServiceError and NotStoredError."""
        config = await self._config(request.sandbox)
        self.settings.refuse_limits(request.limits)
        if (request.rows is None) is (request.dataset is None):
            raise ServiceError("invalid-request", "name either `rows` or a `dataset`")
        own = {name: getattr(request, name) for name in ("limits", "mapping", "seed")}
        return RunRequest(evaluator=script, sandbox=config, **own, **more)

    def _dataset_file(self, name: str) -> tuple[DatasetInfo, Path]:
        info = self.store.dataset(name)
        return info, self.store.dataset_path(info)

    async def evaluator_of(self, request: ScoreRequest) -> Evaluator:
        """Return the script that a dry run is of. Raises ServiceError, NotStoredError and EvaluatorError."""
        if (request.evaluator is None) is (request.source is None and request.zip is None):
            raise ServiceError(
                "invalid-request", "name either an `evaluator` that is kept or a `source`, or send a `zip`"
            )
        if request.evaluator is not None:
            return (await self._script(request.evaluator))[1]
        return await self._parsed(request, failures=request.dialect_failures)

    async def has_evaluator(self, name: str) -> bool:
        """Say whether an evaluator of this name is kept."""
        try:
            await call_in_thread(self.store.evaluator, name)
        except InputError:
            return False
        return True

    async def save_evaluator(self, draft: EvaluatorInput, *, expected: str | None = None) -> EvaluatorVersion:
        """
        Keep a script, as a new version if there is one of its name; the same source, read in the same way, is the same
        version.

        `expected` is the version that was edited. Raises EvaluatorError, InputError for what is no name, and
        VersionConflictError.
        """
        script = await self._parsed(draft, draft.file_name, draft.name, draft.dialect_failures)
        return await call_in_thread(self.store.add_evaluator, script, name=draft.name, expected=expected)

    async def save_zip(self, stream: AsyncIterator[bytes], name: str | None = None) -> EvaluatorVersion:
        """
        Keep the evaluator that a zip file holds, as `save_evaluator` does.

        Raises:
            ServiceError: It is too large.
            EvaluatorError: It holds none.
        """
        data = bytearray()
        async for part in stream:
            data += part
            if len(data) > MAX_ZIP:
                raise ServiceError("too-large", f"the zip is larger than {MAX_ZIP:,} bytes; keep data elsewhere")
        script = await call_in_thread(read_zip, bytes(data), name)
        self._refuse_large(script.source)
        return await call_in_thread(self.store.add_evaluator, script, name=name)

    async def add_dataset(
        self,
        stream: AsyncIterator[bytes],
        file_name: str,
        *,
        name: str | None = None,
        another: bool = False,
        rows: str | None = None,
        encoding: str | None = None,
    ) -> DatasetInfo:
        """
        Keep a file as it comes. It is looked at before it is accepted; nothing of what is refused stays.

        Args:
            stream: The file's bytes.
            file_name: Its suffix tells the format.
            name: Its name in the store. None: the file's.
            another: A name that is taken becomes `NAME-2`.
            rows: The place of the rows in a JSON file that is no array: they are kept as JSON Lines.
            encoding: That of a text file, which is kept as UTF-8.

        Raises:
            ServiceError: It is too large.
            DatasetError: It has no row.
            InputError, NameTakenError: The name is none, or is taken.
            StoreFullError: There is no room.
        """
        made, suffix = split_file_name(file_name)
        with _room():
            folder = Path(await call_in_thread(tempfile.mkdtemp, prefix="upload-", dir=self.incoming))
        sent = path = folder / f"rows{suffix}"
        try:
            with _room():
                await self._written(stream, path)
            try:
                if encoding is not None:
                    path = folder / f"as-utf-8{suffix}"
                    with _room():
                        await self._slowly(write_as_utf8, sent, encoding, path)
                    sent.unlink()
                    path.rename(sent)
                    path = sent
                if rows is not None:
                    path, suffix = folder / "rows-there.jsonl", ".jsonl"
                    with _room():
                        await self._slowly(write_rows, sent, rows, path)
                count, columns, notes = await self._slowly(looked_at, path)
            except DatasetError as error:
                raise DatasetError(_of_sender(str(error), sent, file_name, made)) from None
            info = await to_thread.run_sync(
                lambda: self.store.add_dataset(
                    path, name=name or made, suffix=suffix, rows=count, columns=columns, another=another
                )
            )
            said = tuple(_of_sender(note, sent, file_name, made) for note in notes)
            return info.model_copy(update={"notes": said})
        finally:
            for left in (sent, path, folder):
                with suppress(OSError):
                    left.rmdir() if left is folder else left.unlink()

    async def _written(self, stream: AsyncIterator[bytes], path: Path) -> None:
        most, size = self.settings.dataset_bytes, 0
        gathered = bytearray()
        file = await call_in_thread(_created, path)
        try:
            async for part in stream:
                size += len(part)
                if size > most:
                    raise ServiceError("too-large", f"the dataset is larger than {most:,} bytes; score a part of it")
                gathered += part
                if len(gathered) >= _AT_ONCE:
                    await to_thread.run_sync(file.write, bytes(gathered))
                    gathered.clear()
            await to_thread.run_sync(file.write, bytes(gathered))
        finally:
            file.close()
        if not size:
            raise DatasetError("the body is empty; send the file as it is")

    async def set_preset(self, name: str, config: SandboxConfig) -> Preset:
        """Keep a sandbox config under a name. Raises ServiceError for one that this server does not allow."""
        self.settings.refuse(config)
        return await call_in_thread(self.store.set_preset, name, config)


def _of_sender(words: str, path: Path, file_name: str, name: str) -> str:
    """What was said of the file that was written here, as its sender can use it: only they can change the file."""
    words = words.replace(f"{path.parent}/", "").replace(path.name, file_name)
    words = _OWN_NAME.sub(lambda _: f"{name}.", words)
    encoding = re.escape(str(Setting("encoding", "_"))).replace("_", r"[\w-]*")
    return re.sub(f", or give its encoding, such as {encoding}", "", words)


@contextmanager
def _room() -> Iterator[None]:
    """Say what the disk says. Raises ServiceError."""
    try:
        yield
    except OSError as error:
        why = f"the file cannot be written to the server's disk ({error.strerror}); make room there, and send it again"
        raise ServiceError("write", why) from None


def _created(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
