"""HTTP for the providers' services: addresses are checked, replies bounded, failures mapped in one place."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import functools
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import BusyError, GoneError, ProviderError, RefusedError, UnreachableError
from sandboxes.words.text import clean

LARGEST = 8 << 20
"""Most bytes of a reply that is read whole."""

WHOLE = 90.0
"""Seconds for a reply that is read whole, from its request on."""

_ENCODINGS = ("", "identity", "gzip", "deflate")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PASSING = (408, 425, 500, 502, 503, 504)


def address(url: str, variable: str) -> str:
    """
    Return the URL without a trailing slash.

    Raises SandboxUnavailableError, which names the variable, unless it is https, or http to this machine.
    """
    with suppress(ValueError):
        parts = urlsplit(url.strip())
        good = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if good and parts.hostname and not (parts.username or parts.query or parts.fragment):
            return url.strip().rstrip("/")
    raise SandboxUnavailableError(f"{variable} is not a valid address; set it to one that begins with https://")


ErrorMapping = Callable[[int, Mapping[str, str], str], ProviderError | None]
"""From a status of 300 or more, the headers and the text (`code: message`) to an error; None: the usual one."""


class ProviderClient:
    """One HTTP service of a provider. Error messages contain no headers, request bodies or queries."""

    def __init__(self, name: str, judge: ErrorMapping | None = None, *, timeout: float = 30.0) -> None:
        self._name = name
        self._map_error = judge
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=10.0),
            limits=limits,
            verify=_trusted(),
            headers={"accept-encoding": "identity"},
            mounts={"http://": None},  # for this machine; a proxy elsewhere would get the key
            trust_env=True,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(
        self, method: str, url: str, *, most: int = LARGEST, within: float | None = WHOLE, **sent: Any
    ) -> httpx.Response:
        """
        Send one request and read its whole reply, at most `most` bytes; `sent` as httpx takes it.

        Raises a ProviderError unless it succeeds `within` so many seconds; with None the caller bounds the time.
        """
        try:
            async with asyncio.timeout(within), self.stream(method, url, **sent) as reply:
                body = bytearray()
                async for piece in self.pieces(reply):
                    body += piece
                    if len(body) > most:
                        raise UnreachableError(f"{self._name}: the reply is larger than {most >> 10} KB")
                return httpx.Response(reply.status_code, headers=_plain(reply.headers), content=bytes(body))
        except TimeoutError:
            raise UnreachableError(f"{self._name} sent no complete reply within {within:g} s") from None

    @asynccontextmanager
    async def stream(self, method: str, url: str, **sent: Any) -> AsyncIterator[httpx.Response]:
        """Send a request whose successful reply is read as it arrives, by `pieces`. Raises a ProviderError."""
        try:
            async with self._client.stream(method, url, **sent) as reply:
                # With better or repeated compression a piece could expand to more than memory holds.
                if reply.headers.get("content-encoding", "").lower() not in _ENCODINGS:
                    raise UnreachableError(f"{self._name}: the reply is compressed, though that was not requested")
                if reply.status_code >= 300:  # redirects are not followed
                    raise await self._failure(reply)
                yield reply
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as e:
            raise UnreachableError(
                f"{self._name} cannot be reached ({_kind(e)}); check the network and its address", sent=False
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as e:
            raise UnreachableError(f"{self._name}: the connection broke off ({_kind(e)})") from None

    async def pieces(self, reply: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the reply's body as it arrives; the reader bounds it. Raises UnreachableError if it breaks off."""
        try:
            async for piece in reply.aiter_bytes():
                yield piece
        except httpx.HTTPError as e:
            raise UnreachableError(f"{self._name}: the reply broke off ({_kind(e)})") from None

    async def _failure(self, reply: httpx.Response) -> ProviderError:
        body = bytearray()
        async for piece in self.pieces(reply):
            body += piece[: 4096 - len(body)]
            if len(body) >= 4096:
                break
        status, text = reply.status_code, _message(bytes(body))
        if self._map_error and (own := self._map_error(status, reply.headers, text)):
            return own
        told, after = f"{self._name} answered {status}: {text}", retry_after(reply.headers)
        if status == 429:
            return BusyError(told, after)
        if status in _PASSING:
            return UnreachableError(told, after=after)
        if status in (404, 410):
            return GoneError(told)
        return RefusedError(told)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The trusted certificates, cached because reading them is slow."""
    return httpx.create_ssl_context()


def retry_after(headers: Mapping[str, str], name: str = "retry-after") -> float | None:
    """Return seconds, from a number or a date; None if there is no usable value."""
    value = headers.get(name, "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 86_400 else None


def document(reply: httpx.Response, name: str) -> dict[str, Any]:
    """Return the JSON object of a reply. Raises UnreachableError for anything else."""
    try:
        found = json.loads(reply.content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreachableError(f"{name}: the reply is not a JSON object")
    return found


def _plain(headers: httpx.Headers) -> dict[str, str]:
    """The headers without those that describe how the body was encoded, which has been decoded."""
    return {k: v for k, v in headers.items() if k not in ("content-encoding", "content-length", "transfer-encoding")}


def _message(body: bytes) -> str:
    """An error's message in one line, after its code if that is a word: `not_found: no machine`."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
        inner = found.get("error", found)
        inner = inner if isinstance(inner, dict) else found
        words = (inner.get("error_code"), inner.get("code"), inner.get("message"))
        text = ": ".join(word for word in words if isinstance(word, str)) or text
    except (ValueError, AttributeError, RecursionError):
        pass
    return clean(" ".join(text.split())[:300]) or "nothing"


def _kind(error: Exception) -> str:
    return type(error).__name__


def value_at(data: Any, *path: str) -> Any:
    """Return the value at a path of keys, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def text(data: Any, *path: str) -> str:
    """Return the text in one line at a path of keys. Raises UnreachableError if there is none or it is empty."""
    if not isinstance(found := value_at(data, *path), str) or not found or not found.isprintable():
        raise UnreachableError(f"the service's reply lacks {'.'.join(path)}")
    return found


def number(data: Any, *path: str) -> int:
    """Return the integer at a path of keys; 0 if there is none or it is out of range."""
    found = value_at(data, *path)
    return found if isinstance(found, int) and 0 <= found < 1 << 53 else 0


def timestamp(data: Any, *path: str) -> datetime:
    """
    Return a time given in milliseconds; now if it is invalid: taking a machine for too young is safer than for too old.
    """
    try:
        return datetime.fromtimestamp(value_at(data, *path) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def claims(token: str) -> dict[str, Any]:
    """Return the claims of a JSON web token, not verified; empty if it is not a token."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def records(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """
    Yield the objects of a stream, one on each line.

    Raises:
        UnreachableError: For anything else, and for too long a line.
    """
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.strip():
                    yield _record(line)
        if len(rest) > LARGEST:
            raise UnreachableError("a line of the service's stream is too long")
    if rest.strip():
        yield _record(rest)


def _record(line: bytearray) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreachableError("the service's stream is broken: a line is not a JSON object")
    return found
