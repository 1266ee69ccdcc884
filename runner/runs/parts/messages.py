"""Replies of a worker: lines of JSON, bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from runner.runs.parts.types import Begun, Count, Look, PartFigures, PartLostError, RunTask, Task
from runner.runs.parts.work import Reply, read_figures
from runner.runs.pool.faults import Fault

_KINDS: Mapping[str, type[Look | Count | Begun]] = {"Look": Look, "Count": Count, "Begun": Begun}
LINE = 16 << 20
"""Bytes of a line. Figures stay in their file: they may be long."""


def packed(reply: Reply) -> bytes:
    """A reply as a line."""
    if isinstance(reply, PartFigures):
        return line({"figures": True})
    return line({"reply": type(reply).__name__, "value": reply.model_dump(mode="json")})


def line(value: dict[str, Any]) -> bytes:
    """One line."""
    return json.dumps(value).encode() + b"\n"


async def reply_of(said: dict[str, Any], task: Task, worker: str) -> Reply:
    """
    The reply to a task, read from a line that `packed` wrote.

    Raises what the worker raised, PartLostError where it wrote no figures, and KeyError or ValidationError for another
    line.
    """
    if "fault" in said:
        raise Fault.model_validate(said["fault"]).error()
    if "figures" not in said:
        return _KINDS[said["reply"]].model_validate(said["value"])
    assert isinstance(task, RunTask)
    figures = await asyncio.to_thread(read_figures, task.folder)
    if figures is None:
        raise PartLostError(f"{worker} wrote no figures of its part that can be seen here")
    return figures
