"""Runs the harness on this machine, in ways that differ in what the kernel lets it do."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Isolation, Limits
from sandboxes.base import Language
from sandboxes.boxes.host_files import reachable
from sandboxes.remote import agent_protocol
from tests.remote.room import PYTHON, bubblewraps
from tests.scripts import script

LIMITS = Limits(timeout=5, load_timeout=10, memory=128 << 20)

_USER = """
import os, sys
os.setgroups([]); os.setresgid(61234, 61234, 61234); os.setresuid(61234, 61234, 61234)
os.execvp(sys.argv[1], sys.argv[1:])
"""
_LASTING = "import subprocess, sys, time; subprocess.run(sys.argv[1:]); time.sleep(6)"
_REFUSING = Path(__file__).with_name("refusing.py")


@dataclass(frozen=True)
class Way:
    """One kind of machine."""

    name: str
    before: tuple[str, ...]
    closed: frozenset[str]
    """Words of the greeting that it must have, where this machine can give them at all."""
    python: str = str(PYTHON)
    above: tuple[str, ...] = ()
    """What starts the harness, where that is to be seen to outlive it."""
    alone: bool = False
    """Whether it runs where no other process of this machine can be signalled, whatever the harness does."""

    @property
    def missing(self) -> str:
        """Why it cannot be had here; empty where it can."""
        return _missing((*self.before, self.python))

    @property
    def caged(self) -> Way:
        """The same, but `alone`: for hostile scripts. Skips the test where there is no such place."""
        if self.alone:
            return self
        if not _CAGE or (missing := _missing((*_CAGE, *self.before, self.python))):
            pytest.skip(missing if _CAGE else "there is no bubblewrap")
        return replace(self, before=(*_CAGE, *self.before), alone=True)

    @property
    def lasting(self) -> Way:
        """The same, with a process above the harness that goes on after its end, so that what is left can be seen."""
        return replace(self, above=(self.python, "-I", "-S", "-c", _LASTING))


def _cage() -> tuple[str, ...]:
    walls = ("--unshare-pid", "--die-with-parent", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc")
    rights = ("--cap-add", "ALL") if os.geteuid() == 0 else ("--unshare-user",)
    return next(((path, *walls, *rights, "--") for path in bubblewraps()[-1:]), ())


_CAGE = _cage()


@functools.cache
def _missing(python: tuple[str, ...]) -> str:
    asked = "import sys; assert sys.version_info >= (3, 11), sys.version"
    tried = subprocess.run([*python, "-I", "-S", "-c", asked], capture_output=True, text=True)
    return (tried.stderr.strip()[-200:] or "it cannot run Python") if tried.returncode else ""


def _ways() -> Iterator[Way]:
    python, root = str(PYTHON), os.geteuid() == 0
    kept = frozenset({"seccomp", "memory"})
    yield Way("own", (), kept | {"mounts", "pids", "network"} | ({"uid"} if root else {"users"}))
    if root:
        user = (python, "-I", "-S", "-c", _USER)
        theirs = python if reachable(python) else shutil.which("python3", path="/usr/local/bin:/usr/bin") or python
        yield Way("user", user, kept | {"mounts", "pids", "network", "users"}, theirs)
    if not _CAGE:
        return
    refusing = (python, "-I", "-S", str(_REFUSING), "namespaces", "landlock", "pidfd")
    uid = {"uid"} if root else set()
    yield Way("refused", (*_CAGE, *refusing, "--"), kept | uid, alone=True)
    walls = ("--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-pid", "--ro-bind", "/", "/")
    nobody = (_CAGE[0], *walls, "--dev", "/dev", "--tmpfs", "/proc", "--cap-drop", "ALL", "--die-with-parent", "--")
    yield Way("nothing", (*nobody, *refusing, "seccomp", "--"), frozenset(), alone=True)


WAYS = {way.name: way for way in _ways()}
OWN = WAYS["own"]
EACH_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@dataclass
class Answer:
    """What came of a command."""

    listener: agent_protocol.Listener
    executions: list[Execution] = field(default_factory=list)
    code: int | None = None
    errors: str = ""

    @property
    def values(self) -> list[Any]:
        return [execution.value for execution in self.executions]


class Running:
    """A harness at work. `token` stands in the command line of each of its processes."""

    def __init__(
        self,
        way: Way,
        asked: agent_protocol.ScriptRequest | None,
        calls: Sequence[Call],
        python: str | None = None,
        change: Callable[[str], str] = str,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """
        `change` is applied to the program that reads the harness, which finds `variables` instead of the command's.
        Skips the test where there is no such machine.
        """
        if way.missing:
            pytest.skip(way.missing)
        command, self.listener = agent_protocol.command(asked, calls) if asked else agent_protocol.hello()
        self.token = secrets.token_hex(8)
        self.process = subprocess.Popen(
            [*way.before, *way.above, python or way.python, *command.argv[1:-1], change(command.argv[-1]), self.token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "OF_THE_MACHINE": "a-value-of-the-machines-own"}
            | dict(command.env if variables is None else variables),
        )
        self._feeding = threading.Thread(target=self._feed, args=(command.input,))
        self._feeding.start()

    def _feed(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(data)

    def pieces(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        while piece := os.read(self.process.stdout.fileno(), 1 << 16):
            yield piece

    def first_row(self) -> list[Execution]:
        """What came until the script's first call has begun, or ended."""
        found: list[Execution] = []
        for piece in self.pieces():
            found += self.listener.feed(piece)
            if self.listener.loaded:
                return found
        raise AssertionError("it has ended")

    def answer(self) -> Answer:
        """All that is still to come."""
        found = Answer(self.listener, list(self.listener.refused))
        try:
            for piece in self.pieces():
                found.executions += self.listener.feed(piece)
        finally:
            found.errors = self.end()
            found.code = self.process.returncode
        return found

    def end(self) -> str:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        said = self.process.stderr.read().decode("utf-8", "replace")
        self.process.stderr.close()
        self.process.wait(10)
        self._feeding.join(10)
        return said

    def signal(self, number: int) -> None:
        """To the harness itself, whatever stands above it."""
        os.kill(self._living()[0][0], number)

    def left(self, seconds: float = 3.0) -> list[tuple[int, str]]:
        """Those of its processes that still live after so many seconds."""
        until = time.monotonic() + seconds
        while (found := self._living()) and time.monotonic() < until:
            time.sleep(0.01)
        return found

    def _living(self) -> list[tuple[int, str]]:
        """Itself first, if it lives."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode("utf-8", "replace").split("\0")
                if self.token in words and words[1:4] == ["-s", "-S", "-B"]:
                    found.append((int(path.parent.name), words[0]))
        return sorted(found)


def asked(
    source: str,
    isolation: Isolation = "call",
    limits: Limits = LIMITS,
    language: Language = "python",
    **more: Any,
) -> agent_protocol.ScriptRequest:
    return agent_protocol.ScriptRequest(
        script=script(source, language), limits=limits, isolation=isolation, machine=platform.machine(), **more
    )


def ask(
    source: str,
    calls: Sequence[Call],
    isolation: Isolation = "call",
    way: Way = OWN,
    limits: Limits = LIMITS,
    **more: Any,
) -> Answer:
    """Loads the script and runs the calls; the executions in the order of their calls."""
    python = more.pop("python", None)
    found = Running(way, asked(source, isolation, limits, **more), calls, python).answer()
    assert (found.code, found.errors, found.listener.finished) == (0, "", True)
    found.executions.sort(key=lambda execution: execution.call)
    return found


def rows(*values: Any, **more: Any) -> list[Call]:
    return [Call(id=10 + number, arguments={"x": value, **more}) for number, value in enumerate(values)]


def refused() -> Way:
    """Where nothing but the user stands between a script and the harness, and there is a /proc to look around in."""
    if "refused" not in WAYS:
        pytest.skip("there is no bubblewrap")
    return WAYS["refused"]
