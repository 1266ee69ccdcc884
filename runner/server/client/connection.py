"""How both clients reach the server: its address and token, what they send, what they refuse, when they try again."""

from __future__ import annotations

import logging
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from runner.core.errors import InputError, ServerError
from runner.core.text import describe, printable
from runner.server.client.problems import MOST, PASSING, problem, sender
from runner.server.client.requests import Ask, Reply, encode_body

C = TypeVar("C")

logging.getLogger("stamina").addHandler(logging.NullHandler())  # otherwise its warnings go to standard error

URL = "http://127.0.0.1:8000"
"""Where `evalcell serve` listens if nobody says otherwise."""
CHUNK = 256 << 10
_ATTEMPTS = 8

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_JSON = {"content-type": "application/json"}
_FILE = {"content-type": "application/octet-stream"}


class ServerConnection:
    """The settings of one client."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience: float = 30.0, allow_http: bool = False
    ) -> None:
        given = url or os.environ.get("EVALCELL_URL") or URL
        self.url = given.strip().rstrip("/")
        self._token = token or os.environ.get("EVALCELL_TOKEN") or None
        self._patience = patience
        self.reached = False
        """Whether the server has answered before: one that never did is not waited for."""
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good, parts = False, urlsplit("")
        if not good or parts.username or parts.query or parts.fragment:
            raise InputError(f"`url` must be a server's address, such as {URL}, not {describe(given, 100)}")
        self.is_here = parts.hostname in _LOOPBACK
        self._scheme, self._host = parts.scheme, parts.hostname or ""
        if self._token and parts.scheme == "http" and not (self.is_here or allow_http):
            raise InputError(
                f"`url`: {parts.hostname} would be sent the token without encryption; use https, or allow_http=True in "
                "a network that you trust"
            )

    def client(self, kind: Callable[..., C]) -> C:
        """
        Return a client of httpx.

        Raises:
            InputError: For a proxy or a certificate of the environment that cannot be used.
        """
        options = self._options()
        try:
            if self._scheme == "https":  # SSL_CERT_FILE counts for this machine, too
                options["verify"] = httpx.create_ssl_context()
        except (OSError, ValueError) as error:
            raise InputError(
                f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({_why(error)}); name a "
                "file of certificates, or unset them"
            ) from None
        try:
            return kind(**options)
        except (ImportError, ValueError, httpx.InvalidURL):  # their words may have the proxy's password
            raise InputError(
                f"the proxy that {self._proxy() or 'the environment'} names is none of http or https, which is what "
                f"the client speaks; name one, or write {self._host} into NO_PROXY"
            ) from None

    def _options(self) -> dict[str, Any]:
        token = {"authorization": f"Bearer {self._token}"} if self._token else {}
        # Of a compressed reply a few bytes could be more than memory holds.
        headers = {"accept-encoding": "identity", "user-agent": "evalcell", **token}
        # A proxy has nothing to do with this machine's own server, and would get its token.
        return {"base_url": self.url, "headers": headers, "trust_env": not self.is_here, "follow_redirects": False}

    def request(self, ask: Ask, content: Any = None) -> dict[str, Any]:
        """Return a request as httpx takes it; `content` is what its file has."""
        sent: dict[str, Any] = {
            "method": ask.method,
            "url": quote(ask.path, safe="/~@:"),
            "params": {name: value for name, value in ask.query.items() if value is not None},
            "headers": {**ask.headers, **(_FILE if ask.file else _JSON if ask.body is not None else {})},
            "timeout": httpx.Timeout(ask.within, connect=10.0),
        }
        if content is not None:
            sent["content"] = content
        elif ask.body is not None:
            sent["content"] = encode_body(ask.body)
        return sent

    def listening(self, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the request of a reply that is read as it comes."""
        # The server says something every 15 s.
        return {
            "method": "GET",
            "url": quote(path, safe="/~@:"),
            "headers": {**headers, "accept": "text/event-stream"},
            "timeout": httpx.Timeout(60.0, connect=10.0),
        }

    def attempts(self) -> dict[str, Any]:
        """Return how often a request is sent, as stamina takes it."""
        return {
            "on": self._after,
            "attempts": _ATTEMPTS,
            "timeout": self._patience,
            "wait_initial": 0.2,
            "wait_max": 5.0,
            "wait_jitter": 0.2,
        }

    def _after(self, error: Exception) -> bool | float:
        """Whether to try again, or in how many seconds."""
        if not isinstance(error, ServerError) or not error.retryable:
            return False
        if error.status not in PASSING and (error.status is not None or not self.reached):
            return False
        if error.after is None:
            return True
        # A Retry-After of an hour must not hold the caller for an hour; one of 0 must not be taken at its word.
        return error.after <= self._patience and max(error.after, 0.1) + random.uniform(0, 0.2)

    def begun(self, reply: httpx.Response) -> None:
        """Read the headers of a reply. Raises ServerError for one that is compressed, or a page for people."""
        self.reached = True
        if reply.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise ServerError(f"{self.url} compressed its reply, which was not asked for")
        if reply.is_success and reply.headers.get("content-type", "").lower().startswith("text/html"):
            who = sender(reply.headers)
            raise ServerError(
                f"{self.url}: {who} answered with a page for people, and not evalcell; is the address right, and does "
                "nothing before the server ask for a login?"
            )

    def most(self, reply: httpx.Response, ask: Ask | None = None) -> int:
        """Return the bytes that are read of a reply."""
        return MOST if reply.status_code >= 300 or ask is None else ask.most

    def add(self, body: bytearray, piece: bytes, most: int, *, good: bool) -> bool:
        """Add a piece to a body; false if no more of it is read. Raises ServerError for a reply that is too large."""
        body += piece[: most + 1 - len(body)]
        if len(body) > most and good:
            raise ServerError(f"the reply of {self.url} is larger than {most >> 20} MB; ask for less at once")
        return len(body) <= most

    def finished(self, reply: httpx.Response, body: bytes) -> Reply:
        """Return a reply that was read. Raises ServerError."""
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if reply.status_code >= 300:
            raise problem(reply.status_code, headers, body[:MOST], self.url)
        return Reply(reply.status_code, headers, body)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise failures of the network as ServerError."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise ServerError(self._no_connection(error), retryable=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise ServerError(f"the connection to {self.url} broke off ({_why(error)})", retryable=True) from None
        except UnicodeEncodeError:
            raise InputError("a header can hold no such characters; is the token right?") from None

    def _no_connection(self, error: Exception) -> str:
        cause, why = _cause(error), _why(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self.url} is not trusted ({printable(cause.verify_message, 100)}); set "
                "SSL_CERT_FILE to the certificate of whoever issued it"
            )
        if isinstance(cause, ssl.SSLError):
            return f"{self.url} speaks no TLS that we do ({why}); if it speaks none, begin the address with http://"
        if proxy := self._proxy():
            return (
                f"{self.url} is not reached through the proxy that {proxy} names ({why}); mend the proxy's address, or "
                f"write {self._host} into NO_PROXY"
            )
        step = "check the address and the network"
        if self.is_here and not isinstance(cause, socket.gaierror):
            step = "start it with `evalcell serve`, or name its address as `url` or EVALCELL_URL"
        return f"no server answers at {self.url} ({why}); {step}"

    def _proxy(self) -> str:
        """The variable of the proxy that requests go through; empty for none."""
        found = {} if self.is_here or proxy_bypass(self._host) else getproxies()
        return next((f"{one}_PROXY".upper() for one in (self._scheme, "all") if found.get(one)), "")


def _cause(error: BaseException) -> BaseException:
    """What an error of httpx came of; each of its layers wraps the one below."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error


def _why(error: Exception) -> str:
    """The cause in a few words."""
    cause = _cause(error)
    words = os.strerror(cause.errno) if isinstance(cause, ConnectionError) and cause.errno else ""
    words = words or (cause.strerror if isinstance(cause, OSError) and cause.strerror else "") or str(error)
    return printable(words.strip(), 120) or type(error).__name__
