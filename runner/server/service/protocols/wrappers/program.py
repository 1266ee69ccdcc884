"""Runs a program with its standard input and files, as `python main.py` would, in a process of its own."""

from __future__ import annotations

import base64
import ctypes
import os
import selectors
import signal
import struct
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

STREAM_BYTES = 1 << 20
"""Bytes of standard output, and of standard error, that a program may write."""
FILE_BYTES = 1 << 20
"""Bytes of all files together that are given back."""
TURN_NANOSECONDS = 10_000_000
"""A program's turn on the processor; that of other processes takes about three milliseconds."""
LIBRARY = ctypes.CDLL(None)
SCHED_SETATTR = 274 if os.uname().machine == "aarch64" else 314


def evaluate(code: str, stdin: str | None, files: dict[str, str | None], fetch: list[str], seconds: float) -> Any:
    """Run the program. Returns how it ended, what it wrote, and the files that are asked for."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    for path, text in files.items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(base64.b64decode(text or ""))
    main = os.path.join(folder, "main.py")
    with open(main, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(code)
    with tempfile.TemporaryFile() as given:
        given.write((stdin or "").encode("utf-8", "surrogatepass"))
        given.seek(0)
        ended = run(code, main, given.fileno(), seconds)
    return {**ended, "files": read_files(folder, fetch)}


def run(code: str, main: str, source: int, seconds: float) -> dict[str, Any]:
    """Run the program in a child; return how it ended. It is killed when its time is over, or it writes too much."""
    pipes = [os.pipe(), os.pipe()]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        start(code, main, (source, pipes[0][1], pipes[1][1]))
    for _, end in pipes:
        os.close(end)
    texts: dict[int, bytearray] = {begin: bytearray() for begin, _ in pipes}
    late = large = False
    with selectors.DefaultSelector() as selector:
        for begin in texts:
            os.set_blocking(begin, False)
            selector.register(begin, selectors.EVENT_READ)
        done = os.pidfd_open(child)
        selector.register(done, selectors.EVENT_READ)
        while not late and not large:
            left = began + seconds - time.monotonic()
            ready = [key.fd for key, _ in selector.select(max(0.0, left))]
            large = not all(read(begin, texts[begin], selector) for begin in ready if begin != done)
            if done in ready:
                break
            late = left <= 0
        took = time.monotonic() - began  # what follows is no time of the program, which does nothing more
        kill(child)
        _, status = os.waitpid(child, 0)
        for begin in texts:  # what was written last
            large = not read(begin, texts[begin], selector) or large
    stdout, stderr = (text[:STREAM_BYTES].decode("utf-8", "replace") for text in texts.values())
    if large:
        stderr += f"\nkilled: it wrote more than {STREAM_BYTES:,} bytes"
    code_of = os.waitstatus_to_exitcode(status) or (-signal.SIGKILL if large else 0)
    return {"late": late, "code": code_of, "seconds": took, "stdout": stdout, "stderr": stderr}


def read(begin: int, text: bytearray, selector: selectors.BaseSelector) -> bool:
    """Read what is there; whether it is no more than a program may write."""
    while len(text) <= STREAM_BYTES:
        try:
            part = os.read(begin, 1 << 16)
        except BlockingIOError:
            return True
        if not part:
            if begin in selector.get_map():
                selector.unregister(begin)
            return True
        text += part
    return False


def kill(child: int) -> None:
    """End the program with the processes that it started and that are still of its group."""
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)


def start(code: str, main: str, streams: tuple[int, ...]) -> NoReturn:
    """Be the program, in the child, as an interpreter of its own would be."""
    status = 1
    try:
        os.setpgid(0, 0)
        yield_processor()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 256)
        for name, mode, number in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
            errors = "backslashreplace" if number == 2 else "strict"
            opened = open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115  (for good)
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)
        sys.argv = [main]
        sys.path.insert(0, os.path.dirname(main))
        module = ModuleType("__main__")
        module.__file__ = main
        sys.modules["__main__"] = module
        status = status_of(lambda: exec(compile(code, main, "exec", dont_inherit=True), vars(module)))
        status = status_of(lambda: finish(module)) or status
    finally:
        os._exit(status)


def yield_processor() -> None:
    """
    Let whoever ends this program go first: it would wait in line with all that a program forks without end.

    Whoever asks for longer turns has to wait longer for one. Kernels before Linux 6.12 take no notice.
    """
    attributes = struct.pack("IIQiIQQQ", 48, 0, 0, os.nice(5), 0, TURN_NANOSECONDS, 0, 0)
    LIBRARY.syscall(SCHED_SETATTR, 0, attributes, 0)


def finish(module: ModuleType) -> None:
    """Wait for threads, run what was to be run at exit, and let go of what the program still holds."""
    import atexit
    import threading

    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    for name in [one for one in vars(module) if one != "__builtins__"]:
        setattr(module, name, None)
    sys.stdout.flush()


def status_of(work: Any) -> int:
    """Do the work; the exit code, after saying what Python says of an exception that nobody caught."""
    try:
        work()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals is globals():
            frames = frames.tb_next
        sys.stderr.write("".join(traceback.format_exception(type(error), error, frames)))
        return 1
    finally:
        for name in ("stdout", "stderr"):
            try:
                getattr(sys, name).flush()
            except Exception:
                continue
    return 0


def read_files(folder: str, paths: list[str]) -> dict[str, str]:
    """Return those of the files that are there, in base64."""
    found, left = {}, FILE_BYTES
    for path in paths:
        try:
            with open(os.path.join(folder, path), "rb") as file:
                data = file.read(left + 1)
        except OSError:
            continue
        left -= len(data)
        if left < 0:
            raise ValueError(f"the files that are asked for have more than {FILE_BYTES:,} bytes")
        found[path] = base64.b64encode(data).decode()
    return found
