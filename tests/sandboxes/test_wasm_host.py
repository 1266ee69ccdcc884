"""The wasm sandbox's own edges: what the host does at a bad moment is never the script's fault, nor the next call's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandboxes import Call, Execution, Limits, SandboxError, SandboxLostError
from sandboxes.cache import keep
from sandboxes.guest.supervisor import procfs
from sandboxes.host.own_python import module_command
from sandboxes.protocol import call_request, load_request
from sandboxes.wasm import compiler
from sandboxes.wasm.engine import Engine
from sandboxes.wasm.frames import Request
from sandboxes.wasm.fresh import NewInstances
from sandboxes.wasm.guests import Guests
from sandboxes.wasm.image import Image
from sandboxes.wasm.instance import Instance
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox, bounds
from tests.sandboxes.backends import BACKENDS, LIMITS, Backend, calls, evaluate, run
from tests.sandboxes.hosts import said_by
from tests.scripts import python

pytestmark = pytest.mark.rotating("wasm", "wasm")

ONE, WORKERS = BACKENDS[0], BACKENDS[2]

LOOPS_IF_TOLD = "def evaluate(x):\n    while x: pass\n    return 1\n"


def test_a_host_that_is_slow_after_the_script_was_loaded_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline passes while the host reads the reply, before it lets the guest free it."""
    read = Instance.read

    def slowly(self: Instance, start: int, length: int) -> bytes:
        time.sleep(0.15)
        return read(self, start, length)

    monkeypatch.setattr(Instance, "read", slowly)
    script, limits = python("def evaluate(): return 1\n"), LIMITS.model_copy(update={"load_timeout": 0.2})
    with Engine(*compile_guest(print)) as engine:
        guests = Guests(engine, "auto")
        how = guests.load(1, load_request(script, limits), bounds(limits, loading=True)).how
        if how == "reply":
            text = call_request(Call(id=1), limits)
            assert isinstance(text, bytes)
            (raw,) = guests.run(1, [Request(1, None, text)], bounds(limits), shared=False)
            assert b'"value":1' in raw.payload
        guests.close()
    assert how in ("reply", "timeout")


@pytest.mark.parametrize("backend", [ONE, WORKERS], ids=lambda b: b.id)
async def test_a_run_that_is_cancelled_twice_does_not_end_the_next_one(backend: Backend) -> None:
    async with backend.make("call") as sandbox:
        program = await sandbox.load(python(LOOPS_IF_TOLD), LIMITS)

        async def go(x: bool) -> list[Execution]:
            return [e async for e in program.run(calls(x=x), LIMITS)]

        seen: set[str] = set()
        for _ in range(10):
            task = asyncio.create_task(go(True))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            seen |= {e.status for e in await go(False)}
        assert seen == {"ok"}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_closed_sandbox_runs_nothing_and_can_be_opened_again(jobs: str) -> None:
    code = """
    from sandboxes import SandboxError
    async def main():
        sandbox = WasmSandbox(WasmConfig(jobs=int(sys.argv[1])))
        for _ in range(2):
            await sandbox.open()
            program = await sandbox.load(python("def evaluate(): return 1"), Limits())
            print(*[e.value async for e in program.run([Call(id=0)], Limits())])
            await sandbox.close()
            try:
                await sandbox.load(python(""), Limits())
            except SandboxError as e:
                print(e)
    asyncio.run(main())
    """
    first, refused, again, *_ = said_by(code, jobs).splitlines()
    assert (first, again) == ("1", "1")
    assert "not open" in refused


@pytest.mark.parametrize("backend", [ONE, WORKERS], ids=lambda b: b.id)
def test_to_close_beside_a_run_ends_both(backend: Backend) -> None:
    async def body() -> tuple[object, set[int]]:
        before = {*procfs.children(os.getpid())}
        async with backend.make("call") as sandbox:
            program = await sandbox.load(python(LOOPS_IF_TOLD), LIMITS)

            async def go() -> list[Execution]:
                return [e async for e in program.run(calls(x=True), Limits(timeout=60))]

            run = asyncio.create_task(go())
            await asyncio.sleep(0.2)
            await sandbox.close()
            left = {*procfs.children(os.getpid())} - before
            (told,) = await asyncio.gather(run, return_exceptions=True)
        return told, left

    told, left = run(body())
    assert isinstance(told, SandboxLostError)
    assert left == set()


@pytest.mark.parametrize("reset", ["restore", "instance", "auto"])
def test_a_script_may_leave_its_memory_in_any_shape(reset: Reset) -> None:
    """Far apart and in many pieces: such a memory has an image too, whose pages can be restored."""
    source = """
far = bytearray(40 << 20)
far[-1] = 1
pieces = bytearray(16 << 20)
for place in range(0, len(pieces), 8192): pieces[place] = 1
def evaluate(): return [far[-1], sum(pieces)]
"""
    backend = Backend(reset, lambda isolation: WasmSandbox(WasmConfig(jobs=1, reset=reset, isolation=isolation)), {})
    found = evaluate(backend, source, calls(3), limits=Limits(memory=96 << 20))
    assert [(e.status, e.value) for e in found] == [("ok", [1, 2048])] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it is a module")
