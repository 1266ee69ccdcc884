"""
A worker of the Wasm sandbox into which a script has escaped: native code of ours runs in place of the guest.

As a program, it runs one such worker and prints what that told: `python escaped.py TIER BEFORE CODE`. `BEFORE` runs in
the worker before its wall is put up, and may hold features of the kernel down.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from sandboxes.errors import SandboxLostError
from sandboxes.host.own_python import module_command
from sandboxes.wasm import worker_process
from sandboxes.wasm.frames import Bounds
from sandboxes.wasm.lanes import Lane
from sandboxes.wasm.native_code import NativeCode, compile_guest
from sandboxes.wasm.wall import Tier

HOSTILE = """
import ctypes, errno, json, mmap, os, resource, signal, socket, struct, subprocess, threading
import sandboxes.wasm.worker as worker
from sandboxes.guest.box import confine
from sandboxes.raw import Raw
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getppid()
"".encode("idna")  # nothing can be imported later

def call(number, *arguments):
    "0, or the name of the error; texts are given by their address"
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return errno.errorcode[ctypes.get_errno()] if done < 0 else 0

def tried(what, *arguments, **named):
    "What it returns, or the name of the error"
    try:
        return what(*arguments, **named)
    except OSError as e:
        return errno.errorcode.get(e.errno, repr(e))
    except ValueError as e:  # so it is of limits
        return "EPERM" if "not allowed" in str(e) else repr(e)

class Escaped:
    def __init__(self, *_):
        pass
    def load(self, program, text, bounds):
        names = dict(globals(), told={})
        exec(text.decode(), names)
        found = names["told"]
        return found if isinstance(found, Raw) else Raw(-1, "reply", json.dumps(found, default=repr).encode(), 0.1)
worker.Guests = Escaped
"""


def hostile(before: str) -> Any:
    """What starts such a worker, in place of `module_command`."""

    def command(module: str, *arguments: str) -> list[str]:
        start = "main(requests, replies"
        return [word.replace(start, f"{HOSTILE}{before}\n{start}") for word in module_command(module, *arguments)]

    return command


async def escape(tier: Tier | None, before: str, code: str, longest: int = 1 << 20) -> tuple[Any, dict[str, Any]]:
    """What the code told from inside a worker, or why that was lost; and what stood around it."""
    worker_process.module_command = hostile(before)  # type: ignore[attr-defined]
    lane = Lane("auto", tier)
    try:
        await lane.start()
        lane.serve(NativeCode(*compile_guest(print)))
        try:
            raw = await lane.load(1, code.encode(), Bounds(20.0, 1 << 28, longest, None))
        except SandboxLostError as e:
            return str(e), lane.wall
        return json.loads(raw.payload), lane.wall
    finally:
        await lane.close()
        worker_process.module_command = module_command  # type: ignore[attr-defined]


if __name__ == "__main__":
    wanted, before, code = sys.argv[1:]
    print(json.dumps(asyncio.run(escape(wanted or None, before, code))))  # type: ignore[arg-type]
