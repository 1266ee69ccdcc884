"""A server that speaks as much of S3 as readers need: signed requests, lists in pages, ranges, and ETags."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

KEY, SECRET = "AKIDEVALCELL", "s3cr3t-0f-the-tests"
PAGE = 3
"""Objects of one answer to a list."""


class Server(ThreadingHTTPServer):
    """Objects by `bucket/key`, and what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.slow = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        parts = urlsplit(self.path)
        path, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        self.server.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            self._send(403, self._error("AccessDenied"), body=body)
        elif "/" not in path:
            self._send(200, self._listed(path, query), body=body)
        elif (found := self.server.objects.get(path)) is None:
            self._send(404, self._error("NoSuchKey"), body=body)
        else:
            self._object(found, body=body)

    def _object(self, data: bytes, *, body: bool) -> None:
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        if self.headers.get("If-Match", tag) != tag:
            self._send(412, self._error("PreconditionFailed"), body=body)
            return
        more = {"ETag": tag, "Accept-Ranges": "bytes", "Last-Modified": "Mon, 23 Nov 2026 00:00:00 GMT"}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            if first >= len(data):
                self._send(416, self._error("InvalidRange"), body=body)
                return
            more["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self._send(206, data[first : last + 1], body=body, **more)
        else:
            self._send(200, data, body=body, **more)

    def _listed(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after = query.get("continuation-token", [""])[0]
        keys = sorted(
            key.partition("/")[2]
            for key in self.server.objects
            if key.startswith(f"{bucket}/{prefix}") and key.partition("/")[2] > after
        )
        if delimiter:
            keys = [key for key in keys if delimiter not in key[len(prefix) :]]
        some, more = keys[:PAGE], len(keys) > PAGE
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[f'{bucket}/{key}'])}</Size>"
            f"<ETag>&quot;{hashlib.md5(self.server.objects[f'{bucket}/{key}']).hexdigest()}&quot;</ETag>"
            "<LastModified>2026-11-23T00:00:00.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
            for key in some
        )
        token = f"<NextContinuationToken>{escape(some[-1])}</NextContinuationToken>" if more else ""
        return (
            f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(some)}</KeyCount>"
            f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}"
            "</ListBucketResult>"
        ).encode()

    def _error(self, code: str) -> bytes:
        return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()

    def _send(self, status: int, data: bytes, *, body: bool, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/xml", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


@contextmanager
def serving() -> Iterator[Server]:
    """The server, in a thread."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def in_environment() -> Iterator[Server]:
    """The server, which the environment names, with its credentials."""
    import fsspec

    with serving() as server, pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name.startswith("AWS_") or name.endswith("_CA_BUNDLE"):
                patch.delenv(name)  # the machine's own: here nothing is encrypted
        for name, value in {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        yield server
        fsspec.filesystem("s3").clear_instance_cache()
