"""The traps of running CPython inside wasmtime, one test each."""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import wasmtime

from sandboxes import Call, Execution, Limits
from sandboxes.cache import keep
from sandboxes.protocol import Raw, execution
from sandboxes.wasm.engine import Engine, configure
from sandboxes.wasm.instance import Instance, ReplyError
from sandboxes.wasm.native_code import compile_guest, compile_part
from sandboxes.wasm.sandbox import DEATHS_HERE
from tests.sandboxes.backends import BACKENDS, LIMITS, Backend, calls, evaluate
from tests.sandboxes.hostile.scripts import ATTACK
from tests.sandboxes.hosts import attack, said_by, start

pytestmark = pytest.mark.rotating("wasm", "wasm")

RESTORE, INSTANCE, WORKERS, *_ = BACKENDS


@pytest.fixture
def instance() -> Iterator[Instance]:
    """An instance that runs nothing."""
    with Engine(*compile_guest(print)) as engine:
        made = Instance(engine, None, 64 << 20)
        yield made
        made.close()


@pytest.mark.parametrize(
    "body",
    [
        "import time; time.sleep(600)",
        "import select; select.select([], [], [], 600)",
        "import asyncio; return asyncio.sleep(600)",
    ],
)
def test_trap_01_sleep_does_not_ignore_the_deadline(body: str) -> None:
    limits = LIMITS.model_copy(update={"timeout": 0.2})
    (found,) = evaluate(RESTORE, f"def evaluate():\n    {body}\n", calls(), limits=limits)
    assert found.status == "timeout"
    assert 0.19 < found.duration < 60


def test_trap_01_sleep_sleeps_as_long_as_it_was_told() -> None:
    source = (
        "import time\ndef evaluate():\n    began = time.time()\n    time.sleep(0.3)\n    return time.time() - began\n"
    )
    (found,) = evaluate(RESTORE, source, calls())
    assert found.value > 0.28
    assert found.duration > 0.28


STRAYS = """
    async def main():
        async with WasmSandbox(WasmConfig(jobs=1)) as sandbox:
            limits = Limits(memory=64 << 20)
            program = await sandbox.load(python(sys.argv[1]), limits)
            HANDLER
            worker = sandbox._lanes[0]._process.pid
            for output in ("ATTACK", "ATTACK"):
                async for e in program.run([Call(id=0, arguments={"output": output, "reference": ""})], limits):
                    print(e.status)
            print(worker == sandbox._lanes[0]._process.pid)
    asyncio.run(main())
    """.replace("ATTACK", ATTACK)


@pytest.mark.parametrize(
    "handler", ["import faulthandler; faulthandler.enable()", "signal.signal(signal.SIGSEGV, print)"]
)
def test_trap_02_a_stray_access_does_not_reach_the_hosts_signal_handlers(handler: str) -> None:
    assert said_by(STRAYS.replace("HANDLER", handler), attack("kill-wild-reads-all")) == "crash\ncrash\nTrue\n"


def test_trap_02_a_stray_access_does_not_end_a_worker_that_has_a_fault_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every Python process has where this variable is set; wasmtime's own comes later, and is asked first."""
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    assert said_by(STRAYS.replace("HANDLER", "pass"), attack("kill-wild-reads-all")) == "crash\ncrash\nTrue\n"


@pytest.mark.parametrize(
    "script", ["recursion-recursion-unlimited", "recursion-json-write", "recursion-repr-of-nested"]
)
def test_trap_03_deep_recursion_in_a_host_with_small_stacks(script: str) -> None:
    code = """
    threading.stack_size(128 << 10)
    def serve():
        print(asyncio.run(evaluate(sys.argv[1], "attack"))[0])
        print(threading.stack_size() == 128 << 10)
    thread = threading.Thread(target=serve)
    thread.start(); thread.join()
    """
    status, kept = said_by(code, attack(script)).split()
    assert status in ("error", "crash", "memory", "timeout")
    assert kept == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("jobs", [1, 2])
