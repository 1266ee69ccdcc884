"""What a local server is told to do wrong is what a client sees. This module is also the server that is tried."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest
from aiohttp import web

from tests.remote.faults import Fail, Front
from tests.remote.room import bubblewrap
from tests.remote.serving import Server, middleware, serve

PATIENCE = 60.0
"""Seconds that a busy machine may take."""


async def build(front: Front) -> web.Application:
    async def create(request: web.Request) -> web.StreamResponse:
        machine = await front.machines.create(key=request.query.get("key", ""))
        return web.Response(text=machine.id)

    async def start(request: web.Request) -> web.StreamResponse:
        machine = front.machines.get(request.query["id"])
        await machine.start_program(["sleep", "60"])
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in range(1, 4):
            await front.frame("start", number, machine)
            await answer.write(b"alive " if machine.alive else b"gone ")
        return answer

    def failure(fail: Fail) -> web.StreamResponse:
        return web.Response(status=fail.status, text=f"{fail.kind} {fail.after}", headers=fail.headers)

    front.failure = failure
    front.environment = lambda url: {"TRIED_URL": url}
    front.extra = {"options": front.options}
    application = web.Application(middlewares=[middleware(front, lambda request: request.path.strip("/"))])
    application.router.add_post("/create", create)
    application.router.add_get("/start", start)
    return application


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.test_serving", a=1) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    server.clear()
    with httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as opened:
        yield opened
    server.clear()


def test_failures_come_at_the_request_that_was_named(server: Server, client: httpx.Client) -> None:
    assert (server.environment, server.extra) == ({"TRIED_URL": server.url}, {"options": {"a": 1}})
    server.fault("create", "status:503", nth=2, times=2, headers={"Retry-After": "9"})
    server.fault("create", "rate", nth=4, after=1.5)
    answers = [client.post("/create") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 503, 503, 429, 200]
    assert (answers[1].headers["Retry-After"], answers[3].text) == ("9", "rate 1.5")
    state = server.state()
    assert (len(state.machines), state.created, state.requests) == (2, 2, {"create": 5})
    assert state.log[1] == ["create", "status:503"]
    with pytest.raises(OSError, match="400"):
        server.fault("create", "no-such")


def test_cut_before_does_nothing_and_cut_after_has_done_all(server: Server, client: httpx.Client) -> None:
    server.fault("create", "cut-before")
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/create")
    assert server.state().created == 0
    server.fault("create", "cut-after")
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/create?key=mine")
    assert [machine["key"] for machine in server.state().machines] == ["mine"]
    server.fault("create", "garbage")
    assert client.post("/create").content.startswith(b"\xff")


def test_late_has_done_it_at_once_and_slow_does_it_for_nobody(server: Server, client: httpx.Client) -> None:
    server.fault("create", "late:60")
    server.fault("create", "slow:1", nth=2)
    for found in (1, 2):
        with pytest.raises(httpx.ReadTimeout):
            client.post("/create", timeout=0.5)
        until = time.monotonic() + PATIENCE
        while server.state().created < found and time.monotonic() < until:
            time.sleep(0.05)
        assert server.state().created == found


def test_a_stream_breaks_at_its_frame_or_its_machine_dies_there(server: Server, client: httpx.Client) -> None:
    machine = client.post("/create").text
    server.fault("start", "cut-frame:3")
    got = b""
    with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", f"/start?id={machine}") as stream:  # noqa: PT012
        for piece in stream.iter_raw():
            got += piece
    assert got == b"alive alive "
    assert server.state().processes == 1
    server.fault("start", "kill-frame:2")
    server.fault("start", "stall-frame:3", after=0.3)
    assert server.state().pending == ["start kill-frame:2", "start stall-frame:3"]
    began = time.monotonic()
    assert client.get(f"/start?id={machine}").text == "alive alive alive "
    assert time.monotonic() - began > 0.3
    state = server.state()
    assert (state.processes, state.pending, state.frames) == (0, [], {"start": 3})
    server.fault("start", "die-frame:2")
    assert client.get(f"/start?id={machine}").text == "alive gone gone "
    assert server.state().machines == []


def test_latency_and_death_from_outside(server: Server, client: httpx.Client) -> None:
    server.latency(0.2)
    began = time.monotonic()
    server.die(client.post("/create").text)
    assert time.monotonic() - began > 0.2
    assert server.state().machines == []


def test_a_server_ends_with_its_machines_when_its_parent_is_gone() -> None:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.test_serving") as server, httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        machine = client.post(f"{server.url}/create").text
        client.get(f"{server.url}/start?id={machine}")
        assert server.state().processes == 1
        first = server.state().machines[0]["first"]
        server.abandon()
        until = time.monotonic() + PATIENCE
        while _runs(first) and time.monotonic() < until:
            time.sleep(0.02)
        assert not _runs(first)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    asyncio.run(serve(build))
