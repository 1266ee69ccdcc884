"""A registry of npm packages on this machine: packuments and tarballs that a test makes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Files = Mapping[str, str | bytes]


def tarball(files: Files, links: Mapping[str, str] | None = None) -> bytes:
    """Return a package as npm packs it; names are as they are, also those that lead out of it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(f"package/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return made.getvalue()


class NpmRegistry:
    """What it offers, who may ask for it, and what was asked for."""

    def __init__(self) -> None:
        self.packuments: dict[str, dict[str, Any]] = {}
        self.tarballs: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.token: str | None = None
        """What a request must bring, if it must."""
        self.url = ""

    def add(
        self,
        name: str,
        version: str = "1.0.0",
        files: Files | None = None,
        *,
        data: bytes | None = None,
        integrity: str | None = None,
        place: str | None = None,
        **package: Any,
    ) -> None:
        """Offer a version; `package` is of its package.json, and `integrity` another hash than its own."""
        described = {"name": name, "version": version, "main": "index.js", **package}
        every = {"package.json": json.dumps(described), **(files or {"index.js": "module.exports = 1;\n"})}
        data = tarball(every) if data is None else data
        path = place or f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.tarballs[path] = data
        own = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": f"{self.url}/{path}", "integrity": integrity or own}
        packument = self.packuments.setdefault(name, {"name": name, "versions": {}, "dist-tags": {}})
        packument["versions"][version] = {**described, "dist": dist}
        packument["dist-tags"]["latest"] = version

    def reply(self, path: str, token: str | None) -> tuple[int, bytes]:
        path = unquote(path).strip("/")
        self.asked.append(path)
        if self.token is not None and token != f"Bearer {self.token}":
            return 401, b"{}"
        if path in self.tarballs:
            return 200, self.tarballs[path]
        if path in self.packuments:
            return 200, json.dumps(self.packuments[path]).encode()
        return 404, b"{}"


@contextlib.contextmanager
def serve() -> Iterator[NpmRegistry]:
    """Serve a registry until the end of the block."""
    registry = NpmRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.reply(self.path, self.headers.get("authorization"))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
