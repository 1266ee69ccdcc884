"""A local server: its main, in a process of its own, and what a test holds of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.remote.faults import Cut, Fail, Fault, Front
from tests.remote.machine import MachineGone

_CONTROL = "/_control"
_START, _ANSWER, _END = 30.0, 30.0, 20.0
_ROOT = Path(__file__).parents[2]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, str, Handler]
"""The name of its operation, under which it is counted and told to fail; the method, the path, and who answers."""


class Refused(Exception):
    """What a handler raises in place of an answer; the API has its own form of it."""

    def __init__(self, status: int, message: str, code: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more


class Api:
    """
    A provider's HTTP: its routes, who may ask, and what is counted, delayed and told to fail around every handler.

    A handler that streams calls `front.frame` itself, before each frame; it may let Cut pass.
    """

    largest = 256 << 20
    """Bytes of a request."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self._ops: dict[tuple[str, str], str] = {}

    def routes(self) -> Iterable[Route]:
        raise NotImplementedError

    def environment(self, url: str) -> dict[str, str]:
        """The variables that lead a client to the server at this address."""
        raise NotImplementedError

    def admit(self, request: web.Request) -> None:
        """Raises Refused for who may not ask."""
        raise NotImplementedError

    def refusal(self, request: web.Request, refused: Refused) -> web.StreamResponse:
        raise NotImplementedError

    def failure(self, fail: Fail) -> web.StreamResponse:
        """What was told to fail, in the provider's own form."""
        raise NotImplementedError

    def gone(self, error: MachineGone) -> Refused:
        raise error

    def unrouted(self, request: web.Request, error: web.HTTPException) -> Refused:
        raise error

    def op(self, request: web.Request) -> str:
        resource = request.match_info.route.resource
        return self._ops.get((request.method, resource.canonical if resource else ""), "other")

    @classmethod
    async def build(cls, front: Front) -> web.Application:
        api = cls(front)
        front.environment = api.environment
        application = web.Application(middlewares=[api._counted, api._guarded], client_max_size=cls.largest)
        for op, method, path, handler in api.routes():
            api._ops[method, path] = op
            application.router.add_route(method, path, handler)
        return application

    @web.middleware
    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_CONTROL):
            return await handler(request)
        op = self.op(request)
        try:
            if request.content_type == "application/json":
                await request.read()  # it has arrived, whether or not anybody waits for what comes of it
            await self.front.operation(op)
            answer = await handler(request)
            await self.front.done(op)
        except Fail as e:
            return web.Response(body=b'\xff\xfe{"not": what was asked\x00') if e.kind == "garbage" else self.failure(e)
        except Cut:
            await _cut(request)
            return web.Response()
        return answer

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_CONTROL):
            return await handler(request)
        try:
            try:
                self.admit(request)
                return await handler(request)
            except MachineGone as e:
                raise self.gone(e) from None
            except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as e:
                raise self.unrouted(request, e) from None
        except Refused as e:
            return self.refusal(request, e)


async def document(request: web.Request) -> dict[str, Any]:
    """The body. Raises Refused where it is no JSON object."""
    try:
        asked = json.loads(await request.read() or b"{}")
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise Refused(400, "the body must be a JSON object", "bad_request")
    return asked


async def _cut(request: web.Request) -> None:
    """Closes the connection; what was written before still arrives."""
    if request.transport is not None:
        request.transport.close()
        await asyncio.sleep(0)


async def serve(build: Callable[[Front], Awaitable[web.Application]]) -> None:
    """
    The main of a server's process. Ends, with all its machines, on SIGTERM and when its parent is gone.

    Prints one line of JSON: `url`, `environment`, and what `build` put into `front.extra`.
    """
    front = Front(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    application = await build(front)
    _add_control(application, front)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.5)
    try:
        await site.start()
        host, port = runner.addresses[0][:2]
        url = f"http://{host}:{port}"
        print(json.dumps({"url": url, "environment": front.environment(url), **front.extra}), flush=True)
        await _told_to_end()
    finally:
        await front.machines.end_all()
        await runner.cleanup()


async def _told_to_end() -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    loop.add_reader(0, _watch, end)
    await end.wait()
    loop.remove_reader(0)


