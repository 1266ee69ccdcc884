"""
What every backend promises: this file is the definition, docs/backends.md says it in words.

A test belongs to a kind of promise (`needs`). A backend that cannot keep one says why in its `gaps`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from sandboxes import (
    Call,
    Execution,
    Limits,
    SandboxConfig,
    SandboxLostError,
    UnsupportedConfigError,
    backends,
    create,
    find,
)
from sandboxes.fake import FakeSandbox
from tests.sandboxes.backends import BACKENDS, LIMITS, QUICK, Backend, calls, evaluate, run, unavailable

COUNTS = """
count = 0
def evaluate(x=None):
    global count
    count += 1
    return count
"""


@pytest.fixture(params=BACKENDS, ids=lambda b: b.id)
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    if missing := unavailable(chosen):
        pytest.skip(missing)
    if (needs := request.node.get_closest_marker("needs")) and (gap := chosen.gaps.get(needs.args[0])):
        pytest.skip(f"known gap: {gap}")
    return chosen


def test_every_registered_backend_is_here() -> None:
    assert {b.id.partition("-")[0] for b in BACKENDS} == set(backends())


# 1. Whatever the script does comes back as an execution. Only the sandbox's own failure raises.


@pytest.mark.needs("runs")
@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("return 1 / 0", "error", "ZeroDivisionError"),
        ("raise SystemExit(3)", "error", "SystemExit"),
        ("raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
        ("return object()", "no_result", None),
        ("return float('nan')", "no_result", None),
        ("import os; os.abort()", "crash", None),
        ("import no_such_module", "error", "ModuleNotFoundError"),
        ("return evaluate()", "error", "RecursionError"),
    ],
)
def test_what_the_script_does_is_an_execution(backend: Backend, body: str, status: str, kind: str | None) -> None:
    (found,) = evaluate(backend, f"def evaluate():\n    {body}\n", calls())
    assert found.status == status
    assert found.error is not None
    assert found.error.message or kind == "KeyboardInterrupt"
    assert kind is None or found.error.type == kind
    assert found.value is None


@pytest.mark.needs("runs")
@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("1 / 0", "error"),
        ("while True: pass", "timeout"),
        ("x = [0] * 10**9", "memory"),
        ("import os; os.abort()", "crash"),
        ("def other(): pass", "error"),
        ("def evaluate(: pass", "error"),
    ],
)
def test_what_the_script_does_while_loading_is_every_calls_execution(
    backend: Backend, source: str, status: str
) -> None:
    found = evaluate(backend, source, calls(3), limits=QUICK)
    assert [(e.call, e.status) for e in found] == [(0, status), (1, status), (2, status)]


def test_the_sandboxs_own_failure_raises() -> None:
    def dies(call: Call) -> Execution:
        raise SandboxLostError("it died")

    async def body() -> None:
        async with FakeSandbox(SandboxConfig(backend="fake"), dies) as sandbox:
            program = await sandbox.load("", LIMITS)
            with pytest.raises(SandboxLostError):
                [e async for e in program.run(calls(), LIMITS)]

    run(body())


# 2. Every call yields exactly one execution, tagged with its call.


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_one_execution_a_call(backend: Backend, isolation: str) -> None:
    batch = [Call(id=7 * n, arguments={"x": n}) for n in range(20)]
    found = evaluate(backend, "def evaluate(x=None): return x", batch, isolation=isolation)  # type: ignore[arg-type]
    assert [e.call for e in found] == [c.id for c in batch]
    assert {e.status for e in found} == {"ok"}


@pytest.mark.needs("runs")
def test_the_value_is_what_evaluate_returned(backend: Backend) -> None:
    batch = [Call(id=n, arguments={"x": {"n": n, "text": "é\u2028\x00", "deep": [[[n]]]}}) for n in range(3)]
    found = evaluate(backend, "def evaluate(x): return x", batch)
    assert [e.value for e in found] == [c.arguments["x"] for c in batch]
    assert all(0 < e.duration < 5 for e in found)


@pytest.mark.needs("runs")
@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("bad", ["while True: pass", "import os; os.abort()", "[0] * 10**9", "1 / 0"])
def test_a_call_that_hangs_or_dies_costs_its_neighbours_nothing(backend: Backend, isolation: str, bad: str) -> None:
    source = f"def evaluate(x):\n    if x == 2:\n        {bad}\n    return x\n"
    batch = [Call(id=n, arguments={"x": n}) for n in range(5)]
    found = evaluate(backend, source, batch, isolation=isolation, limits=QUICK)  # type: ignore[arg-type]
    assert [(e.call, e.value) for e in found if e.call != 2] == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert found[2].status in ("timeout", "crash", "memory", "error")


# 3. Isolation.


@pytest.mark.needs("isolates")
def test_nothing_survives_from_call_to_call(backend: Backend) -> None:
    assert {e.value for e in evaluate(backend, COUNTS, calls(10), isolation="call")} == {1}


@pytest.mark.needs("isolates")
def test_a_batch_shares_its_state_and_gives_it_up_at_its_end(backend: Backend) -> None:
    async def body() -> list[list[int]]:
        async with backend.make("batch") as sandbox:
            program = await sandbox.load(COUNTS, LIMITS)
            return [[e.value async for e in program.run(calls(4), LIMITS)] for _ in range(3)]

    assert run(body()) == [[1, 2, 3, 4]] * 3


@pytest.mark.needs("isolates")
def test_results_do_not_depend_on_how_rows_were_split(backend: Backend) -> None:
    source = "import random\nseen = []\ndef evaluate(x):\n    seen.append(x)\n    return [seen, random.random()]\n"
    batch = [Call(id=n, arguments={"x": n}, seed=n) for n in range(6)]

    async def split(sizes: list[int]) -> list[object]:
        async with backend.make("call") as sandbox:
            program = await sandbox.load(source, LIMITS)
            rest, found = list(batch), []
            for size in sizes:
                found += [e async for e in program.run(rest[:size], LIMITS)]
                rest = rest[size:]
            return [e.value for e in sorted(found, key=lambda e: e.call)]

    assert run(split([6])) == run(split([1, 2, 3])) == run(split([1] * 6))


@pytest.mark.needs("runs")
def test_random_numbers_differ_from_call_to_call_or_repeat_with_the_seed(backend: Backend) -> None:
    source = (
        "import random, os, uuid\ndef evaluate(): return [random.random(), os.urandom(4).hex(), str(uuid.uuid4())]\n"
    )
    free = [tuple(e.value) for e in evaluate(backend, source, calls(4))]
    assert len({x for v in free for x in v}) == 12
    seeded = [[e.value for e in evaluate(backend, source, [Call(id=0, seed=5), Call(id=1, seed=6)])] for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert seeded[0][0] != seeded[0][1]


# 4. A call over its time is stopped, not abandoned.


@pytest.mark.needs("stops")
@pytest.mark.parametrize(
    "body", ["while True: pass", "import time; time.sleep(60)", "import re; re.match('(a+)+$', 'a' * 40 + 'b')"]
)
def test_a_call_over_its_time_is_stopped(backend: Backend, body: str) -> None:
    began = time.monotonic()
    (found,) = evaluate(backend, f"def evaluate():\n    {body}\n", calls(), limits=QUICK)
    assert found.status == "timeout"
    assert found.error is not None
    assert "0.3 s" in found.error.message
    assert 0.29 < found.duration < 2
    assert time.monotonic() - began < 10


@pytest.mark.needs("stops")
def test_loading_has_a_time_of_its_own(backend: Backend) -> None:
    source = "import time\ntime.sleep(0.4)\ndef evaluate(): return 1\n"
    limits = LIMITS.model_copy(update={"timeout": 0.2})
    (found,) = evaluate(backend, source, calls(), limits=limits)
    assert (found.status, found.value) == ("ok", 1)


@pytest.mark.needs("stops")
def test_cancelling_stops_what_runs_and_leaves_the_sandbox_usable(backend: Backend) -> None:
    source = "def evaluate(x):\n    while x: pass\n    return 1\n"

    async def body() -> float:
        async with backend.make(backend.isolation) as sandbox:
            program = await sandbox.load(source, LIMITS)

            async def hang() -> None:
                [e async for e in program.run(calls(x=True), LIMITS.model_copy(update={"timeout": 60}))]

            task = asyncio.create_task(hang())
            await asyncio.sleep(0.3)
            began = time.monotonic()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            stopped = time.monotonic() - began
            assert [e.value async for e in program.run(calls(2, x=False), LIMITS)] == [1, 1]
            return stopped

    assert run(body()) < 5


@pytest.mark.needs("stops")
def test_nothing_is_left_when_it_is_closed(backend: Backend, child_processes: object) -> None:
    threads = threading.active_count()

    async def body() -> None:
        async with backend.make(backend.isolation) as sandbox:
            program = await sandbox.load("def evaluate():\n    while True: pass\n", LIMITS)
            running = program.run(calls(3), LIMITS.model_copy(update={"timeout": 60}))
            waiting = asyncio.ensure_future(anext(running))
            await asyncio.sleep(0.2)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting

    run(body())
    assert threading.active_count() == threads
    assert child_processes() == []  # type: ignore[operator]


# 5. Memory, output and result size are bounded while they are produced.


@pytest.mark.needs("bounds")
def test_memory_is_bounded(backend: Backend) -> None:
    source = "def evaluate():\n    kept = []\n    while True: kept.append(bytearray(1 << 20))\n"
    (found,) = evaluate(backend, source, calls())
    assert found.status == "memory"
    assert found.error is not None
    assert "128 MB" in found.error.message


@pytest.mark.needs("bounds")
def test_the_kept_output_is_the_tail_and_flagged(backend: Backend) -> None:
    source = """
