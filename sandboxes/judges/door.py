"""The way of a box to judges: HTTP on its own loopback, for clients as they are."""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, aclosing, suppress
from http import HTTPStatus

from sandboxes.guest.python.warm_clients import PATH
from sandboxes.guest.supervisor import clock
from sandboxes.judges.broker import Broker
from sandboxes.judges.checks import LARGEST_REQUEST
from sandboxes.judges.exchange import Began, JudgeRefused, JudgeReply, JudgeRequest, Why

HEAD_BYTES = 64 << 10
HEAD_SECONDS = 2.0
BODY_SECONDS = 30.0
HANDSHAKE_SECONDS = 10.0
IDLE_SECONDS = 600.0
"""That a connection may be kept without a request."""
READ_SECONDS = 60.0
"""In which a script must read a part of a reply."""
OWNER_SECONDS = 2.0
"""In which it is known which run has just begun, and asks."""
CONNECTIONS = 64
"""Most of a box at once; where several run in it, of each until it is known whose they are."""
_MORE = 4
"""For each that runs in it beside others, whatever those have open."""

SMALL_BODY = 256 << 10
BODIES_BYTES = 256 << 20
"""Of the requests of a box that are larger than that: they are in our memory, and a box may send many at once."""
_PAUSE = 0.02
"""Seconds between two looks for room."""

Ends = tuple[int, tuple[str, int]]
"""Of a connection: the script's port, and our address and port."""

_STATUS: dict[Why, int] = {"budget": 429, "outage": 503, "reply": 502, "key": 401, "miss": 404, "closed": 503}
_LINE = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/1\.1")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e]*)")
_SIZE = re.compile(rb"([0-9a-fA-F]{1,7})\r\n")
_ONCE = ("host", "content-length", "transfer-encoding", "content-type", "authorization")


WARM = JudgeReply(
    200,
    (("content-type", "application/json"),),
    json.dumps(
        {"id": "", "object": "chat.completion", "created": 0, "model": "evalcell", "type": "message"}
        | {"role": "assistant", "content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"}
        | {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "{}"}}]}
        | {"usage": {"input_tokens": 0, "output_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0}}
    ).encode(),
)
"""The answer to clients that are to be warm: a chat completion of OpenAI's, and a message of Anthropic's."""


class BadRequestError(Exception):
    """A request that is not HTTP as every program reads it; the message says why."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


class WaitingClock:
    """A clock that stands still while a script waits for a judge."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open, self._since, self._total = 0, 0.0, 0.0

    def now(self) -> float:
        """Return the seconds of `clock.now` without those of waiting."""
        with self._lock:
            now = clock.now()
            return now - self._total - (now - self._since if self._open else 0.0)

    def begin(self) -> None:
        with self._lock:
            if not self._open:
                self._since = clock.now()
            self._open += 1

    def end(self) -> float:
        """Return the seconds of waiting that have ended; 0 while something else is waited for."""
        with self._lock:
            self._open -= 1
            if self._open:
                return 0.0
            waited = clock.now() - self._since
            self._total += waited
            return waited


class Caller:
    """Who asks by a door: the calls of which it may be any, the clock of these, and its connections."""

    def __init__(self) -> None:
        self.calls: Sequence[int] = ()
        self.clock = WaitingClock()
        self.connections = 0


class _Waiting:
    """Whoever asks waits, until this ends."""

    def __init__(self, broker: Broker, callers: Sequence[Caller], row: tuple[str, int]) -> None:
        self._broker, self._callers, self._row = broker, callers, row

    def __enter__(self) -> _Waiting:
        for caller in self._callers:
            caller.clock.begin()
        return self

    def end(self) -> None:
        """Let time pass again. Safe twice."""
        callers, self._callers = self._callers, ()
        seconds = [caller.clock.end() for caller in callers]
        self._broker.wait(self._row, max(seconds, default=0.0))

    def __exit__(self, *_: object) -> None:
        self.end()


class _Room:
    """Bytes of the large requests that are here at once."""

    def __init__(self) -> None:
        self._left = BODIES_BYTES

    async def take(self, size: int, until: ExitStack) -> None:
        """Wait for room, and hold it until the end."""
        if size <= SMALL_BODY:
            return
        while self._left < size:
            await asyncio.sleep(_PAUSE)
        self._left -= size
        until.callback(self._give, size)

    def _give(self, size: int) -> None:
        self._left += size


