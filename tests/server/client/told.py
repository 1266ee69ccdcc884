"""A server on loopback that gives the replies that it is told, one after another, and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Told:
    """A reply. `cut`: the connection ends after its body, whatever its length was said to be."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class Sent:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ToldServer:
    """Its address, what it was sent, and the replies that are left."""

    def __init__(self, replies: list[Told]) -> None:
        self.replies = replies
        self.sent: list[Sent] = []
        self.url = ""


@contextmanager
def told(*replies: Told) -> Iterator[ToldServer]:
    """Serve these replies; the last one again and again."""
    made = ToldServer(list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.sent.append(Sent(self.command, self.path, headers, self._body(headers)))
            reply = made.replies.pop(0) if len(made.replies) > 1 else made.replies[0]
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            length = len(body) + 1 if reply.cut else len(body)
            for name, value in {"content-length": str(length), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = reply.cut

        def _body(self, headers: dict[str, str]) -> bytes:
            if headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(headers.get("content-length", "0")))
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole

        do_GET = do_POST = do_PUT = do_DELETE = _do

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that hangs up is no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
