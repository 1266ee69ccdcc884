"""Services that answer without an end, packed, too slowly or elsewhere: no reply costs more than its bound."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from sandboxes import SandboxUnavailableError
from sandboxes.remote.http import ProviderClient, address, retry_after
from sandboxes.remote.provider import UnreachableError

BOMB = gzip.compress(gzip.compress(bytes(100 << 20)))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def meet(answer: bytes, *, dripping: bool = False) -> AsyncIterator[tuple[ProviderClient, str, list[bytes]]]:
    """A service that answers so, and what it was asked; `dripping`: and a byte more every moment, for ever."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            while dripping:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    service = ProviderClient("It")
    try:
        async with asyncio.timeout(20):
            yield service, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        await service.close()
        server.close()


@pytest.mark.parametrize("status", [200, 503])
async def test_a_reply_that_is_packed_twice_is_not_unpacked(status: int) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Encoding: gzip, gzip\r\nContent-Length: {len(BOMB)}\r\n\r\n"
    async with meet(head.encode() + BOMB) as (service, url, asked):
        with pytest.raises(UnreachableError, match="compressed"):
            await service.ask("GET", url)
    assert [b"accept-encoding: identity" in each.lower() for each in asked] == [True]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-A:"])
async def test_a_reply_that_drips_is_not_waited_for(head: bytes) -> None:
    async with meet(head, dripping=True) as (service, url, _):
        with pytest.raises(UnreachableError, match=r"no complete reply within 0\.2 s") as failed:
            await service.ask("GET", url, within=0.2)
        assert failed.value.sent


async def test_what_goes_to_this_machine_goes_past_every_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with meet(OK) as (_, url, asked):
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, url)
        there = ProviderClient("It")
        with pytest.raises(UnreachableError):
            await there.ask("GET", "http://127.0.0.1:1/", headers={"x-key": "secret"})
        with suppress(UnreachableError):  # and all else goes through it
            await there.ask("GET", "https://it.example/")
        await there.close()
    assert [each.startswith(b"CONNECT it.example:443") for each in asked] == [True]


@pytest.mark.parametrize("url", ["", "http://it.example", "https://", "https://[", "https://a@b", "https://it/?x=1"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(SandboxUnavailableError, match="THE_URL is not a valid address"):
        address(url, "THE_URL")
    assert address(" http://localhost:1/a/ ", "THE_URL") == "http://localhost:1/a"


@pytest.mark.parametrize(
    "said", ["", "-5", "nan", "1e400", "soon", "90000", "Mon, 01 Jan 9999999999999999 00:00:00 GMT"]
)
def test_a_pause_that_makes_no_sense_is_none(said: str) -> None:
    assert retry_after(httpx.Headers({"retry-after": said})) is None
    assert retry_after({"retry-after": "7.5"}) == 7.5
