"""A run is followed through streams that break off, and stopped by who no longer waits for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from runner import AsyncClient, Client, ServerError
from runner.server.service.types import RunEvent
from tests.server.client.told import Told, told

INFO = {
    "id": "r1",
    "evaluator": "e",
    "number": 1,
    "version": "0" * 12,
    "dataset": "d",
    "state": "finished",
    "created": "2026-01-01T00:00:00Z",
}


def _progress(first: int, rows: int) -> bytes:
    data = {"first": first, "rows": rows, "total": 9, "counts": {"scored": rows}}
    return f"id: {rows}\nevent: progress\ndata: {json.dumps(data)}\n\n".encode()


def _state(rows: int, state: str) -> bytes:
    return f'id: {rows}\nevent: state\ndata: {{"state": "{state}"}}\n\n'.encode()


CUT = Told(200, b": hello\n\n" + _progress(1, 4) + b"id: 6\nevent: progr", cut=True)
ENDED = Told(200, b"")
OVER = Told(204, b"")
PARKED = Told(200, _state(4, "parked"))
REST = Told(200, _progress(5, 9) + _state(9, "finished"))


def _shown(events: list[RunEvent]) -> list[Any]:
    return [(one.id, getattr(one.data, "first", None) or getattr(one.data, "state", None)) for one in events]


def test_events_go_on_after_the_last_one_that_came() -> None:
    with told(CUT, ENDED, PARKED, REST) as server, Client(server.url) as client:
        events = list(client.progress("r1"))
    assert _shown(events) == [(4, 1), (4, "parked"), (9, 5), (9, "finished")]
    assert [one.headers.get("last-event-id") for one in server.sent] == [None, "4", "4", "4"]


def test_rows_may_come_after_the_state_that_ends_them() -> None:
    with (
        told(Told(200, _state(0, "finished") + _progress(1, 4), cut=True), OVER) as server,
        Client(server.url) as client,
    ):
        assert _shown(list(client.progress("r1"))) == [(0, "finished"), (4, 1)]
    assert [one.headers.get("last-event-id") for one in server.sent] == [None, "4"]


def test_the_same_awaited() -> None:
    async def follow(url: str) -> list[RunEvent]:
        async with AsyncClient(url) as client:
            return [event async for event in client.progress("r1")]

    with told(CUT, REST) as server:
        assert _shown(asyncio.run(follow(server.url))) == [(4, 1), (9, 5), (9, "finished")]


def test_waiting_tells_each_event_and_returns_the_run() -> None:
    seen: list[RunEvent] = []
    with told(REST, Told(200, INFO)) as server, Client(server.url) as client:
        assert client.wait("r1", watch=seen.append).state == "finished"
    assert _shown(seen) == [(9, 5), (9, "finished")]


def test_a_run_that_is_not_there_is_not_followed() -> None:
    gone = Told(404, {"type": "/problems/not-found", "detail": "no run r1"})
    with told(gone) as server, Client(server.url) as client, pytest.raises(ValueError, match="no run r1"):
        list(client.progress("r1"))
    assert len(server.sent) == 1


@pytest.mark.parametrize("wrong", [b"id: x\nevent: state\ndata: {}\n\n", b"id: 1\nevent: other\ndata: {}\n\n"])
def test_an_event_that_is_none_of_ours_is_an_error(wrong: bytes) -> None:
    with told(Told(200, wrong)) as server, Client(server.url) as client, pytest.raises(ServerError, match="version"):
        list(client.progress("r1"))


class _Stopped(BaseException):
    """As Ctrl-C is."""


def _stop(event: RunEvent) -> None:
    raise _Stopped


def test_who_stops_waiting_for_evaluate_cancels_the_run() -> None:
    version = {"name": "e", "number": 1, "version": "0" * 12, "language": "python", "source": ""}
    stored = Told(200, {**version, "created": "2026-01-01T00:00:00Z"})
    begun = Told(202, {**INFO, "state": "queued"})
    replies = (stored, begun, CUT, Told(200, {**INFO, "state": "cancelled"}))
    with told(*replies) as server:
        with Client(server.url) as client, pytest.raises(_Stopped):
            client.evaluate("e@1", "d", watch=_stop)
        assert [(one.method, one.path) for one in server.sent[-2:]] == [
            ("GET", "/v1/runs/r1/events"),
            ("POST", "/v1/runs/r1/cancel"),
        ]

    async def cancelled(url: str) -> None:
        async with AsyncClient(url) as client:
            begun = asyncio.Event()
            work = asyncio.ensure_future(client.evaluate("e@1", "d", watch=lambda event: begun.set()))
            await begun.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    with told(*replies) as server:
        asyncio.run(cancelled(server.url))
        assert (server.sent[-1].method, server.sent[-1].path) == ("POST", "/v1/runs/r1/cancel")


def test_pages_of_a_list_are_read_to_the_end() -> None:
    runs = [{**INFO, "id": f"r{number}"} for number in range(3)]
    replies = [Told(200, {"items": runs[:2], "next": "c"}), Told(200, {"items": runs[2:], "next": None})]
    with told(*replies) as server, Client(server.url) as client:
        assert [run.id for run in client.runs()] == ["r0", "r1", "r2"]
    assert [one.path for one in server.sent] == ["/v1/runs?count=100", "/v1/runs?after=c&count=100"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 300])
def test_a_name_is_never_another_path(name: str) -> None:
    with told(Told()) as server, Client(server.url) as client, pytest.raises(ValueError, match="no name"):
        client.status(name)
    assert server.sent == []
