"""Limits of processor time and of what files hold: kept where they can be, refused by name elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runner import evaluate
from sandboxes import Limits, SandboxConfig, UnsupportedConfigError, create, find
from sandboxes.base import Call, Execution, Isolation
from sandboxes.models import MB, Script
from tests.skips import need

SPENDS = {
    "python": "import time\ndef evaluate(spend):\n    until = time.time() + 0.1\n"
    "    while spend: pass\n    time.sleep(0.1)\n    return 1\n",
    "typescript": "export function evaluate({ spend }: { spend: boolean }) { while (spend); return 1; }\n",
}
FORKS = """
import os

def evaluate():
    for _ in range(3):
        if os.fork() == 0:
            while True: pass
    os.wait()
"""


def executions(
    backend: str, source: str, calls: list[dict[str, Any]], cpu: float | None, isolation: Isolation, **config: Any
) -> list[Execution]:
    need(backend)
    language = find(backend).capabilities.languages[0]

    async def body() -> list[Execution]:
        limits = Limits(timeout=60, cpu=cpu)
        async with create(SandboxConfig(backend=backend, isolation=isolation, jobs=2, **config)) as sandbox:
            program = await sandbox.load(Script(source, language, "evaluate"), limits)
            wanted = [Call(id=n, arguments=arguments) for n, arguments in enumerate(calls)]
            return sorted([e async for e in program.run(wanted, limits)], key=lambda e: e.call)

    return asyncio.run(body())


@pytest.mark.rotating("bounds of disk and processor time", "wasm", "process", "deno")
@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("backend", ["wasm", "process", "deno"])
def test_a_call_that_uses_the_processor_for_too_long_is_stopped_alone(backend: str, isolation: Isolation) -> None:
    language = find(backend).capabilities.languages[0]
    calls = [{"spend": False}, {"spend": True}, {"spend": False}]
    found = executions(backend, SPENDS[language], calls, 0.6, isolation)
    assert [e.status for e in found] == ["ok", "timeout", "ok"]
    error = found[1].error
    assert error is not None
    assert error.type == "ProcessorLimit"
    assert "0.6 s of the processor" in error.message


@pytest.mark.rotating("bounds of disk and processor time", "wasm", "process", "deno")
def test_the_time_of_all_its_processes_counts() -> None:
    (found,) = executions("process", FORKS, [{}], 0.6, "call")
    if found.status == "error":
        pytest.skip("this tier starts no processes")
    assert (found.status, found.error and found.error.type) == ("timeout", "ProcessorLimit")


WRITES = """
import errno, tempfile

def evaluate(size):
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * size)
            file.flush()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "written"
"""


@pytest.mark.rotating("bounds of disk and processor time", "wasm", "process", "deno")
def test_files_hold_as_much_as_was_said() -> None:
    found = executions("process", WRITES, [{"size": MB}, {"size": 3 * MB}], None, "call", disk=2 * MB)
    if found[0].value != "written":
        pytest.skip("this tier lets nothing be written")
    assert [e.value for e in found] == ["written", "ENOSPC"] or found[1].value == "EFBIG"


def test_what_does_not_keep_them_says_so() -> None:
    for name in ("e2b", "fake"):
        with pytest.raises(UnsupportedConfigError, match="has no disk"):
            create(SandboxConfig(backend=name, disk=MB, language="python"))
    with pytest.raises(UnsupportedConfigError, match="no limit of processor time"):
        evaluate("exact-match", [{"output": "a", "reference": "a"}], sandbox="fake", limits=Limits(cpu=1))