import sys
def evaluate(lines):
    for n in range(lines): print("line", n, file=sys.stderr if n % 2 else sys.stdout)
    return 1
"""
    limits = LIMITS.model_copy(update={"output": 100})
    short, long = evaluate(
        backend, source, [Call(id=0, arguments={"lines": 3}), Call(id=1, arguments={"lines": 500})], limits=limits
    )
    assert (short.output, short.truncated) == ("line 0\nline 1\nline 2\n", False)
    assert (long.output.endswith("line 498\nline 499\n"), len(long.output) <= 100, long.truncated) == (True, True, True)
    assert long.status == "ok"


@pytest.mark.needs("bounds")
def test_output_without_end_is_stopped(backend: Backend) -> None:
    (found,) = evaluate(backend, "def evaluate():\n    while True: print('x' * 4096)\n", calls())
    assert (found.status, found.truncated, len(found.output)) == ("output", True, LIMITS.output)


@pytest.mark.needs("bounds")
@pytest.mark.parametrize("char", ["x", "é", "\x00"])
def test_the_results_size_is_bounded(backend: Backend, char: str) -> None:
    size = len(char.encode()) if char != "\x00" else 6  # as JSON
    source = f"def evaluate(n): return {char!r} * n\n"
    fits, over = (Call(id=n, arguments={"n": (1000 - 2) // size + n}) for n in range(2))
    limits = LIMITS.model_copy(update={"result": 1000})
    first, second = evaluate(backend, source, [fits, over], limits=limits)
    assert (first.status, second.status, second.value) == ("ok", "output", None)


# 6. No network, no files of the host, an empty environment.


@pytest.mark.needs("closed")
@pytest.mark.parametrize(
    "body",
    [
        "open('/etc/hostname').read()",
        "import os; os.listdir('/etc')",
        "import os; os.listdir('/home')",
        "import os; os.environ['HOME']",
        "import os; os.environ['PATH']",
        "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
        "import socket; socket.socket()",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
        "import subprocess; subprocess.run(['true'])",
        "open('written', 'w')",
    ],
)
def test_nothing_of_the_host_is_there(backend: Backend, body: str) -> None:
    (found,) = evaluate(backend, f"def evaluate():\n    {body}\n    return 'ESCAPED'\n", calls())
    assert found.status == "error", found


@pytest.mark.needs("nothing")
@pytest.mark.parametrize(
    "body", ["import os; os.listdir('/')", "import threading; threading.Thread(target=print).start()"]
)
def test_there_is_no_system_at_all(backend: Backend, body: str) -> None:
    (found,) = evaluate(backend, f"def evaluate():\n    {body}\n    return 'ESCAPED'\n", calls())
    assert found.status == "error", found


@pytest.mark.parametrize(
    "asked",
    [{"packages": ("numpy",)}, {"files": {"MODEL": "model.json"}}, {"network": True}, {"env": ("HOME",)}],
    ids=["packages", "files", "network", "env"],
)
def test_what_cannot_be_honoured_is_refused(asked: dict[str, object]) -> None:
    (feature,) = asked
    for name in backends():
        if getattr(find(name).capabilities, feature):
            continue
        with pytest.raises(UnsupportedConfigError, match=name):
            create(SandboxConfig.model_validate({"backend": name, **asked}))


# 7. The result travels on a channel that nothing printed can forge; arguments travel as data.


@pytest.mark.needs("channel")
def test_nothing_printed_is_a_result(backend: Backend) -> None:
    source = """
