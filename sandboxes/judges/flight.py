"""Exchanges on their way: each request anew, again where that may help, its reply checked and recorded."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import httpcore

from sandboxes.judges.addresses import Address, CheckedBackend, NotGlobalError, tls_context
from sandboxes.judges.budget import FlightRoom, Spending, SpentError, usage_of
from sandboxes.judges.checks import LARGEST_REPLY, new_headers
from sandboxes.judges.exchange import Began, JudgeRefused, JudgeReply, JudgeRequest
from sandboxes.judges.grant import Judges
from sandboxes.judges.key_masks import KeyMasks, MaskError
from sandboxes.judges.record import KeptReplies, RecordWriter, exchange_line

TRIES = 6
"""Most requests of an exchange that fails; those that the judge had no room for do not count."""
IDLE_SECONDS = 60.0
"""Between two parts of a reply."""
_KEEP_SECONDS = 30.0
"""For which an idle connection stays open."""
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED = 0.5, 20.0, 60.0
_AGAIN = (408, 409, 429)
_OF_THE_KEY = {401: "refused the key", 402: "asks for payment", 403: "refused the key"}
_HANDED_ON = ("content-type", "request-id", "x-request-id")
_FAILURES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
_NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
_AGENT = "evalcell"


class _AgainError(Exception):
    """This try failed; another may not."""

    def __init__(self, what: str, pause: float | None = None, busy: bool = False) -> None:
        super().__init__(what)
        self.pause = pause
        self.busy = busy


_TOLD = (_AgainError, JudgeRefused, NotGlobalError, MaskError)
"""Whose words are ours."""


class Upstream:
    """The connections to judges, and what bounds them. For one event loop."""

    def __init__(
        self,
        judges: Judges,
        addresses: Mapping[str, Address],
        masks: KeyMasks,
        record: RecordWriter | None,
        before: tuple[int, int, float],
        kept: KeptReplies | None,
    ) -> None:
        self.account = Spending(judges.budget, judges.prices, judges.shared, before)
        self.room = FlightRoom(judges.in_flight)
        self._kept = kept
        self.pausing = 0
        self._seconds = judges.judge_timeout
        self._masks = masks
        self._record = record
        local = [(one.name, one.port) for one in addresses.values() if one.local]
        safe = any(one.scheme == "https" for one in addresses.values())
        self._connections = _Connections(tls_context() if safe else None, CheckedBackend(local))

    async def close(self) -> None:
        await self._connections.close()

    async def flight(
        self, request: JudgeRequest, place: tuple[str, int, str, int], address: Address, keys: Mapping[str, str]
    ) -> AsyncGenerator[Began | bytes | JudgeReply]:
        """
        Exchange until there is a reply, as `Broker.parts` does.

        Raises:
            JudgeRefused: The budget is spent, the judge is down for good, or its reply cannot be handed on.
        """
        left, tries, sent, begun = self._seconds, 0, 0, False
        while True:
            entry = await self.room.enter()
            started = time.monotonic()
            sent += 1
            try:
                async with aclosing(self._try(request, place, address, keys, left, entry, sent)) as parts:
                    async for part in parts:
                        begun = begun or isinstance(part, Began)
                        yield part
                return
            except _AgainError as e:
                left -= time.monotonic() - started
                tries += not e.busy
                pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (sent - 1)) * random.uniform(0.5, 1.0)
                pause = pause if e.pause is None else e.pause
                if begun:
                    raise JudgeRefused(f"{request.host}: the reply broke off ({e})", "outage") from None
                if tries >= TRIES or pause >= left:
                    seconds = self._seconds - left
                    raise JudgeRefused(
                        f"{request.host} did not answer: {e}, at {sent} {'try' if sent == 1 else 'tries'} "
                        f"in {seconds:.1f} s; try again later",
                        "outage",
                    ) from None
            except SpentError as e:
                raise JudgeRefused(str(e), "budget") from None
            except NotGlobalError as e:
                raise JudgeRefused(f"{e}; name a local judge with scheme and port", "outage") from None
            except MaskError as e:
                raise JudgeRefused(str(e), "reply") from None
            finally:
                self.room.leave()
            self.pausing += 1
            try:
                await asyncio.sleep(pause)
            finally:
                self.pausing -= 1
            left -= pause

    async def _try(
        self,
        request: JudgeRequest,
        place: tuple[str, int, str, int],
        address: Address,
        keys: Mapping[str, str],
        left: float,
        entry: int,
        number: int,
    ) -> AsyncGenerator[Began | bytes | JudgeReply]:
        """One request. Raises _AgainError, JudgeRefused, SpentError, NotGlobalError, MaskError."""
        reservation = await self.account.reserve(request.body)
        usage: dict[str, int] | None = None
        went, whole, usd = True, False, 0.0
        until, started = asyncio.get_running_loop().time() + left, time.monotonic()
        try:
            response, connection = await self._response(request, address, keys, until)
            try:
                status, headers = response.status, _headers(response.headers)
                self._refuse(request.host, status, headers)
                streamed = 200 <= status < 300 and headers.get("content-type", "").startswith("text/event-stream")
                kept = tuple((name, self._masks.text(headers[name])) for name in _HANDED_ON if name in headers)
                pieces, chunks, size, found = _pieces(response, until), list[bytes](), 0, _StreamUsage()
                mask = self._masks.stream() if streamed else None
                if streamed:
                    yield Began(status, kept)
                async for piece in pieces:
                    size += len(piece)
                    if size > LARGEST_REPLY:
                        raise JudgeRefused(
                            f"{request.host}: the reply is larger than {LARGEST_REPLY >> 20} MB", "reply"
                        )
                    found.feed(piece) if streamed else None
                    piece = mask.feed(piece) if mask else piece
                    chunks.append(piece)
                    if streamed and piece:
                        yield piece
                if mask and (rest := mask.end()):
                    chunks.append(rest)
                    yield rest
            finally:
                await response.aclose()
                await self._connections.give_back(connection, address)
            body = b"".join(chunks)
            if mask:
                usage = found.usage
            else:
                usage = _usage(body) if 200 <= status < 300 else {}
                body = self._masks.body(body)
            self._refuse_failure(request.host, status, headers, entry)
            whole = 200 <= status < 300
        except _NOT_SENT as e:
            went = False
            raise _AgainError(f"it cannot be reached ({_kind(e)})") from None
        except _FAILURES as e:
            raise _AgainError(f"the connection broke off ({_kind(e)})") from None
        except TimeoutError:
            raise _AgainError(f"no complete reply in {self._seconds:g} s") from None
        except NotGlobalError:
            went = False
            raise
        finally:
            tokens, usd = self.account.settle(reservation, usage, went)
            if self._record and not whole:
                error = sys.exception()
                why = str(error) if isinstance(error, _TOLD) else type(error).__name__
                why = why if error is not None else f"it answered {status}"
                self._record.failure(place, request, why, (tokens, usd) if went else None)
        self.room.went_well()
        milliseconds = (time.monotonic() - started) * 1000
        reply = JudgeReply(status, kept, body, usage or None, milliseconds, number, usd=usd)
        if whole and (self._record or self._kept):
            parts = [chunk for chunk in chunks if chunk] if mask else None
            line = exchange_line(place, request, reply, parts, tokens)
            self._record.write(line) if self._record else None
            self._kept.put(place, line) if self._kept else None
        yield reply

    async def _response(
        self, request: JudgeRequest, address: Address, keys: Mapping[str, str], until: float
    ) -> tuple[httpcore.Response, httpcore.AsyncHTTPConnection]:
        url = httpcore.URL(
            scheme=address.scheme.encode(),
            host=address.name.encode(),
            port=address.port,
            target=(request.path + (f"?{request.query}" if request.query else "")).encode(),
        )
        new = httpcore.Request(
            request.method,
            url,
            headers=new_headers(request, address, keys, _AGENT),
            content=request.body if request.method == "POST" else None,
        )
        connection = await self._connections.take(address)
        try:
            async with asyncio.timeout_at(until):
                return await connection.handle_async_request(new), connection
        except BaseException:
            await connection.aclose()
            raise

    def _refuse(self, host: str, status: int, headers: Mapping[str, str]) -> None:
        """Raise JudgeRefused for a reply that is never handed on, whatever it holds."""
        if status < 200 or 300 <= status < 400:
            raise JudgeRefused(
                f"{host} answered {status}, and evalcell follows no redirect; name the other host", "reply"
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            raise JudgeRefused(f"{host}: the reply has two lengths", "reply")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise JudgeRefused(f"{host}: the reply is compressed, though that was not requested", "reply")

    def _refuse_failure(self, host: str, status: int, headers: Mapping[str, str], entry: int) -> None:
        if status in _AGAIN or status >= 500:
            if status == 429:
                self.room.was_too_much(entry)
            raise _AgainError(f"it answered {status}", _pause(headers), busy=status in (429, 529))
        if status in _OF_THE_KEY:
            raise JudgeRefused(f"{host} {_OF_THE_KEY[status]} ({status}); check the key that it is sent", "key")


class _Connections:
    """
    The open connections, each for a request at a time; `FlightRoom` bounds how many.

    httpcore's own pool looks at all of them for each request, which with 256 of them takes 30 ms.
    """

    def __init__(self, tls: ssl.SSLContext | None, backend: CheckedBackend) -> None:
        self._tls, self._backend = tls, backend
        self._idle: dict[Address, list[httpcore.AsyncHTTPConnection]] = {}

    async def take(self, address: Address) -> httpcore.AsyncHTTPConnection:
        """Return a connection that is open and idle, the one used last, or a new one."""
        idle = self._idle.setdefault(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        origin = httpcore.Origin(address.scheme.encode(), address.name.encode(), address.port)
        return httpcore.AsyncHTTPConnection(origin, self._tls, _KEEP_SECONDS, network_backend=self._backend)

    async def give_back(self, connection: httpcore.AsyncHTTPConnection, address: Address) -> None:
        """Keep a connection whose reply was read; close any other."""
        if connection.is_available():
            self._idle.setdefault(address, []).append(connection)
        else:
            await connection.aclose()

    async def close(self) -> None:
        for idle in self._idle.values():
            while idle:
                await idle.pop().aclose()


async def _pieces(response: httpcore.Response, until: float) -> AsyncGenerator[bytes]:
    """The parts of a body, each in time. Raises TimeoutError."""
    stream = response.aiter_stream()
    loop = asyncio.get_running_loop()
    while True:
        async with asyncio.timeout_at(min(until, loop.time() + IDLE_SECONDS)):
            try:
                piece = await anext(stream)
            except StopAsyncIteration:
                return
        yield piece


class _StreamUsage:
    """Reads the usage out of a stream's events."""

    def __init__(self) -> None:
        self.usage: dict[str, int] | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-(1 << 20) :]
        for line in lines:
            if b'"usage"' in line and line.startswith(b"data:"):
                for kind, count in (_usage(line[5:]) or {}).items():
                    self.usage = (self.usage or {}) | {kind: max(count, (self.usage or {}).get(kind, 0))}


def _usage(body: bytes) -> dict[str, int] | None:
    try:
        return usage_of(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("ascii", "replace").lower(): value.decode("ascii", "replace") for name, value in headers}


def _pause(headers: Mapping[str, str]) -> float | None:
    """The seconds that a judge asks to wait."""
    seconds: float | None = None
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        elif "retry-after" in headers:
            text = headers["retry-after"]
            if text.strip().isdigit():
                seconds = float(text)
            else:
                seconds = (email.utils.parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return None
    return None if seconds is None else min(_LONGEST_ASKED, max(0.0, seconds))


def _kind(error: Any) -> str:
    """The kind of a failure, without what it says, which may hold more than a user should see."""
    return type(error).__name__
