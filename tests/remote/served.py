"""The local servers, each started when it is first wanted and shared by all tests of a process."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Sandbox
from sandboxes.registry import find
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.retry import Pauses
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.wheel import bring_deno

PROVIDERS = ("e2b", "modal", "vercel", "daytona")

QUICK = Pauses(first=0.05, longest=0.5, total=20)


@functools.cache
def server(name: str) -> Server:
    """Skips the test where machines cannot be made here."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    bring_deno()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENAI_API_KEY", raising=False)  # its memory is searched for what machines were sent
        found = Server.start(f"tests.remote.{name}_server")
    _at_exit(found.stop)
    return found


@functools.cache
def env_file(name: str) -> str:
    """The credentials and addresses of a server, as a user would keep them."""
    path = _folder() / f"{name}.env"
    path.write_text("".join(f"{key}='{value}'\n" for key, value in server(name).environment.items()))
    return str(path)


@functools.cache
def _folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="evalcell-tests-"))
    _at_exit(partial(shutil.rmtree, made, ignore_errors=True))
    return made


def _at_exit(do: Callable[[], object]) -> None:
    """Not when a process ends that a test has forked: it has the same list of what is to be done."""
    own = os.getpid()
    atexit.register(lambda: do() if os.getpid() == own else None)


def config(name: str, **options: Any) -> RemoteConfig:
    """For a sandbox at the local server; what a run writes down about its machines goes to a folder for tests."""
    os.environ.setdefault("EVALCELL_STATE_DIR", str(_folder() / "state"))
    asked: dict[str, Any] = {"backend": name, "env_file": env_file(name), "jobs": 2, "pauses": QUICK}
    return RemoteConfig(**asked | options)


def sandbox(name: str, **options: Any) -> Sandbox:
    return find(name)(config(name, **options))
