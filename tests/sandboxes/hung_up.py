"""
A web application that scores for its clients, all of whom hang up: what is left of that in the server's process.

`python -m tests.sandboxes.hung_up [--clients 100] [BACKEND ...]` prints the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from runner import SandboxConfig, stream
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.deno import DenoConfig
from sandboxes.guest.supervisor import procfs
from sandboxes.process import ProcessConfig
from sandboxes.wasm.sandbox import WasmConfig
from tests.descriptors import held

BACKENDS: dict[str, Callable[[], SandboxConfig]] = {
    "wasm": lambda: WasmConfig(jobs=1),
    "wasm-workers": lambda: WasmConfig(jobs=2),
    "process-A": lambda: ProcessConfig(tier="A", jobs=2),
    "process-B": lambda: ProcessConfig(tier="B", jobs=2, isolation="call"),
    "deno-A": lambda: DenoConfig(tier="A", jobs=2, isolation="call"),
    "deno-B": lambda: DenoConfig(tier="B", jobs=2),
}

TOGETHER = 8
"""Clients at once."""

_THREADS = 4
_SECONDS = 30.0
"""In which the last of what clients left is gone, if it ever is."""

_PYTHON = "import time\ndef evaluate(output):\n    time.sleep(0.002)\n    return len(output)\n"
_TYPESCRIPT = "export const evaluate = ({output}: {output: string}) => output.length;\n"


class Left(NamedTuple):
    """What the server's process has."""

    processes: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> Left:
        gc.collect()
        return cls(len(procfs.descendants(os.getpid())), held(), threading.active_count())

    def since(self, before: Left) -> Left:
        return Left(*(max(0, now - then) for now, then in zip(self, before, strict=True)))


def application(config: Callable[[], SandboxConfig]) -> Starlette:
    """As simple as one would write it: `/?rows=N` gives N results, a line each, as they come."""
    typescript = config().backend == "deno"
    source = _TYPESCRIPT if typescript else _PYTHON
    evaluator = parse_evaluator(source, name="tried", language="typescript" if typescript else "python")

    async def score(request: Request) -> StreamingResponse:
        rows = [{"output": "x"}] * int(request.query_params["rows"])

        async def lines() -> AsyncIterator[str]:
            async for result in stream(evaluator, rows, sandbox=config()):
                yield result.model_dump_json() + "\n"

        return StreamingResponse(lines())

    return Starlette(routes=[Route("/", score)])


async def left_of(config: Callable[[], SandboxConfig], clients: int) -> Left:
    """What there is more than before, when so many clients have hung up."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each line that nobody takes any more
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(_THREADS))
    barrier = threading.Barrier(_THREADS)
    await asyncio.gather(*(asyncio.to_thread(barrier.wait) for _ in range(_THREADS)))  # it keeps its threads for good
    server = uvicorn.Server(uvicorn.Config(application(config), port=0, lifespan="off", log_level="critical"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    room = asyncio.Semaphore(TOGETHER)

    async def client(number: int) -> None:
        async with room:
            await _hang_up(port, number)

    try:
        assert await _get(port, 5) == 5
        before = Left.now()
        await asyncio.gather(*map(client, range(clients)))
        until = monotonic() + _SECONDS
        while any(left := Left.now().since(before)) and monotonic() < until:
            await asyncio.sleep(0.05)
        assert await _get(port, 5) == 5  # it works as ever
        return left
    finally:
        server.should_exit = True
        await serving


async def _get(port: int, rows: int) -> int:
    """How many results came."""
    reader, writer = await _asked(port, rows)
    whole = await reader.read()
    writer.close()
    await writer.wait_closed()
    return whole.count(b'"outcome":"scored"')


async def _hang_up(port: int, number: int) -> None:
    """At once, in the middle of opening, or after some results; each client at another moment."""
    reader, writer = await _asked(port, 100_000)
    kind, more = number % 4, number // 4
    if kind == 1:
        await asyncio.sleep(0.003 * more)
    for _ in range(more + 2 if kind > 1 else 0):
        assert await reader.readline()
    if kind == 3:
        writer.transport.abort()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _asked(port: int, rows: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /?rows={rows} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    return reader, writer


def main() -> None:
    parser = argparse.ArgumentParser(description="What is left of clients that hung up.")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("backends", nargs="*", default=list(BACKENDS))
    asked = parser.parse_args()
    for name in asked.backends:
        began = monotonic()
        left = asyncio.run(left_of(BACKENDS[name], asked.clients))
        more = f"{left.processes} more processes, {left.descriptors} descriptors, {left.threads} threads"
        print(f"{name:<13} {asked.clients} clients hung up: {more} ({monotonic() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
