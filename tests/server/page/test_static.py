"""What HTTP asks of pages and of their files."""

from __future__ import annotations

import re

import httpx
import pytest


def test_static_files_are_kept_and_packed(client: httpx.Client) -> None:
    address = re.findall(r"/static/page\.[0-9a-f]{12}\.(?:js|css)", client.get("/").text)
    assert len(address) == 2
    for each in address:
        found = client.get(each)
        assert "immutable" in found.headers["cache-control"]
        assert found.headers["content-encoding"] == "gzip"
        head = client.head(each)
        assert (head.status_code, head.content) == (200, b"")
        assert {name: head.headers[name] for name in ("content-length", "content-type", "content-encoding")} == {
            name: found.headers[name] for name in ("content-length", "content-type", "content-encoding")
        }


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        *(("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("x-gzip", True), ("gzip;q=0.001", True)),
        *(("gzip;q=0", False), ("gzip ; q = 0.000, br", False), ("", False), ("identity", False), ("br", False)),
        *(("*;q=0", False), ("gzip;q=0, *", False), ("gzip, *;q=0", True), ("gzipped", False)),
    ],
)
def test_what_a_client_accepts_is_what_it_gets(client: httpx.Client, accepted: str, packed: bool) -> None:
    (address,) = re.findall(r"/static/page\.[0-9a-f]{12}\.css", client.get("/").text)
    found = client.get(address, headers={"accept-encoding": accepted})
    assert (found.headers.get("content-encoding"), "color-scheme" in found.text) == ("gzip" if packed else None, True)


def test_each_page_answers_head(client: httpx.Client) -> None:
    for path in ("/", "/runs", "/runs/new", "/datasets/demo", "/evaluators/new", "/compare", "/login", "/healthz"):
        head = client.head(path)
        assert (path, head.status_code, head.content) == (path, 200, b"")
    assert client.head("/runs/nothing").status_code == 404
    assert client.head("/evaluators/save").status_code == 404  # a name like any other