class Door:
    """
    Serves the listeners of one box.

    Args:
        broker: Where requests go.
        listeners: Each with the host whose requests come in there, and with what TLS it speaks, if it does.
    """

    def __init__(self, broker: Broker, listeners: Sequence[tuple[str, socket.socket, ssl.SSLContext | None]]) -> None:
        self._broker = broker
        self._listeners = listeners
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._room = _Room()
        self.alone = Caller()
        """Who asks, where nothing runs beside it."""
        self.owners: Callable[[], tuple[dict[Ends, Caller], list[Caller]]] | None = None
        """Says whose each connection is, where several run in the box; and of whom this is not known."""
        self._owned: dict[Ends, Caller] = {}
        self._unknown: list[Caller] = []
        self._looked = -math.inf
        """When it was asked last."""
        self._callers: list[Caller] = []

    def caller(self) -> Caller:
        """Return another one who may ask beside others; `owners` tells them apart."""
        self._callers.append(Caller())
        return self._callers[-1]

    async def open(self) -> None:
        """Begin to serve. From any loop."""
        await self._broker.on_loop(self._open())

    async def close(self) -> None:
        """End all exchanges of the box. From any loop; safe twice."""
        with suppress(JudgeRefused):  # the broker ended them
            await self._broker.on_loop(self._close())
        for _, listener, _ in self._listeners:
            listener.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        for host, listener, tls in self._listeners:
            listener.setblocking(False)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # which its connections take over
            waits = None if tls is None else HANDSHAKE_SECONDS
            server = loop.create_server(self._protocol(host), sock=listener, ssl=tls, ssl_handshake_timeout=waits)
            self._servers.append(await server)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _protocol(self, host: str) -> Callable[[], asyncio.Protocol]:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: _Protocol) -> None:
            if len(self._connections) >= CONNECTIONS * max(1, len(self._callers)):
                writer.transport.abort()
                return
            task = protocol.task = asyncio.create_task(self._serve(host, reader, writer, time.monotonic()))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return lambda: _Protocol(connected)

    async def _serve(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, began: float) -> None:
        """One connection, request after request."""
        counted: list[Caller] = []
        first: frozenset[int] = frozenset()
        try:
            callers = await self._who(writer, began) if self.owners is not None else []
            if not self._has_room(callers):
                return
            counted = callers
            for caller in counted:
                caller.connections += 1
            while True:
                with ExitStack() as held:
                    try:
                        parts = await _read(reader, self._room, held)
                    except BadRequestError as e:
                        await _write(writer, _failure(e.status, "request", str(e)), close=True)
                        return
                    if parts.path.startswith(PATH):
                        await _write(writer, response(WARM))
                        continue
                    callers = callers or await self._who(writer, time.monotonic())
                    calls = [call for caller in callers for call in caller.calls]
                    first = first or frozenset(calls)
                    if self.owners is not None and not first.issuperset(calls):
                        return  # whoever sent this has ended, and another runs in its place
                    row, repeat = self._row(calls)
                    request = parts._replace(host=host, row=row, repeat=repeat)
                    with _Waiting(self._broker, callers, (row, repeat)) as waiting:
                        await self._answer(request, writer, calls, waiting.end)
        except (EOFError, OSError, TimeoutError, asyncio.CancelledError):
            pass  # the script went away, or does nothing
        finally:
            for caller in counted:
                caller.connections -= 1
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _who(self, writer: asyncio.StreamWriter, since: float) -> list[Caller]:
        """
        Who asks by a connection; all that might, where the kernel does not tell. Raises EOFError if none does.

        `since` this time it is known that there is such a connection.
        """
        if self.owners is None:
            return [self.alone]
        (_, port), to = (writer.get_extra_info(end)[:2] for end in ("peername", "sockname"))
        until, pause = time.monotonic() + OWNER_SECONDS, 0.01
        while True:
            if self._looked <= since:  # one look is for all that wait for one
                self._looked, (self._owned, self._unknown) = time.monotonic(), self.owners()
            if (found := self._owned.get((port, to))) is not None:
                return [found]
            if (since := time.monotonic()) > until:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)  # looking at all that run takes time, which is theirs
        callers = [caller for caller in self._unknown if caller.calls]
        if not callers:  # a run hides it, so that others would be taken for it
            raise EOFError
        return callers

    def _has_room(self, callers: Sequence[Caller]) -> bool:
        """Whether they may have one more connection: some are each one's own, the others for who comes first."""
        others = sum(max(0, caller.connections - _MORE) for caller in self._callers)
        return others < CONNECTIONS or all(caller.connections < _MORE for caller in callers)

    def _row(self, calls: Sequence[int]) -> tuple[str, int]:
        """The row that asks, where it is one alone."""
        places = {self._broker.rows.get(call, ("", 1)) for call in calls}
        if len(places) == 1:
            return places.pop()
        repeats = {repeat for _, repeat in places}
        return "", repeats.pop() if len(repeats) == 1 else 1

    async def _answer(
        self, request: JudgeRequest, writer: asyncio.StreamWriter, calls: Sequence[int], end: Callable[[], None]
    ) -> None:
        """Answer a request; call `end` before the last part is written, since the row may end with that."""
        streamed = False
        try:
            async with aclosing(self._broker.parts(request)) as parts:
                async for part in parts:
                    if isinstance(part, Began):
                        streamed = True
                        await _write(writer, _head(part.status, [*part.headers, ("transfer-encoding", "chunked")]))
                    elif isinstance(part, bytes):
                        await _write(writer, b"%x\r\n%b\r\n" % (len(part), part) if part else b"")
                    else:
                        end()
                        await _write(writer, b"0\r\n\r\n" if streamed else response(part))
        except JudgeRefused as e:
            if e.lost:
                self._broker.lost |= dict.fromkeys(calls, e.reason)
            end()
            if streamed:  # cut, so that no client takes it for whole
                raise EOFError from None
            await _write(writer, failure_response(e))


