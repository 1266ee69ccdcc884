"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sandboxes.wasm.native_code import compile_guest
from tests.selection import pytest_addoption, pytest_configure

__all__ = ["pytest_addoption", "pytest_configure"]

# How long an example takes says how busy the machine is.
settings.register_profile("evalcell", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evalcell")


# A shell's background and nohup start things deaf to some signals; what the tests start would be deaf to them, too.
for _name, _default in (
    ("SIGINT", signal.default_int_handler),
    ("SIGHUP", signal.SIG_DFL),
    ("SIGTERM", signal.SIG_DFL),
):
    if _name in signal.Signals.__members__ and signal.getsignal(signal.Signals[_name]) is signal.SIG_IGN:
        signal.signal(signal.Signals[_name], _default)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests that are coroutines run on asyncio, as the sandboxes do."""
    return "asyncio"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of sample cases beside the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of sample cases is not here")
    return folder


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """
    A folder that others may enter, as root's scripts run as another user.

    Not below pytest's own, which every run of pytest on the machine closes again when it begins.
    """
    with tempfile.TemporaryDirectory(prefix="evalcell-tests-") as made:
        folder = Path(made)
        for one in (folder, *folder.parents) if os.geteuid() == 0 else ():
            if not one.stat().st_mode & 0o005:
                one.chmod(one.stat().st_mode | 0o005)
        yield folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Looking for garbage among thousands of tests took a worker as long as collecting them did, so it is left out."""
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        gc.disable()  # who only hands tests to workers collects none


def pytest_collection_finish() -> None:
    gc.freeze()  # while they run, it is not looked for among the tests either
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """On a new machine the sandbox is compiled before the first test, which would wait for it longer than it may."""
    if not (hasattr(session.config, "workerinput") or session.config.option.collectonly):
        compile_guest(lambda line: None)
