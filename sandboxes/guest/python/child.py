"""
The forked process that runs one call, or a batch of them.

It holds its ends of its run's three pipes, for requests, results and output, and nothing else of the box. Whatever a
script does to it affects only the results of this run, which the host does not trust.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import random
import sys
import time
from types import ModuleType

from .. import harness, wire
from ..box import confine

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Awaitable, Callable
    from typing import Any, BinaryIO


harness.hidden_files.add(__file__)
globals()["__builtins__"] = dict(
    vars(builtins)
)  # our own, as a script may change those that it shares with its packages

# The C function, which uses nothing that a script may have patched.
_scan: Callable[[str, int], tuple[dict[str, Any], int]] = vars(json.JSONDecoder())["scan_once"]
_COROUTINE = 0x80  # inspect.CO_COROUTINE, whose module takes long to import
_SEED = 0  # while a script loads

_now = time.perf_counter
_pid = os.getpid
_urandom = os.urandom
_write = os.write
_CHUNK = 1 << 16
_pack = wire.RESULT.pack
_Random = random.Random


def _no_terminal() -> ModuleType:
    """In place of `readline`, whose library no sandbox has: what packages set there for a terminal does nothing."""

    def member(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: None

    module = ModuleType("readline")
    module.__dict__["__getattr__"] = member
    return module


def run(
    channel: socket,
    function: harness.Function | None,
    message: dict[str, Any],
    requests: int,
    results: int,
    output: int,
    boot: dict[str, Any],
) -> None:
    """Run the calls; never returns."""
    try:
        os.setpgid(0, 0)
        channel.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        _own_input()
        if boot["scope"]:
            # A ruleset with ports could not be made here; that of the box closes all others.
            if "seat" in message and boot["rows"]:
                confine.landlock_folder(boot["rules"], message["seat"])
                _write_to(f"{boot['rows'][0]}/{message['seat']}")
            else:
                confine.landlock_scope(boot["network"] or "listen" in boot, makes="seat" not in message)
        if message["memory"]:
            confine.set_limits({"DATA": message["memory"]})
        if "seat" in message or not boot["forks"]:
            confine.no_processes()
        if "seat" in message and boot["beside"]:  # others would find what it changed of the private folder
            confine.seccomp(bytes.fromhex(boot["beside"]))
        mark, own = bytes.fromhex(message["mark"]), _pid()
        asked = open(requests, "rb", buffering=_CHUNK)  # noqa: SIM115  (until the end)
        if message["loads"]:
            seed(_SEED)
            (length,) = wire.HEAD.unpack(_exactly(asked, wire.HEAD.size))
            began = _now()
            function, answer = load(_exactly(asked, length).decode())
            took = _now() - began
            flush()
            if _pid() != own:
                return
            _all(1, mark)
            _all(results, _pack(len(answer), 0, took) + answer)
            if function is None:
                return
        seed(None)
        for place in range(message["calls"]):
            (length,) = wire.HEAD.unpack(_exactly(asked, wire.HEAD.size))
            # Read within the call, since its arguments may be too large.
            answer, took = _answer(function, asked, length)
            flush()
            if _pid() != own:  # a process forked by the script has returned here
                return
            if mark and place + 1 < message["calls"]:
                _all(1, mark)
            _all(results, _pack(len(answer), place, took) + answer)
    finally:
        os._exit(0)


def carry(request: str) -> None:
    """Make the files of a script that is loaded soon found, if it has any."""
    if request.startswith('{"files":'):
        harness.carry(_scan(request, 0)[0]["files"])


def load(request: str) -> tuple[harness.Function | None, bytes]:
    """Load the script; its function, or None, and the reply with the result."""
    loaded: list[harness.Function] = []

    def step() -> str:
        script = _scan(request, 0)[0]
        sys.modules.setdefault("readline", _no_terminal())
        found = harness.load(script["source"], script["entrypoint"], script.get("files"))
        if getattr(getattr(found.body, "__code__", None), "co_flags", 0) & _COROUTINE:
            import asyncio  # noqa: F401  (once here, rather than in every fork)

            gc.freeze()
        loaded.append(found)
        return "null"

    text = reply(harness.reply_of(step))
    return (loaded[0] if loaded else None), text


def _write_to(folder: str) -> None:
    """Let what makes temporary files make them there."""
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None


def _own_input() -> None:
    """Open standard input again: its descriptor is shared, so what one run sets there another one would find."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
    except OSError:  # it was closed to this user, for which no script is to blame; this is as empty
        null, end = os.pipe()
        os.close(end)
    os.dup2(null, 0)
    os.close(null)


def _answer(function: Any, asked: BinaryIO, length: int) -> tuple[bytes, float]:
    began = _now()

    def step() -> str:
        request = _scan(_exactly(asked, length).decode(), 0)[0]
        if request["seed"] is not None:
            seed(request["seed"])
        return _value(function, request)

    answer = reply(harness.reply_of(step))
    return answer, _now() - began


def _exactly(asked: BinaryIO, count: int) -> bytes:
    """Read so many bytes. Ends the process if there are no more: the host has gone."""
    got = asked.read(count)
    if len(got) < count:
        os._exit(0)
    return got


def _value(function: Any, request: dict[str, Any]) -> str:
    return harness.call(function, request["positional"], request["arguments"], request["result"], _await)


def _await(awaitable: Awaitable[Any]) -> Any:
    import asyncio

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


def reply(text: str) -> bytes:
    """Return the reply as the host reads it; lone surrogates of a script are kept."""
    return ("{" + text + "}").encode("utf-8", "surrogatepass")


def flush() -> None:
    """Flush what was printed; a script may have closed or replaced the streams."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            continue


def seed(number: int | None) -> None:
    """Make random numbers repeat, or without a number differ from run to run."""
    fresh = int.from_bytes(_urandom(8), "big") if number is None else number
    random.seed(fresh)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(fresh & 0xFFFFFFFF)
    os.urandom = random._urandom = _urandom if number is None else _Repeated(number ^ 1)  # type: ignore[attr-defined]


class _Repeated:
    """An `os.urandom` that repeats. Its generator is made when it is first used, as few scripts do."""

    __slots__ = ("_made", "_number")  # no function: as an attribute of a class that would be a method

    def __init__(self, number: int) -> None:
        self._number = number
        self._made: dict[int, random.Random] = {}

    def __call__(self, size: int, /) -> bytes:
        # Of two threads that come at once both get the same generator.
        return (self._made.get(0) or self._made.setdefault(0, _Random(self._number))).randbytes(size)


def _all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[_write(fd, left) :]
    except OSError:
        return  # closed by the script, which then has no result
