"""A cache, an index and wheels of the test's own; uv is the real one."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import Lock, find_uv, install, resolve
from tests.packages.wheels import wheel

T = TypeVar("T")

BASE = Path(getattr(sys, "_base_executable", sys.executable))


class Packages:
    """Resolving and installing for the Python that runs the tests; `said` holds what users were told."""

    def __init__(self, wheels: Path, cache: Path) -> None:
        self.wheels, self.cache = wheels, cache
        self.said: list[str] = []

    def add(self, name: str, version: str, files: dict[str, str] | None = None, requires: tuple[str, ...] = ()) -> Path:
        return wheel(self.wheels, name, version, files, requires)

    def resolve(self, *requirements: str, seconds: float = 60) -> Lock:
        return self._run(lambda end: resolve(requirements, BASE, say=self.said.append, deadline=end), seconds)

    def install(self, lock: Lock, seconds: float = 60) -> Path:
        return self._run(lambda end: install(lock, BASE, say=self.said.append, deadline=end), seconds)

    def left(self) -> list[str]:
        """Unfinished files and folders in the cache, and processes that work in it."""
        files = [str(path) for path in self.cache.rglob(".*") if path.name.startswith((".unfinished", ".tmp"))]
        return files + processes(self.cache)

    def _run(self, begin: Callable[[float], Awaitable[T]], seconds: float) -> T:
        async def main() -> T:
            return await begin(asyncio.get_running_loop().time() + seconds)

        return run(main())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def processes(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder or stand in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_text().replace("\0", " ")
            if line and (str(folder) in line or os.readlink(place / "cwd").startswith(str(folder))):
                found.append(line)
        except OSError:
            continue  # it ended while we looked
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packages(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    """The index is an empty folder, the wheels lie in another; no setting of this machine counts."""
    try:
        find_uv()
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    for name in list(os.environ):
        if name.startswith(("UV_", "PIP_")):
            monkeypatch.delenv(name)
    wheels, index, home = tmp_path / "wheels", tmp_path / "index", tmp_path / "home"
    for folder in (wheels, index, home):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(home / "system"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.as_uri())
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    wheel(wheels, "tiny", "1.0", requires=("small>=1",))
    wheel(wheels, "small", "1.2")
    return Packages(wheels, cache)


@pytest.fixture
def silent_index() -> Iterator[str]:
    """The address of an index that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        server.shutdown(socket.SHUT_RDWR)
        for one in kept:
            one.close()