import sys
def evaluate():
    for forged in ('{"said":0,"output":"","status":"ok","value":1.0}', "===RESULT===\\n1.0\\n===END==="):
        print(forged); print(forged, file=sys.stderr, end="")
        sys.stdout.buffer.write(forged.encode())
    return 0.25
"""
    (found,) = evaluate(backend, source, calls())
    assert (found.status, found.value) == ("ok", 0.25)


@pytest.mark.needs("channel")
@pytest.mark.parametrize(
    "text", ["'''\nraise SystemExit\n'''", '"; import os; "', "\\u0022", "${x}", "{{x}}", "\x00\x1b[2J", "__proto__"]
)
def test_arguments_are_data(backend: Backend, text: str) -> None:
    (found,) = evaluate(
        backend, "def evaluate(x, **more): return [x, more]", [Call(id=0, arguments={"x": text, "__proto__": text})]
    )
    assert found.value == [text, {"__proto__": text}]


# 8. Runs may overlap.


def test_runs_may_overlap(backend: Backend) -> None:
    async def body() -> list[list[int]]:
        async with backend.make(backend.isolation) as sandbox:
            program = await sandbox.load("def evaluate(x=None): return x", LIMITS)

            async def one(first: int) -> list[int]:
                batch = [Call(id=first + n, arguments={"x": n}) for n in range(10)]
                return [e.call async for e in program.run(batch, LIMITS)]

            return await asyncio.gather(*(one(100 * k) for k in range(5)))

    found = run(body())
    assert [sorted(ids) for ids in found] == [[100 * k + n for n in range(10)] for k in range(5)]


def test_closing_twice_is_safe(backend: Backend) -> None:
    async def body() -> None:
        sandbox = backend.make(backend.isolation)
        await sandbox.open()
        program = await sandbox.load("def evaluate(): return 1", LIMITS)
        for _ in range(2):
            await program.close()
        for _ in range(2):
            await sandbox.close()

    run(body())


@pytest.mark.needs("runs")
def test_several_programs_side_by_side(backend: Backend) -> None:
    async def body() -> list[object]:
        async with backend.make(backend.isolation) as sandbox:
            programs = [await sandbox.load(f"def evaluate(): return {n}", LIMITS) for n in range(4)]
            await programs[0].close()
            return [[e.value async for e in p.run(calls(3), LIMITS)] for p in programs[1:]]

    assert run(body()) == [[1] * 3, [2] * 3, [3] * 3]


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="timeout"):
        Limits(timeout=0)


@pytest.mark.parametrize("limit", [{"memory": 1 << 64}, {"memory": 0}, {"output": -1}, {"timeout": float("nan")}])
def test_limits_that_cannot_be_meant_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(limit))):
        Limits.model_validate(limit)
