"""Our E2B provider and services that mean ill: what they can make it believe, and where they can lead it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandboxes.remote.e2b import connect_protocol
from sandboxes.remote.e2b.connect_protocol import ConnectError
from sandboxes.remote.e2b.provider import E2BProvider
from sandboxes.remote.provider import CommandResult, Machine, ProviderError, RefusedError, UnreachableError
from tests.remote.e2b_server import KEY
from tests.remote.use import listed, order, told

Reply = tuple[int, bytes]


class Enemy:
    """A service that answers as it is told, whatever it is asked."""

    def __init__(self, *replies: Reply, headers: str = "") -> None:
        self.asked: list[str] = []
        self._replies = list(replies)
        self._headers = headers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(asked)
        status, body = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{self._headers}\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        await asyncio.sleep(0.05)  # the rest of what is asked may still be on its way
        writer.close()

    @asynccontextmanager
    async def meet(self) -> AsyncIterator[tuple[E2BProvider, Machine]]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        provider = E2BProvider({"E2B_API_KEY": KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url})
        machine = provider._machine({"sandboxID": "i1", "envdAccessToken": "t0"}, "k")
        try:
            async with asyncio.timeout(20):
                yield provider, machine
        finally:
            await provider.close()
            server.close()


def event(**fields: Any) -> bytes:
    return connect_protocol.envelope({"event": fields})


def stream(*frames: bytes) -> Reply:
    return 200, b"".join(frames)


END = event(end={"exited": True, "status": "exit status 0"})


async def test_the_key_never_reaches_a_machine_nor_the_token_the_service() -> None:
    enemy = Enemy((200, b"[]"), stream(END), (204, b""))

    async with enemy.meet() as (provider, machine):
        assert (await told(provider, machine, "true", input=b"x"))[0].code == 0
        await provider.kill("i1/../../x?y")
    assert all(KEY not in asked and "t0" in asked for asked in enemy.asked[:2])
    assert KEY in enemy.asked[2]
    assert "t0" not in enemy.asked[2]
    assert enemy.asked[2].startswith("DELETE /sandboxes/i1%2F..%2F..%2Fx%3Fy HTTP")


@pytest.mark.parametrize(
    "reply",
    [
        {"domain": "127.0.0.1:80/x"},
        {"domain": "evil.example/@"},
        {"domain": "a..b"},
        {"domain": "localhost"},
        {"domain": 7},
        {"sandboxID": "../x"},
        {"sandboxID": "x.evil.example"},
        {"sandboxID": None},
        {"envdAccessToken": "a\r\nX-Other: b"},
        {"envdAccessToken": ["t"]},
    ],
)
async def test_a_reply_that_leads_elsewhere_is_not_followed(reply: dict[str, Any]) -> None:
    async with Enemy((201, json.dumps({"sandboxID": "i1", **reply}).encode())).meet() as (provider, _):
        with pytest.raises(UnreachableError):
            await provider.create(order())


def test_machines_are_reached_where_the_reply_says_by_https() -> None:
    provider = E2BProvider({"E2B_API_KEY": KEY})
    at = {domain: provider._machine({"sandboxID": "i1", "domain": domain}, "k").data for domain in (None, "x.y.dev")}
    assert [place.url for place in at.values()] == ["https://49983-i1.e2b.app", "https://49983-i1.x.y.dev"]
    assert "secret" not in repr(provider._machine({"sandboxID": "i1", "envdAccessToken": "secret"}, "k"))


@pytest.mark.parametrize("body", [b"{}", b"7", b"[" * 100_000, b'[{"metadata":{"owner":"evalcell"}}]'])
async def test_a_list_that_is_none_is_unreachable(body: bytes) -> None:
    async with Enemy((200, body)).meet() as (provider, _):
        with pytest.raises(UnreachableError):
            await listed(provider)


async def test_a_list_without_an_end_is_left() -> None:
    enemy = Enemy((200, b"[]"), headers="X-Next-Token: more\r\n")
    async with enemy.meet() as (provider, _):
        with pytest.raises(UnreachableError, match="does not end"):
            await provider.find("k")
    assert len(enemy.asked) == 100


@pytest.mark.parametrize(
    ("frames", "ended"),
    [
        ([END], CommandResult(0)),
        ([event(keepalive={}), event(unknown=1), event(end={"exited": True, "exitCode": 7})], CommandResult(7)),
        ([event(end={"exitCode": -1, "status": "signal: segmentation fault (core dumped)"})], CommandResult(139)),
        ([event(end={"exitCode": -1, "status": "signal: killed"})], CommandResult(137)),
        ([event(end={"exitCode": -1, "status": "signal: something new"})], CommandResult(137)),
        ([b"\2\0\0\0\x30" + b'{"error":{"code":"deadline_exceeded"}}'.ljust(48)], CommandResult(None)),
        ([event(data={"stderr": base64.b64encode(b"\xff").decode()}), END], CommandResult(0, "\ufffd")),
    ],
)
async def test_how_commands_end(frames: list[bytes], ended: CommandResult) -> None:
    async with Enemy(stream(event(start={"pid": 1}), *frames)).meet() as (provider, machine):
        assert (await told(provider, machine, "true"))[0] == ended


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([], UnreachableError),
        ([b"\2\0\0\0\2{}"], UnreachableError),
        ([b"\1\0\0\0\2{}"], UnreachableError),
        ([b"\0\x7f\xff\xff\xff"], UnreachableError),
        ([b"\0\0\0\0\2[]"], UnreachableError),
        ([event(data={"stdout": "not base64!"})], UnreachableError),
        ([event(data={"stdout": 5})], UnreachableError),
        ([event(end={})], UnreachableError),
        ([event(end={"exited": True, "exitCode": "0"})], UnreachableError),
        ([b"\2\0\0\0\x30" + b'{"error":{"code":"unavailable"}}'.ljust(48)], UnreachableError),
        ([b"\2\0\0\0\x30" + b'{"error":{"code":"invalid_argument"}}'.ljust(48)], RefusedError),
        ([event(start={}), b"\2\0\0\0\x30" + b'{"error":{"code":"invalid_argument"}}'.ljust(48)], UnreachableError),
    ],
)
async def test_streams_that_are_unclear(frames: list[bytes], kind: type[ProviderError]) -> None:
    async with Enemy(stream(*frames)).meet() as (provider, machine):
        with pytest.raises(kind):
            await told(provider, machine, "true")


def test_envelopes_may_be_cut_anywhere() -> None:
    end = b'\2\0\0\0\x2f{"error":{"code":"unavailable","message":"no"}}'
    whole = connect_protocol.envelope({"a": "ä"}) + connect_protocol.envelope({"b": 2}) + end

    async def pieces(size: int) -> Any:
        for start in range(0, len(whole), size):
            yield whole[start : start + size]

    async def body(size: int, found: list[dict[str, Any]]) -> None:
        async for message in connect_protocol.messages(pieces(size), 100):
            found.append(message)

    for size in (1, 2, 3, 7, len(whole)):
        found: list[dict[str, Any]] = []
        with pytest.raises(ConnectError, match="unavailable: no"):
            asyncio.run(body(size, found))
        assert found == [{"a": "ä"}, {"b": 2}]
