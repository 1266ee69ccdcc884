"""A worker process with guests behind a pipe. No script runs here outside WebAssembly."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from sandboxes.errors import SandboxError
from sandboxes.host.handle import end_with, wait_for_either
from sandboxes.raw import Raw
from sandboxes.wasm import frames
from sandboxes.wasm.engine import THREAD_STACK, Engine, Loadable
from sandboxes.wasm.frames import LINGER, Bounds, Request
from sandboxes.wasm.guests import Guests
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.wall import Wall


def main(requests: int, replies: int, reset: str, host: str = "") -> None:
    """
    Serve until `requests` end, then stop at once, also inside a call. The first frame is `open`.

    So nothing keeps running when the parent process dies, however it dies. `host` is a handle on the parent: if a child
    forked from it lives on, the requests do not end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C goes to the whole group; the parent decides what to do
    with os.fdopen(requests, "rb") as pipe, os.fdopen(replies, "wb") as told:
        try:
            work = _begin(pipe, told, cast(Reset, reset), int(host) if host else None)
        except BaseException as e:
            _end(e)
        while frame := frames.read(pipe):
            work.put(frame)
        os._exit(0)


def _begin(pipe: BinaryIO, replies: BinaryIO, reset: Reset, host: int | None) -> queue.SimpleQueue[frames.Frame]:
    """Open the guest, put up the wall, and only then take scripts, from the queue."""
    wall = Wall()
    if host is not None and not wait_for_either(pipe.fileno(), host):
        os._exit(0)
    frame = frames.read(pipe)
    if frame is None:
        os._exit(0)
    opened, _ = frame
    engine = Engine(*(Loadable(Path(path), known) for path, known in (opened["code"], opened["memory"])))
    wall.enclose(opened["tier"])
    work: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
    threading.stack_size(THREAD_STACK)
    threading.Thread(target=_serve, args=(engine, reset, work, replies), daemon=True).start()
    if host is not None:
        threading.Thread(target=end_with, args=(host,), daemon=True).start()
    engine.start()
    replies.write(frames.pack_result(Raw(-1, frames.WALL, json.dumps(wall.shut()).encode(), 0.0)))
    replies.flush()
    return work


def _serve(engine: Engine, reset: Reset, work: queue.SimpleQueue[frames.Frame], replies: BinaryIO) -> None:
    try:
        guests = Guests(engine, reset)
        while True:
            _answer(guests, *work.get(), replies)
    except BaseException as e:
        _end(e)


def _end(error: BaseException) -> NoReturn:
    """End the process; the parent sees the pipe close, and what is printed as the reason."""
    if isinstance(error, BrokenPipeError):
        os._exit(0)
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(70)


def _answer(guests: Guests, header: dict[str, object], payload: bytes, replies: BinaryIO) -> None:
    program = cast(int, header["program"])
    if header["do"] == "forget":
        guests.forget(program)
        return
    bounds = Bounds(*cast(Any, header["bounds"]))
    if header["do"] == "load":
        try:
            replies.write(frames.pack_result(guests.load(program, payload, bounds)))
        except SandboxError as e:
            replies.write(frames.pack_result(Raw(-1, frames.FAILED_RESULT, str(e).encode(), 0.0)))
        replies.flush()
        return
    flushed = time.monotonic()
    requests = _requests(header, payload)
    last = requests[-1].call if requests else None
    for raw in guests.run(program, requests, bounds, bool(header["shared"])):
        replies.write(frames.pack_result(raw))
        if raw.call == last or time.monotonic() - flushed > LINGER:
            replies.flush()
            flushed = time.monotonic()
    replies.flush()


def _requests(header: dict[str, object], payload: bytes) -> list[Request]:
    found, at = [], 0
    for number, (random, size) in enumerate(cast(list[tuple[int | None, int]], header["calls"])):
        found.append(Request(number, random, payload[at : at + size]))
        at += size
    return found
