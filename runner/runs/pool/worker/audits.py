"""Audits, and verifications of runs, in the worker."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from runner.runs.audit.audit import EvaluatorAudit
from runner.runs.audit.types import Audit
from runner.runs.examples.load import examples_from_rows
from runner.runs.pool.types import AuditJob, VerifyJob
from runner.runs.pool.worker.shared_sandbox import lease_of
from runner.runs.pool.worker.warm import Sandboxes
from runner.runs.verify import RunVerification, Verification


async def audit_grader(job: AuditJob, sandboxes: Sandboxes) -> Audit:
    """Return what an audit finds. Raises what `EvaluatorAudit` does, and ExamplesError."""

    def begin() -> EvaluatorAudit:
        examples = None if job.examples is None else examples_from_rows(job.examples)
        return EvaluatorAudit(
            job.request,
            job.options,
            data=job.rows,
            examples=examples,
            stored=job.stored,
            lease=lambda sandbox: lease_of(sandboxes, sandbox, dry=False),
        )

    work = await asyncio.to_thread(begin)  # it reads the dataset
    await work.score()
    return work.report()


async def verify_run(job: VerifyJob, sandboxes: Sandboxes) -> Verification:
    """Return what became of a run's rows; who serves has allowed what its request asks. Raises as `RunVerification`."""

    def begin() -> RunVerification:
        return RunVerification(
            job.folder,
            job.sample,
            same_rights=True,
            name=job.name,
            lease=lambda sandbox: lease_of(sandboxes, sandbox, dry=False),
        )

    work = await asyncio.to_thread(begin)  # it reads the dataset and the results
    async with aclosing(work.score()) as found:
        async for _ in found:
            pass
    return work.report()
