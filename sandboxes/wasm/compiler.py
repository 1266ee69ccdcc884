"""Compiles a WebAssembly module, or loads one for trial, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from sandboxes.cache import VARIABLE
from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor.shortage import first_to_go, why, why_said
from sandboxes.host.handle import end_with, own_handle
from sandboxes.host.own_python import module_command

_TRIED = 60.0  # seconds to load native code for trial, which takes a fraction of one
_REFUSED = 3
_LOOK = 0.1  # seconds between two looks at `stop`
_NEEDED = "450 MB"  # measured: 400 to 430 MB at its peak, with one core and with two


def native(name: str, module: bytes, stop: threading.Event | None = None) -> bytes:
    """
    Return the native code of a module, serialised. Messages call it `name`.

    Raises SandboxUnavailableError, also soon after another thread sets `stop`. In a small container the kernel ends the
    process that compiles, and this one can say so.
    """
    host = own_handle()
    passed = () if host is None else (host,)
    command = module_command("sandboxes.wasm.compiler", *map(str, passed))
    pipe = subprocess.PIPE
    try:
        with (
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=passed) as process,
        ):
            first_to_go(process.pid)
            writing = _give(module, process)
            code, said = _answer(process, stop)
            writing.join()
    except OSError as e:
        raise SandboxUnavailableError(f"the sandbox cannot be compiled: {why(e) or e.strerror}") from e
    finally:
        for descriptor in passed:
            os.close(descriptor)
    if stop is not None and stop.is_set():
        raise SandboxUnavailableError("the sandbox was not compiled: it was stopped before")
    if process.returncode == -9:  # Windows has no name for it, and no such end
        raise SandboxUnavailableError(
            "the machine, or its container, has too little memory to compile the sandbox, which needs about "
            f"{_NEEDED}, once; give it more, or fill the cache elsewhere and bring it here ({VARIABLE})"
        )
    if process.returncode or not code:
        lines = said.decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line), f"exit code {process.returncode}")
        if short := why_said(last):
            raise SandboxUnavailableError(f"the sandbox cannot be compiled: {short}")
        raise SandboxUnavailableError(f"{name} does not compile ({last}); reinstall evalcell")
    return code


def _give(module: bytes, process: subprocess.Popen[bytes]) -> threading.Thread:
    """Write it from a thread: `communicate` forgets what it has not yet written when its time is over."""
    pipe, process.stdin = process.stdin, None
    assert pipe is not None

    def write() -> None:
        with contextlib.suppress(OSError), pipe:  # a process that ended early says why itself
            pipe.write(module)

    thread = threading.Thread(target=write, daemon=True)
    try:
        thread.start()
    except RuntimeError as e:  # a limit of threads; the process would wait for its input for ever
        process.kill()
        pipe.close()
        raise SandboxUnavailableError(f"the sandbox cannot be compiled: {why(e) or e}") from e
    return thread


def _answer(process: subprocess.Popen[bytes], stop: threading.Event | None) -> tuple[bytes, bytes]:
    while True:
        try:
            return process.communicate(timeout=_LOOK)
        except subprocess.TimeoutExpired:
            if stop is not None and stop.is_set():
                process.kill()


def loads(path: Path) -> bool:
    """Return false if wasmtime refuses this native code. Raises SandboxUnavailableError if no process can be had."""
    command = module_command("sandboxes.wasm.compiler", "", str(path))
    try:
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIED)
        return tried.returncode != _REFUSED  # any other end says nothing of the code
    except subprocess.TimeoutExpired:
        return True
    except OSError as e:
        raise SandboxUnavailableError(f"the compiled sandbox cannot be tried: {why(e) or e.strerror}") from e


def main(requests: int, replies: int, host: str = "", path: str = "") -> None:
    """
    Compile what `requests` holds to `replies`, or load what is at `path`; `_REFUSED` if that fails.

    It ends with the process that `host` is a handle on.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # not after the work, as Python's own handler would
    if host:
        threading.Thread(target=end_with, args=(int(host),), daemon=True).start()
    from wasmtime import Engine, Module, WasmtimeError

    from sandboxes.wasm.engine import Loadable, configure, load_module

    if path:
        try:
            load_module(Engine(configure()), Loadable(Path(path)))
        except WasmtimeError:
            sys.exit(_REFUSED)
        return
    with open(requests, "rb") as module, open(replies, "wb") as code:
        code.write(Module(Engine(configure(parallel=True)), module.read()).serialize())
