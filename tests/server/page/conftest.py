"""One server for each file of tests of pages, and a client that asks it as a browser does."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.http.live import Live, live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Live) -> Iterator[httpx.Client]:
    with server.client(headers={"accept": "text/html"}) as found:
        yield found