def test_trap_04_a_process_that_forks_after_using_it_can_use_it_again(jobs: int) -> None:
    code = """
    source = "def evaluate(output, reference): return 1"
    print(*asyncio.run(evaluate(source, "")), flush=True)
    if (child := os.fork()) == 0:
        signal.alarm(20)
        print(*asyncio.run(evaluate(source, "", jobs=int(sys.argv[1]))), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    """
    assert said_by(code, str(jobs)).split() == ["ok", "ok", "0"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_trap_05_an_interrupt_does_not_wait_for_the_guest(jobs: int) -> None:
    code = """
    source = "def evaluate(output, reference):\\n    while True: pass\\n"
    try:
        asyncio.run(evaluate(source, "", int(sys.argv[1]), 60.0, lambda: print("ready", flush=True)))
    except KeyboardInterrupt:
        print("interrupted")
    """
    process = start(code, str(jobs))
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("backend", [RESTORE, WORKERS], ids=lambda b: b.id)
def test_trap_06_timeouts_do_not_come_late(backend: Backend) -> None:
    """A lax bound: how late they are on a quiet machine is for the bench to tell."""
    limits = LIMITS.model_copy(update={"timeout": 0.05})
    found = evaluate(backend, "def evaluate():\n    while True: pass\n", calls(20), limits=limits)
    assert {e.status for e in found} == {"timeout"}
    late = [e.duration - 0.05 for e in found]
    assert min(late) >= 0
    assert statistics.median(late) < 1


@pytest.mark.parametrize("memory", [1, 1 << 20, 20 << 20])
@pytest.mark.parametrize("backend", [RESTORE, INSTANCE], ids=lambda b: b.id)
def test_trap_07_a_memory_limit_below_the_interpreters_own_size_is_told(backend: Backend, memory: int) -> None:
    limits = LIMITS.model_copy(update={"memory": memory})
    found = evaluate(backend, "def evaluate(): return 1\n", calls(2), limits=limits)
    assert [(e.call, e.status) for e in found] == [(0, "memory"), (1, "memory")]
    assert all(e.error and "raise Limits(memory=…)" in e.error.message for e in found)


def test_trap_08_what_needs_an_operating_system_does_not_end_the_call() -> None:
    source = """
    import datetime, os, random, secrets, tempfile, time, uuid
    def evaluate():
        print("printed")
        told = [time.time(), datetime.datetime.now(datetime.timezone.utc).timestamp()]
        drawn = [random.random(), os.urandom(8).hex(), str(uuid.uuid4()), secrets.token_hex(8), secrets.randbits(64)]
        raised = []
        for what in (lambda: open("x"), lambda: __import__("no_such_module"), os.listdir, tempfile.mkdtemp):
            try: what()
            except Exception as e: raised.append(type(e).__name__)
        return [told, drawn, raised]
    """
    found = evaluate(RESTORE, dedent(source), calls(2))
    assert [(e.status, e.output) for e in found] == [("ok", "printed\n")] * 2
    assert all(abs(now - time.time()) < 60 for e in found for now in e.value[0])
    assert len({x for e in found for x in e.value[1]}) == 10
    assert "ModuleNotFoundError" in found[0].value[2]
    assert len(found[0].value[2]) == 4


def test_trap_08_time_never_goes_back() -> None:
    source = """
    import time
    def evaluate():
        last, back = time.monotonic_ns(), 0
        for _ in range(100_000):
            now = time.monotonic_ns()
            back += now < last
            last = now
        return back
    """
    (found,) = evaluate(RESTORE, dedent(source), calls())
    assert (found.status, found.value) == ("ok", 0)


def test_trap_09_huge_integers() -> None:
    source = """
    import sys
    def evaluate():
        sys.set_int_max_str_digits(0)
        text = str(7 ** 20_000)
        return [len(text), int(text) == 7 ** 20_000, text[:5]]
    """
    (found,) = evaluate(RESTORE, dedent(source), calls())
    assert found.value == [16_902, True, str(7**20_000 // 10**16_897)]


@pytest.mark.parametrize("backend", [RESTORE, WORKERS], ids=lambda b: b.id)
def test_trap_10_an_argument_of_5_mb_is_fast_enough(backend: Backend) -> None:
    limits = LIMITS.model_copy(update={"timeout": 60})
    (found,) = evaluate(backend, "def evaluate(x): return len(x)\n", calls(x="é" * (5 << 19)), limits=limits)
    assert (found.status, found.value) == ("ok", 5 << 19)


def test_trap_11_nan_and_lone_surrogates() -> None:
    source = """
    def evaluate(what):
        print("\\ud800")
        return {"nan": float("nan"), "deep": [{"a": -float("inf")}], "text": {"label": "a\\ud800b"}}[what]
    """
    batch = [Call(id=n, arguments={"what": what}) for n, what in enumerate(("nan", "deep", "text"))]
    nan, deep, text = evaluate(RESTORE, dedent(source), batch)
    assert (nan.status, deep.status) == ("no_result", "no_result")
    assert text.value in ({"label": "a\ud800b"}, {"label": "a\ufffdb"})
    assert all(e.output.encode() for e in (nan, deep, text))
    sent = evaluate(RESTORE, "def evaluate(x): return [len(x), ascii(x)]\n", calls(x="\udfff\ud83d\ude00"))
    assert sent[0].value == [2, ascii("\udfff\U0001f600")]


def test_trap_13_foreign_native_code_is_rebuilt_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path))
    engine = wasmtime.Engine(configure())
    right = compile_part("memory", print)
    content, key = right.read_bytes(), right.name.rpartition("-")[0]
    foreign = wasmtime.Module(engine, '(module (memory (export "memory") 1))').serialize()
    right.write_bytes(foreign)  # loads, but its name carries another digest
    assert compile_part("memory", print).read_bytes() == content
    right.write_bytes(content[:-1])
    assert compile_part("memory", print).read_bytes() == content
    elsewhere = keep(tmp_path, key, ".cwasm", foreign)
    right.unlink()
    right.with_name(elsewhere.name).symlink_to(elsewhere)
    found = compile_part("memory", print)
    assert (found.is_symlink(), found.read_bytes() == content) == (False, True)


def test_trap_14_a_script_that_patches_json_spoils_nothing_but_its_own_result() -> None:
    source = """
    import json
    def evaluate(lie):
        if lie:
            json.dumps = json.loads = json.JSONEncoder.encode = lambda *a, **k: "FORGED"
        return json.loads("0.25")
    """
    batch = [Call(id=n, arguments={"lie": n == 1}) for n in range(3)]
    found = evaluate(RESTORE, dedent(source), batch)
    assert [e.value for e in found] == [0.25, "FORGED", 0.25]


@pytest.mark.parametrize(
    ("place", "length"),
    [(-1, 1), (0, -1), (0, (1 << 32) - 1), ((1 << 32) - 1, 1), ((1 << 32) - 4, 8), (1 << 31, 0), (0, 1 << 63)],
)
def test_trap_14_forged_pointers_are_refused(instance: Instance, place: int, length: int) -> None:
    with pytest.raises(ReplyError):
        instance.read(place, length)
    with pytest.raises(ReplyError):
        instance.write(instance.size + 1 + place if place <= 0 else place, b"x" * min(max(length, 1), 99))


def test_trap_14_the_edges_of_memory_can_be_read_and_written(instance: Instance) -> None:
    end = instance.size
    instance.write(end - 4, b"last")
    assert instance.read(end - 4, 4) == b"last"
    assert instance.read(end, 0) == b""
    for place, size in ((end - 3, 4), (end, 1)):
        with pytest.raises(ReplyError):
            instance.read(place, size)
        with pytest.raises(ReplyError):
            instance.write(place, b"x" * size)
    assert instance.read(end - 4, 4) == b"last"


@pytest.mark.parametrize(
    "reply",
    [
        {}, [], None, {"status": "ok"}, {"status": ["ok"]}, {"status": {}}, {"status": "timeout", "error": {}},
        {"status": "error"}, {"status": "error", "error": {"type": [], "message": {}, "traceback": 1, "missing": []}},
        {"said": -1, "output": 7, "status": "ok"}, {"said": True, "output": None, "status": "ok", "value": 1},
        {"said": 10**30, "status": "ok"}, {"said": 1e308, "status": "error", "error": {"type": "\x00" * 9999}},
    ],
)  # fmt: skip
def test_trap_14_a_forged_reply_is_some_execution(reply: Any) -> None:
    found = execution(Raw(7, "reply", json.dumps(reply).encode(), 0.1), LIMITS, "evaluate", deaths=DEATHS_HERE)
    assert isinstance(found, Execution)
    assert found.call == 7
    assert (found.error is None) == (found.status == "ok")


@pytest.mark.parametrize("depth", [100, 400])
def test_trap_15_nested_json_makes_the_round_trip(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    (found,) = evaluate(RESTORE, "def evaluate(x): return x\n", calls(x=value))
    assert found.value == value


@pytest.mark.parametrize("backend", [RESTORE, WORKERS], ids=lambda b: b.id)
def test_trap_15_json_nested_too_deeply_harms_nobody(backend: Backend) -> None:
    value: Any = 1
    for _ in range(50_000):
        value = [value]
    source = "def evaluate(x):\n    if x is None:\n        for _ in range(50_000): x = [x]\n    return x\n"
    batch = [Call(id=0, arguments={"x": value}), Call(id=1, arguments={"x": None}), Call(id=2, arguments={"x": 1})]
    argument, result, after = evaluate(
        backend, source, batch, limits=LIMITS.model_copy(update={"memory": Limits().memory})
    )
    assert argument.status in ("error", "crash")
    assert result.status in ("no_result", "crash")
    assert (after.status, after.value) == ("ok", 1)
