"""A package index on this machine, which writes down what it is asked."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Index:
    """The wheels of a folder, at an address; `asked` are the packages that somebody looked for."""

    def __init__(self, wheels: Path, login: str | None, refusal: int) -> None:
        self.wheels, self.login, self.refusal = wheels, login, refusal
        self.asked: list[str] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.address}/simple"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body, status = b"", 404
        _, kind, *rest = request.path.partition("?")[0].split("/")
        given = request.headers.get("Authorization", "")
        wanted = "Basic " + base64.b64encode((self.login or "").encode()).decode()
        if kind == "simple" and rest[0] not in self.asked:
            self.asked.append(rest[0])
        if self.login is not None and given != wanted:
            status = self.refusal
        elif kind == "simple":
            files = [one for one in sorted(self.wheels.glob("*.whl")) if _name(one.name) == rest[0]]
            links = [
                f'<a href="/files/{one.name}#sha256={hashlib.sha256(one.read_bytes()).hexdigest()}">{one.name}</a>'
                for one in files
            ]
            body, status = "<br>".join(links).encode(), 200 if files else 404
        elif kind == "files" and (file := self.wheels / rest[0]).is_file():
            body, status = file.read_bytes(), 200
        request.send_response(status)
        request.send_header("Content-Type", "text/html" if kind == "simple" else "application/octet-stream")
        request.send_header("Content-Length", str(len(body)))
        if status == 401:
            request.send_header("WWW-Authenticate", 'Basic realm="x"')
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)


@contextlib.contextmanager
def serve(wheels: Path, login: str | None = None, refusal: int = 401) -> Iterator[Index]:
    """An index of `wheels`, which wants `login` (`user:password`) and else answers with `refusal`."""
    index = Index(wheels, login, refusal)
    thread = threading.Thread(target=index.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.server.shutdown()
        index.server.server_close()


def _name(file: str) -> str:
    return re.sub(r"[-_.]+", "-", file.partition("-")[0]).lower()
