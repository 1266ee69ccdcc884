"""A script stays loaded in its container from batch to batch, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Isolation, Limits
from sandboxes.boxes.launch import GUEST
from tests.containers import local
from tests.scripts import python

pytestmark = [pytest.mark.timeout(300), pytest.mark.rotating("containers", "docker")]

LIMITS = Limits(timeout=60, load_timeout=60)
COUNTS = """
import os, sys
for number, line in enumerate(sys.stdin, 1):
    print(number, os.getpid(), line.strip(), flush=True)
    if "end" in line:
        os._exit(7)
    os.write(3, b".")
"""
LOADED = """
import time
when, seen = time.monotonic_ns(), []
def evaluate(output):
    seen.append(output)
    return [str(when), len(seen)]
"""


class Container:
    """The first process of one, as a child of the tests."""

    def __init__(self) -> None:
        words = [sys.executable, "-I", "-S", str(GUEST / "container" / "first_process.py"), "/nowhere"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._send({"life": 100})
        assert self._frame()[0] == "h"

    def _send(self, head: dict[str, Any], data: bytes = b"") -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(head).encode() + b"\n" + data)
        self.process.stdin.flush()

    def _frame(self) -> tuple[str, bytes]:
        assert self.process.stdout
        kind, size = struct.unpack(">BI", self.process.stdout.read(5))
        return chr(kind), self.process.stdout.read(size)

    def ask(self, data: bytes, **head: Any) -> tuple[bytes, dict[str, Any]]:
        """The output of a command, and how it ended."""
        self._send({**head, "timeout": 60, "size": len(data)}, data)
        output = b""
        while (frame := self._frame())[0] != "x":
            output += frame[1]
        return output, json.loads(frame[1])


@pytest.fixture
def container() -> Iterator[Container]:
    made = Container()
    yield made
    made.process.kill()
    made.process.wait()


BEGIN: dict[str, Any] = {"argv": [sys.executable, "-c", COUNTS], "env": {}, "stays": True}


def test_a_command_that_stays_takes_more_and_another_ends_it(container: Container) -> None:
    first, told = container.ask(b"a\n", **BEGIN)
    assert told == {"code": 0, "stays": True}
    number, pid, line = first.split()
    assert (number, line) == (b"1", b"a")
    assert container.ask(b"b\n", more=True) == (b"2 %b b\n" % pid, {"code": 0, "stays": True})
    said, told = container.ask(b"", argv=["sh", "-c", "echo x; test ! -e /proc/self/fd/3"], env={})
    assert (said, told) == (b"x\n", {"code": 0})
    assert not Path(f"/proc/{int(pid)}").exists()
    assert container.ask(b"c\n", more=True) == (b"", {"gone": True})


def test_a_command_that_has_ended_is_told(container: Container) -> None:
    container.ask(b"a\n", **BEGIN)
    assert container.ask(b"end\n", more=True)[1] == {"code": 7}
    assert container.ask(b"c\n", more=True) == (b"", {"gone": True})
    assert container.ask(b"d\n", **BEGIN)[1] == {"code": 0, "stays": True}


@pytest.fixture
def engine() -> None:
    if why := local.missing():
        pytest.skip(why)


@pytest.mark.parametrize("isolation", ["call", "batch"])
async def test_a_script_is_loaded_once_and_no_state_stays(engine: None, isolation: Isolation) -> None:
    async with local.sandbox(jobs=1, isolation=isolation) as sandbox:
        program = await sandbox.load(python(LOADED), LIMITS)

        async def rows() -> list[Any]:
            calls = [Call(id=n, arguments={"output": n}) for n in range(3)]
            return [one.value async for one in program.run(calls, LIMITS)]

        first, second = await rows(), await rows()
        assert [count for _, count in first] == ([1] * 3 if isolation == "call" else [1, 2, 3])
        assert second == first
        other = await sandbox.load(python("def evaluate(output):\n    return 1\n"), LIMITS)
        assert [one.value async for one in other.run([Call(id=0, arguments={"output": 0})], LIMITS)] == [1]
        third = await rows()
        assert [count for _, count in third] == [count for _, count in first]
        assert third != first  # the other script has taken its place meanwhile


async def test_each_container_has_the_memory_of_the_calls(engine: None) -> None:
    """Also one that was started in advance, before the limits were known."""
    limits = LIMITS.model_copy(update={"memory": 192 << 20})
    async with local.sandbox(jobs=2, machine_memory=64 << 20) as sandbox:
        program = await sandbox.load(python("import time\ndef evaluate(output):\n    time.sleep(2)\n"), limits)

        async def row(number: int) -> None:
            assert [one.status async for one in program.run([Call(id=number, arguments={"output": 1})], limits)]

        await asyncio.gather(row(0), row(1))
        told = local.podman("inspect", "--format", "{{.HostConfig.Memory}}", *local.containers_of())
        assert [int(size) for size in told.stdout.split()] == [(192 + 256) << 20] * 2, told
