"""A worker's process on this machine: tasks come by one pipe, replies go into another."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from runner.runs.parts.messages import line, packed
from runner.runs.parts.work import Work
from runner.runs.pool.faults import Fault
from sandboxes import event_loop
from sandboxes.wording import DOOR

LENGTH = struct.Struct("<Q")
_EVERY = 0.2  # seconds between two words on progress
_GRACE = 10.0  # seconds to stop in once the run is gone


def main(requests: int, replies: int) -> None:
    """Serve until the requests end."""
    # A Ctrl-C goes to the whole group: the process of the run decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    with suppress(KeyboardInterrupt):
        event_loop.run(_serve(requests, replies))
    os._exit(0)


async def _serve(requests: int, replies: int) -> None:
    loop, work, tasks = asyncio.get_running_loop(), Work(), asyncio.Queue[Any]()

    def say(data: bytes) -> None:
        with suppress(OSError):
            left = memoryview(data)
            while left:
                left = left[os.write(replies, left) :]

    def read() -> None:
        pipe = os.fdopen(requests, "rb")
        while len(head := pipe.read(LENGTH.size)) == LENGTH.size:
            body = pipe.read(LENGTH.unpack(head)[0])
            loop.call_soon_threadsafe(tasks.put_nowait, pickle.loads(body))  # of the run, which started this process
        loop.call_soon_threadsafe(tasks.put_nowait, None)
        loop.call_soon_threadsafe(current.cancel)
        time.sleep(_GRACE)
        os._exit(0)

    last = 0.0

    def progress(count: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last > _EVERY:
            last = now
            say(line({"count": count}))

    current: asyncio.Future[Any] = loop.create_future()
    threading.Thread(target=read, daemon=True).start()
    say(line({"ready": True}))
    try:
        while (asked := await tasks.get()) is not None:
            words, task = asked
            DOOR.set(words)
            current = asyncio.ensure_future(work.do(task, progress))
            try:
                reply = packed(await current)
            except asyncio.CancelledError:
                break
            except Exception as error:
                fault = Fault.of(error)
                if fault.kind == "internal":
                    logging.getLogger("evalcell").exception("a part failed")
                reply = line({"fault": fault.model_dump(mode="json")})
            say(reply)
    finally:
        await work.close()
