"""Run a tool in its own process, which ends when we do, with all processes that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple

from sandboxes.host.child_process import Child, start
from sandboxes.host.shield import finish

OUTPUT = 32 << 20
"""Most bytes of standard output; a tool that prints more is stopped."""

ERRORS = 64 << 10
"""Bytes of standard error that are kept; what follows is read and dropped."""

# Run by `python -c` before the tool, so that the kernel kills the tool if we die. (`getppid`: we died before that.)
_LEASH = """
import os, sys
try:
    import ctypes, resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, most in zip(("AS", "DATA", "FSIZE"), sys.argv[2].split(",")):
        if int(most):
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(most),) * 2)
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
except ImportError:
    pass
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


class ToolResult(NamedTuple):
    """How a tool ended."""

    code: int
    """The exit code, or the negative number of a signal."""
    output: bytes
    errors: str


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    variables: Mapping[str, str],
    deadline: float,
    memory: int = 0,
    data: int = 0,
    file_size: int = 0,
    on_line: Callable[[str], None] | None = None,
) -> ToolResult:
    """
    Run a command to its end, with empty standard input.

    When it raises, and if the task is cancelled, every process of the tool is dead before this returns.

    Args:
        command: Its words.
        cwd: The working directory.
        variables: The whole environment.
        deadline: In the event loop's time, in seconds.
        memory: Bounds its address space, in bytes; 0 does not.
        data: Bounds what it holds in memory, likewise.
        file_size: Bounds each file that it writes, likewise.
        on_line: Called with each line of standard error.

    Raises:
        TimeoutError: The deadline is past.
        OSError: The tool cannot be started or prints too much.
    """
    process: Child | None = None
    more: dict[str, Any] = {"umask": 0o022} if os.name == "posix" else {}

    async def begin() -> Child:
        nonlocal process
        process = await start(
            _with_leash(command, (memory, data, file_size)),
            cwd=cwd,
            env=dict(variables),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            **more,
        )
        return process

    finished: ToolResult | None = None
    try:
        async with asyncio.timeout_at(deadline):
            tool = await finish(begin)  # if it were cancelled half-way, nobody would stop the process
            assert tool.stdout is not None
            assert tool.stderr is not None
            output, errors = await asyncio.gather(_output(tool.stdout), _errors(tool.stderr, on_line))
            finished = ToolResult(await tool.wait(), output, errors)
            return finished
    finally:
        if (left := process) is not None:
            if finished is None:
                await finish(lambda: _kill(left))
            left.close()


def _with_leash(command: Sequence[str], bounds: tuple[int, int, int]) -> list[str]:
    if not sys.platform.startswith("linux"):
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), ",".join(map(str, bounds)), *command]


async def _output(stream: asyncio.StreamReader) -> bytes:
    kept = bytearray()
    while chunk := await stream.read(1 << 16):
        kept += chunk
        if len(kept) > OUTPUT:
            raise OSError(f"it printed more than {OUTPUT >> 20} MB")
    return bytes(kept)


async def _errors(stream: asyncio.StreamReader, on_line: Callable[[str], None] | None) -> str:
    kept, line = bytearray(), bytearray()
    while chunk := await stream.read(1 << 12):
        kept += chunk[: max(0, ERRORS - len(kept))]
        *whole, rest = (bytes(line) + chunk).split(b"\n")
        line = bytearray(rest[:1024])
        for one in whole if on_line else ():
            assert on_line is not None
            on_line(one.decode(errors="replace"))
    return kept.decode(errors="replace")


async def _kill(process: Child) -> None:
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(TimeoutError):  # do not wait for a process that left the group and holds our pipe
        async with asyncio.timeout(5):
            await process.wait()
