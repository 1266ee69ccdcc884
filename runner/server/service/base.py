"""What the parts of the service share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from pathlib import Path
from typing import ParamSpec, TypeVar, Unpack

from runner.core.text import command_text, list_names, printable, suggestion
from runner.core.types import DialectFailures, Evaluator
from runner.engine.arguments import config_or_preset
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.datasets.work import AbandonedError, AbandonEvent, until
from runner.inputs.evaluators.load import MAX_SOURCE, HowRead, how_named, parse_evaluator
from runner.inputs.evaluators.zip_file import read_zip
from runner.inputs.template_suggestions import ROWS, suggest_template
from runner.results.store.errors import NotStoredError
from runner.results.store.store import Store
from runner.results.store.types import EvaluatorVersion
from runner.runs.pool.pool import WorkerPool
from runner.server.service.errors import ServiceError
from runner.server.service.rows import FIRST_ROWS, some_rows
from runner.server.service.scripts import PoolMachine, language_of, stem_of
from runner.server.service.settings import ServiceSettings
from runner.server.service.types import DatasetRows, DatasetSuggestion, ScriptSource
from sandboxes.base import Language, SandboxConfig
from sandboxes.registry import backends

P = ParamSpec("P")
T = TypeVar("T")
_SLOW = 4
"""Things that may take long, at once: the threads of all other requests are not theirs to take."""
_THREADS = ThreadPoolExecutor(40, "evalcell")
"""Of all other calls that block. A thread is taken until its call ends, also if nobody waits for that any more."""
_NEAR = 8
"""Looks at the first rows of datasets, at once."""


class ServicePart:
    """A part of the service, over the store, the pool and what this server allows."""

    def __init__(self, store: Store, pool: WorkerPool, settings: ServiceSettings | None, folder: Path | None) -> None:
        self.settings = settings or ServiceSettings()
        self.store = store
        self.pool = pool
        self.incoming = folder
        """The folder for files that are not accepted yet, or are gone soon. None: the system's."""
        self._machine = PoolMachine(self.settings.active)
        self._going: set[AbandonEvent] = set()
        """Slow work under way; each is set when it is to end."""
        self._stopped = False
        self._slow = ThreadPoolExecutor(_SLOW, "evalcell slow")
        self._near = ThreadPoolExecutor(_NEAR, "evalcell rows")

    async def _slowly(self, call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """As `threaded`, but few at once: others find a thread meanwhile. It ends with its request, or the server."""
        return await self._ending(self._slow, partial(call, *args, **more))

    async def _ending(self, threads: Executor, call: Callable[[], T]) -> T:
        gone = AbandonEvent()
        self._going.add(gone)
        try:
            if self._stopped:
                raise AbandonedError
            context = copy_context()
            context.run(until, gone)
            return await asyncio.get_running_loop().run_in_executor(threads, context.run, call)
        except AbandonedError:
            raise ServiceError("stopping", "the server is stopping; send the request again when it is back") from None
        finally:
            gone.set()
            self._going.discard(gone)

    def end_slow_work(self) -> None:
        """End slow work for good: the server stops, and its threads would hold it up."""
        self._stopped = True
        for gone in list(self._going):
            gone.set()

    async def dataset_rows(self, name: str, first: int = 1, count: int = 5) -> DatasetRows:
        """
        Return rows of a dataset. Raises what `some_rows` does.

        It may take long to read up to them, however few they are: others find a thread meanwhile, also to look at the
        first rows of something else.
        """
        call = partial(some_rows, self.store, name, first, count)
        return await self._ending(self._near if first + count <= FIRST_ROWS else self._slow, call)

    async def suggest(self, name: str) -> DatasetSuggestion:
        """Return the template that a dataset's first rows call for. Raises what `some_rows` does."""
        found = await self.dataset_rows(name, 1, ROWS)
        rows = (one.row for one in found.rows if one.row is not None)
        suggestion = await call_in_thread(lambda: suggest_template(cases_from_rows(rows)))
        command = command_text(suggestion.words(f"store:{name}"))
        return DatasetSuggestion(**suggestion.model_dump(), command=command)

    async def _config(self, wanted: str | SandboxConfig | None) -> SandboxConfig:
        """The config, or that of the backend or preset of a name, if this server allows it. Raises ServiceError."""
        if isinstance(wanted, str) and isinstance(wanted := config_or_preset(name := wanted), str):
            try:
                wanted = (await call_in_thread(self.store.preset, name)).config
            except NotStoredError:
                presets = [one.name for one in (await call_in_thread(self.store.presets, None, 100)).items]
                known = [one for one in backends() if one not in self.settings.refused()] + presets
                near = suggestion(name, known) or f"; there are {list_names(known, 20)}"
                raise ServiceError(
                    "not-found", f"there is no sandbox or preset of one named {printable(name, 64)!r}{near}"
                ) from None
        config = SandboxConfig() if wanted is None else wanted
        self.settings.refuse(config)
        return config

    async def _script(self, reference: str) -> tuple[EvaluatorVersion, Evaluator]:
        """A version that is kept, and its script. Raises NotStoredError, and EvaluatorError if it is taken no more."""

        def found() -> tuple[EvaluatorVersion, Evaluator]:
            version = self.store.evaluator(reference)
            return version, parsed_version(version)

        return await call_in_thread(found)

    async def _parsed(
        self,
        script: ScriptSource,
        file_name: str | None = None,
        name: str | None = None,
        failures: DialectFailures = "failed",
    ) -> Evaluator:
        """A script that was sent. Raises EvaluatorError, and ServiceError for one that is too large."""
        how = HowRead(dialect=script.dialect, entry=script.entry, failures=failures)
        if script.zip is not None:
            found = await call_in_thread(read_zip, script.zip, name, **how)
            self._refuse_large(found.source)
            return found
        source = script.source or ""
        self._refuse_large(source)
        return await call_in_thread(
            parse_script,
            source,
            name or stem_of(file_name),
            language_of(file_name, script.language),
            tuple(script.files.items()),
            **(how if file_name is None else how_named(file_name, how)),
        )

    def _refuse_large(self, source: str) -> None:
        if len(source.encode("utf-8", "replace")) > (most := self.settings.script_bytes):
            raise ServiceError("too-large", f"the script is larger than {most:,} bytes; keep its data elsewhere")


async def call_in_thread(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """
    Return what the call returns, which blocks.

    A caller that is cancelled goes on at once; the call ends by itself.
    """
    return await _in_thread(_THREADS, partial(call, *args, **more))


async def _in_thread(threads: Executor, call: Callable[[], T]) -> T:
    # Not by a limiter of those who wait: clients that hang up would leave their places, and threads behind.
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call)


def parse_script(
    source: str, name: str, language: Language, files: tuple[tuple[str, str], ...] = (), **how: Unpack[HowRead]
) -> Evaluator:
    """Return a script, read at most once while it is used. Raises EvaluatorError."""
    is_large = sum(len(text) for _, text in files) > MAX_SOURCE
    return (_few if is_large else _many)(source, name, language, files, **how)


def _parse(
    source: str, name: str, language: Language, files: tuple[tuple[str, str], ...], **how: Unpack[HowRead]
) -> Evaluator:
    return parse_evaluator(source, name, language=language, files=dict(files), **how)


_many, _few = lru_cache(256)(_parse), lru_cache(16)(_parse)


def parsed_version(version: EvaluatorVersion) -> Evaluator:
    """Return the script of a version that is kept. Raises EvaluatorError."""
    files = tuple(version.files.items())
    return parse_script(version.source, version.name, version.language, files, **version.how_read)
