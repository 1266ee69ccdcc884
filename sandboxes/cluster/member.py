"""A worker of a cluster, as this program sees it; and asking it, with Ray's errors as ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandboxes.cluster.worker import Reply
from sandboxes.errors import SandboxLostError, SandboxUnavailableError
from sandboxes.host.shield import finish

STOP = 5.0
"""Seconds for a worker to end by itself."""
_CREATION = "creation task"
"""Ray's words for an actor whose class or constructor failed."""
_NO_ROOM = (
    "the shared memory of the cluster's nodes, and the disk behind it, are full ({}); free them, or give nodes more "
    "with `ray start --object-store-memory`, then run it again with `resume`"
)


class WorkerDiedError(SandboxLostError):
    """The worker's process, or its node, is gone."""


class NotStartedError(SandboxUnavailableError):
    """The cluster has no room for a worker, or not yet."""


@dataclass(eq=False)
class Member:
    """A worker that is there."""

    actor: Any
    where: str = "a node that did not answer"
    facts: Reply = field(default_factory=dict)
    """Its greeting, and what its sandbox is."""
    alive: bool = True
    busy: int = 0
    since: float = 0.0
    """When it last gave a reply to a batch."""
    batches: int = 0
    rows: int = 0


async def ask(
    ray: Any,
    member: Member,
    method: Any,
    seconds: float | None,
    arguments: Sequence[Any],
    lose: Callable[[], None],
) -> Any:
    """
    Return a worker's reply.

    Cancelling it stops what it does there. Raises WorkerDiedError, SandboxUnavailableError.
    """
    errors = ray.exceptions
    full = (errors.ObjectStoreFullError, errors.OutOfDiskError)
    try:
        reference = method.remote(*arguments)
    except full as e:
        raise SandboxUnavailableError(_NO_ROOM.format(last_line(e))) from None
    waiting = asyncio.wrap_future(reference.future())
    try:
        async with asyncio.timeout(seconds):
            reply = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await finish(lambda: _stop(ray, member, reference, waiting, lose))
        raise
    except TimeoutError:
        raise NotStartedError(
            f"a worker did not start within {seconds:.0f} seconds; the cluster may have no free processor: "
            "free one, or add a node; `ray status` says what waits"
        ) from None
    except full as e:
        raise SandboxUnavailableError(_NO_ROOM.format(last_line(e))) from None
    except errors.RuntimeEnvSetupError as e:
        raise SandboxUnavailableError(f"a node could not be prepared: {last_line(e)}") from None
    except errors.RayTaskError as e:  # our own code, over there
        raise SandboxUnavailableError(_cannot(member, e)) from None
    except errors.RayError as e:
        if _CREATION in str(e):  # it cannot even be imported there
            raise SandboxUnavailableError(_cannot(member, e)) from None
        raise WorkerDiedError(f"a worker died ({member.where}): {last_line(e)}") from None
    if isinstance(reply, dict) and (why := reply.get("failed")) is not None:
        raise SandboxUnavailableError(f"{member.where}: {why}")
    return reply


async def _stop(
    ray: Any, member: Member, reference: Any, waiting: asyncio.Future[Any], lose: Callable[[], None]
) -> None:
    """Stop a call; a worker that does not is ended."""
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    ray.cancel(reference)
    await asyncio.wait({waiting}, timeout=STOP)
    if not waiting.done() and member.alive:
        lose()


def _cannot(member: Member, error: BaseException) -> str:
    """What a node that cannot run a worker said; Ray's text has its address, before it greets."""
    found = re.search(r"pid=(\d+), ip=([0-9a-fA-F.:]+)", str(error))
    where = member.where if member.facts or not found else f"{found[2].rstrip(':')}, process {found[1]}"
    return f"{where}: {last_line(error)}; is the same evalcell installed there?"


def last_line(error: BaseException) -> str:
    """Return the last line of an error, on one line and not long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