def _watch(end: asyncio.Event) -> None:
    if not os.read(0, 4096):  # the parent is gone, in whatever way
        end.set()


def _add_control(application: web.Application, front: Front) -> None:
    async def state(request: web.Request) -> web.StreamResponse:
        return web.json_response(await front.state())

    async def faults(request: web.Request) -> web.StreamResponse:
        try:
            front.faults.add(Fault.model_validate(await request.json()))
        except ValueError as e:
            return web.Response(status=400, text=str(e))
        return web.Response()

    async def latency(request: web.Request) -> web.StreamResponse:
        front.latency = float((await request.json())["seconds"])
        return web.Response()

    async def clear(request: web.Request) -> web.StreamResponse:
        await front.clear()
        return web.Response()

    async def die(request: web.Request) -> web.StreamResponse:
        await front.die(request.match_info["id"])
        return web.Response()

    routes = application.router
    routes.add_get(f"{_CONTROL}/state", state)
    routes.add_post(f"{_CONTROL}/faults", faults)
    routes.add_post(f"{_CONTROL}/latency", latency)
    routes.add_post(f"{_CONTROL}/clear", clear)
    routes.add_post(f"{_CONTROL}/die/{{id}}", die)


@dataclass(frozen=True)
class State:
    """What a server counts."""

    machines: list[dict[str, Any]]
    """Those that live: id, key, tags, network, and the host's number of the first process."""
    processes: int
    """In all of them."""
    requests: dict[str, int]
    """By operation."""
    created: int
    """Machines, ever."""
    log: list[list[str]] = field(default_factory=list)
    """The operations in their order, each with what it was told to do wrong."""
    frames: dict[str, int] = field(default_factory=dict)
    """How many frames the longest stream of an operation had."""
    pending: list[str] = field(default_factory=list)
    """Faults that have not taken effect."""


class Server:
    """A local server in a process of its own, that ends with this one."""

    def __init__(self, module: str, process: subprocess.Popen[bytes], line: dict[str, Any]) -> None:
        self.module = module
        self.name = module.rpartition(".")[2].removesuffix("_server")
        """Its provider's."""
        self.url: str = line.pop("url")
        self.environment: dict[str, str] = line.pop("environment")
        """What our provider and the SDK need to reach it."""
        self.extra = line
        self._process = process

    @classmethod
    def start(cls, module: str, **options: Any) -> Self:
        """Raises RuntimeError with what it said where it does not start."""
        command = [sys.executable, "-m", module, json.dumps(options)]
        process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout
        ready, _, _ = select.select([process.stdout], [], [], _START)
        line = process.stdout.readline() if ready else b""
        if not line:
            process.kill()
            process.wait()
            raise RuntimeError(f"{module} did not start; what it said is on stderr")
        return cls(module, process, json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    async def until_processes(self, number: int) -> None:
        """Returns when so many run in its machines: who was killed is gone a moment after the kill."""
        deadline = time.monotonic() + _END
        while (left := self.state().processes) != number:
            assert time.monotonic() < deadline, f"{left} processes"
            await asyncio.sleep(0.02)

    def abandon(self) -> None:
        """What it sees when this process is gone."""
        assert self._process.stdin
        self._process.stdin.close()

    def state(self) -> State:
        return State(**json.loads(self._ask("state")))

    def fault(self, op: str, do: str, *, nth: int = 1, times: int = 1, **more: Any) -> None:
        """See `Fault`."""
        self._ask("faults", {"op": op, "do": do, "nth": nth, "times": times, **more})

    def latency(self, seconds: float) -> None:
        self._ask("latency", {"seconds": seconds})

    def clear(self) -> None:
        """No faults, no latency, nothing counted, no machine left."""
        self._ask("clear", {})

    def die(self, id: str) -> None:
        """Ends a machine from outside."""
        self._ask(f"die/{id}", {})

    def _ask(self, what: str, document: dict[str, Any] | None = None) -> bytes:
        data = None if document is None else json.dumps(document).encode()
        asked = urllib.request.Request(f"{self.url}{_CONTROL}/{what}", data, {"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=_ANSWER) as answer:
            found: bytes = answer.read()
            return found