def test_an_image_that_is_closed_is_never_left_out() -> None:
    """Instances that have it keep it, and another one cannot be made: it would be without the script."""
    with Engine(*compile_guest(print)) as engine:
        base = Instance(engine, None, 64 << 20)
        base.write(base.size - 4, b"kept")
        image = Image(engine, base.memory())
        first = Instance(engine, image, 64 << 20)
        image.close()
        assert first.read(first.size - 4, 4) == b"kept"
        with pytest.raises(SandboxError, match="cannot be mapped"):
            Instance(engine, image, 64 << 20)
        for instance in (first, base):
            instance.close()


def test_a_reply_does_not_wait_until_what_its_call_wrote_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    undone: list[bool] = []
    give_back = NewInstances.give_back

    def counted(self: NewInstances, instance: Instance, whole: bool) -> None:
        undone.append(whole)
        give_back(self, instance, whole)

    monkeypatch.setattr(NewInstances, "give_back", counted)
    script, limits = python("def evaluate(x):\n    return x\n"), Limits()
    with Engine(*compile_guest(print)) as engine:
        guests = Guests(engine, "instance")
        assert guests.load(1, load_request(script, limits), bounds(limits, loading=True)).how == "reply"
        text = call_request(Call(id=1, arguments={"x": 1}), limits)
        assert isinstance(text, bytes)
        asked = Request(1, None, text)
        replies = guests.run(1, [asked, asked], bounds(limits), shared=False)
        for before in ([], [True]):
            assert (next(replies).how, undone) == ("reply", before)
        del replies  # a caller that goes away leaves nothing behind either
        assert undone == [True, True]
        guests.close()


@pytest.mark.parametrize("size", [0, 8 << 20])
def test_compiling_can_be_stopped(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else Ctrl-C in the first run on a machine would wait for it. It has no end here, and may not read all either."""
    monkeypatch.setattr(compiler, "module_command", lambda *_: [sys.executable, "-c", "import time; time.sleep(3600)"])
    stop = threading.Event()
    stop.set()
    with pytest.raises(SandboxError, match="it was stopped before"):
        compiler.native("endless.wasm", bytes(size), stop)


@pytest.mark.parametrize(("ends", "loads"), [("pass", True), ("os.kill(os.getpid(), 9)", True), ("sys.exit(3)", False)])
def test_a_trial_that_ends_otherwise_says_nothing_of_the_code(
    ends: str, loads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be ended for want of memory: the code is good all the same, and others may use it."""
    monkeypatch.setattr(compiler, "module_command", lambda *_: [sys.executable, "-c", f"import os, sys; {ends}"])
    assert compiler.loads(Path("code.cwasm")) is loads


def test_a_worker_imports_little() -> None:
    """All of these last longer than what it needs."""
    *words, program, folder = module_command("sandboxes.wasm.worker")
    code = program.replace("main(requests, replies, *sys.argv[2:])", "print(*sys.modules)")
    done = subprocess.run([*words, code, folder], check=True, stderr=subprocess.PIPE, text=True)
    loaded = done.stderr.split()
    assert "sandboxes.wasm.guests" in loaded
    assert not {"pydantic", "asyncio", "sandboxes.base", "sandboxes.wasm.sandbox"} & set(loaded)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_host_does_without_wasmtime(jobs: str) -> None:
    """Its handlers of signals, among others, which a host's own would replace."""
    code = """
    async def main():
        async with WasmSandbox(WasmConfig(jobs=int(sys.argv[1]))) as sandbox:
            program = await sandbox.load(python("def evaluate(): return 1"), Limits())
            print(*[e.value async for e in program.run([Call(id=0)], Limits())], "wasmtime" in sys.modules)
    asyncio.run(main())
    """
    assert said_by(code, jobs).split() == ["1", "False"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_code_that_does_not_load_on_this_machine_is_compiled_again(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is right, as that of a cache which another machine has filled."""
    right = compile_guest(print)
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "wasm"
    folder.mkdir()
    for path in right:
        shutil.copy2(path, folder)
    (folder / right.memory.name).unlink()
    wrong = keep(folder, right.memory.name.rpartition("-")[0], ".cwasm", b"not native code of this machine")
    backend = Backend("wasm", lambda isolation: WasmSandbox(WasmConfig(jobs=jobs)), {})
    assert [e.value for e in evaluate(backend, "def evaluate(): return 1\n", calls(3))] == [1, 1, 1]
    assert {path.name for path in folder.glob("*.cwasm")} == {path.name for path in right}
    assert not wrong.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the worker's process")
def test_a_second_worker_that_cannot_start_costs_no_row(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def evaluate(n):\n    for _ in range(300_000): pass\n    return n"

    async def score(sandbox: WasmSandbox) -> list[tuple[int, str]]:
        async def one(number: int) -> tuple[int, str]:
            call = Call(id=number, arguments={"n": number})
            (found,) = [(e.call, e.status) async for e in program.run([call], LIMITS)]
            return found

        async with sandbox:
            program = await sandbox.load(python(code), LIMITS)
            for lane in sandbox._lanes:
                if not lane.begun:
                    monkeypatch.setattr(lane, "start", no_room)
            return await asyncio.gather(*(one(number) for number in range(20)))

    async def no_room() -> None:
        raise SandboxLostError("no room")

    found = asyncio.run(score(WasmSandbox(WasmConfig(jobs=2))))
    assert found == [(number, "ok") for number in range(20)]
    assert caplog.messages == ["one wasm worker less: no room"]
