"""Evaluators of the service: looked at, tried, kept."""

from __future__ import annotations

from typing import Unpack

from runner.core import tracing
from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator
from runner.engine.request import RunRequest
from runner.inputs.evaluators.load import HowRead
from runner.results.store.types import EvaluatorVersion
from runner.runs.pool.types import TryJob, TryReply
from runner.server.service import scripts
from runner.server.service.errors import ServiceError
from runner.server.service.part import Part, threaded
from runner.server.service.types import (
    Checked,
    CheckRequest,
    EvaluateRequest,
    EvaluatorInput,
    SandboxFit,
)
from sandboxes.base import Language

_ANY = "def evaluate(output):\n    return output\n"


class Evaluators(Part):
    """What can be done with scripts."""

    async def check(self, request: CheckRequest) -> Checked:
        """Read a script without running it; what is wrong with it are its `problems`, each with its place."""
        name = scripts.stem_of(request.file_name)
        try:
            how = HowRead(dialect=request.dialect, entry=request.entry)
            return scripts.checked(await self._parsed(request.source, request.language, request.file_name, **how))
        except EvaluatorError as error:
            language = scripts.language_of(request.file_name, request.language)
            return Checked(name=name, language=language, problems=(scripts.problem_of(error, name),))

    async def fits(
        self,
        evaluator: str | None = None,
        *,
        source: str | None = None,
        language: Language | None = None,
        **how: Unpack[HowRead],
    ) -> list[SandboxFit]:
        """
        Each sandbox with whether it can run the evaluator here: one that is kept, or a `source`, or any in Python.

        Raises NotStoredError and EvaluatorError.
        """
        if evaluator is not None:
            _, script = await self._script(evaluator)
        else:
            script = await self._parsed(_ANY if source is None else source, language, **how)
        return await threaded(self._machine.fits, script, self.settings.refused())

    async def evaluate(self, request: EvaluateRequest) -> TryReply:
        """
        Score a few rows at once. A caller that is cancelled stops the script.

        Raises ServiceError, NotStoredError, BusyError, WorkerLostError, and what `runner.evaluate` does.
        """
        script = await self._wanted(request)
        config = await self._config(request.sandbox)
        self.settings.refuse_limits(request.limits)
        rows = request.rows
        if (rows is None) is (request.dataset is None):
            raise ServiceError("invalid-request", "name either `rows` or a `dataset`")
        if rows is None:
            found = await self.dataset_rows(request.dataset or "", request.first, request.count)
            rows = [row.row for row in found.rows if row.row is not None]
        asked = RunRequest(
            evaluator=script, sandbox=config, limits=request.limits, mapping=request.mapping, seed=request.seed
        )
        with tracing.span("try", {"evalcell.version": script.version, "evalcell.rows": len(rows)}) as span:
            chooses = self.settings.chooses(config)  # only then a thread has to be waited for
            permitted = await threaded(self.settings.permitted, asked) if chooses else asked
            reply = await self.pool.evaluate(TryJob(request=permitted, rows=rows))
            span.set({"evalcell.sandbox": reply.sandbox})
            return reply

    async def _wanted(self, request: EvaluateRequest) -> Evaluator:
        if (request.evaluator is None) is (request.source is None):
            raise ServiceError("invalid-request", "name either an `evaluator` that is kept or a `source`")
        if request.evaluator is not None:
            return (await self._script(request.evaluator))[1]
        how = HowRead(dialect=request.dialect, entry=request.entry, failures=request.dialect_failures)
        return await self._parsed(request.source or "", request.language, **how)

    async def save_evaluator(self, given: EvaluatorInput, *, expected: str | None = None) -> EvaluatorVersion:
        """
        Keep a script, as a new version if there is one of its name; the same source, read in the same way, is the same
        version.

        `expected` is the version that was edited. Raises EvaluatorError, InputError for what is no name, and
        VersionConflictError.
        """
        how = HowRead(dialect=given.dialect, entry=given.entry, failures=given.dialect_failures)
        script = await self._parsed(given.source, given.language, given.file_name, given.name, **how)
        return await threaded(self.store.add_evaluator, script, name=given.name, expected=expected)