class _Protocol(asyncio.StreamReaderProtocol):
    """A connection whose task is ended with it."""

    def __init__(self, connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter, _Protocol], None]) -> None:
        self.task: asyncio.Task[None] | None = None
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        super().__init__(reader, lambda reader, writer: connected(reader, writer, self))

    def eof_received(self) -> bool:
        super().eof_received()
        return False  # what sends nothing more is gone

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()


async def _read(reader: asyncio.StreamReader, room: _Room, held: ExitStack) -> JudgeRequest:
    """
    The next request; strictly, so that no two programs read it in two ways. Its room is `held`.

    Raises BadRequestError, EOFError.
    """
    async with asyncio.timeout(IDLE_SECONDS):
        first = await reader.readexactly(1)
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            raw = first + await reader.readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, TimeoutError):
        raise BadRequestError("the head does not end in time, or is larger than 64 KB", 431) from None
    line, *lines = raw[:-4].split(b"\r\n")
    method, path, query = _read_line(line)
    headers = _read_headers(lines)
    last = {name.lower(): value for name, value in headers}
    if "expect" in last or "upgrade" in last:
        raise BadRequestError("nothing is expected or upgraded here", 417)
    chunked = "transfer-encoding" in last
    size = LARGEST_REQUEST if chunked else _size(last.get("content-length", "0"))
    await room.take(size, held)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await (_read_chunks(reader, last["transfer-encoding"]) if chunked else reader.readexactly(size))
    except asyncio.LimitOverrunError:
        raise BadRequestError("a part of the body has no plain size") from None
    return JudgeRequest("", method, path, query, tuple(headers), body)


def _read_line(line: bytes) -> tuple[str, str, str]:
    found = _LINE.fullmatch(line)
    if not found:
        raise BadRequestError("the first line is not `METHOD /path HTTP/1.1`")
    method, target = found[1].decode(), found[2].decode()
    if method not in ("GET", "POST") or not target.startswith("/"):
        raise BadRequestError("only GET and POST of a path may be asked for: this is no proxy", 405)
    path, _, query = target.partition("?")
    return method, path, query


def _read_headers(lines: Sequence[bytes]) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    for line in lines:
        found = _HEADER.fullmatch(line)
        if not found:
            raise BadRequestError("a header is not `name: value` on one line of plain characters")
        headers.append((found[1].decode(), found[2].decode().rstrip()))
    names = [name.lower() for name, _ in headers]
    if twice := next((name for name in _ONCE if names.count(name) > 1), None):
        raise BadRequestError(f"the header {twice} stands twice")
    if "host" not in names:
        raise BadRequestError("the header host is missing")
    if "content-length" in names and "transfer-encoding" in names:
        raise BadRequestError("the body has two lengths")
    return headers


def _size(length: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", length):
        raise BadRequestError("the length is not a number")
    if (size := int(length)) > LARGEST_REQUEST:
        raise _too_large()
    return size


def _too_large() -> BadRequestError:
    return BadRequestError(f"the request is larger than {LARGEST_REQUEST >> 20} MB", 413)


async def _read_chunks(reader: asyncio.StreamReader, encoding: str) -> bytes:
    if encoding.lower() != "chunked":
        raise BadRequestError("the body may only be chunked", 501)
    body = bytearray()
    while True:
        found = _SIZE.fullmatch(await reader.readuntil(b"\r\n"))
        if not found:
            raise BadRequestError("a part of the body has no plain size")
        size = int(found[1], 16)
        if len(body) + size > LARGEST_REQUEST:
            raise _too_large()
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise BadRequestError("a part of the body is longer than it says, or trailers follow")
        if not size:
            return bytes(body)


async def _write(writer: asyncio.StreamWriter, data: bytes, close: bool = False) -> None:
    writer.write(data)
    async with asyncio.timeout(READ_SECONDS):
        await writer.drain()
    if close:
        writer.close()


def _head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    try:
        words = HTTPStatus(status).phrase
    except ValueError:
        words = "Judge"
    lines = [f"HTTP/1.1 {status} {words}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("ascii", "replace")


def response(reply: JudgeReply) -> bytes:
    """Return a whole reply as a client reads it."""
    headers = [*reply.headers, ("content-length", str(len(reply.body)))]
    if reply.status >= 300:
        headers.append(("x-should-retry", "false"))
    return _head(reply.status, headers) + reply.body


def failure_response(refused: JudgeRefused) -> bytes:
    """Return what a client is answered where there is no reply."""
    return _failure(_STATUS.get(refused.why, 400), refused.why, refused.reason)


def _failure(status: int, why: str, reason: str) -> bytes:
    """A failure in the form that clients of OpenAI and Anthropic read, which they do not try again."""
    error = {"message": f"evalcell: {reason}", "type": f"evalcell_{why}", "code": why}
    body = json.dumps({"type": "error", "error": error}).encode()
    return response(JudgeReply(status, (("content-type", "application/json"),), body))
