"""Serve an application on an address until it is cancelled; what goes on then is parked."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from runner.core.errors import InputError
from runner.core.text import printable
from runner.server.http.connection import HEADER_BYTES, HttpProtocol

MOST_CONNECTIONS = 2000
_GRACE = 10
"""Seconds for requests that go on when the server is stopped."""


class _Server(uvicorn.Server):
    """Leaves signals to who runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises InputError, also for a port that is taken."""
    shown = f"{printable(host, 80)}:{port}"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
    except (OSError, UnicodeError):
        raise InputError(f"{printable(host, 80)} is no address of this machine; leave --host out") from None
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1024)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"something else listens on {shown}; stop it, or choose another --port") from None
        raise InputError(f"{shown} cannot be listened on ({error.strerror}); choose another") from None
    made.setblocking(False)
    return made


async def serve(
    app: FastAPI, listening: socket.socket, ready: Callable[[], None], forwarded: Sequence[str] = ()
) -> None:
    """
    Serve until cancelled, then end what goes on. `ready` is called once requests are answered.

    `forwarded`: the addresses whose word counts for who the client is, and whether it speaks TLS.
    """
    config = uvicorn.Config(
        app,
        http=HttpProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(forwarded),
        forwarded_allow_ips=list(forwarded),
        h11_max_incomplete_event_size=HEADER_BYTES,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            ready()
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        # First those who watch runs are told that these are parked: they would hold the server up.
        await app.state.service.stop()
        server.should_exit = True
        await asyncio.wait({serving}, timeout=_GRACE * 3)
        raise
