"""What every backend promises of isolation (3) and of stopping (4); see test_promises.py."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from sandboxes import Call, Isolation, Sandbox
from tests.sandboxes.backends import LIMITS, QUICK, Backend, calls, no_processes, run
from tests.sandboxes.languages import COUNTS, Source, body
from tests.sandboxes.opened import OPENED
from tests.sandboxes.shared import SHARED, evaluate

# 3. Isolation.


@pytest.mark.needs("isolates")
def test_nothing_survives_from_call_to_call(backend: Backend) -> None:
    assert {e.value for e in evaluate(backend, COUNTS, calls(10), isolation="call")} == {1}


BUILTINS = Source(
    python="""
import json, math
def evaluate():
    seen = [hasattr(json, "mark"), math.pi]
    json.mark, math.pi = True, 3
    return seen
""",
    typescript="""
export function evaluate() {
  const seen = ["mark" in JSON, "mark" in ({} as object), [1].map(String)];
  Object.assign(JSON, {mark: true});
  Object.prototype["mark"] = true;
  Array.prototype.map = () => [];
  return seen;
}
""",
)


@pytest.mark.needs("isolates")
def test_what_a_call_does_to_the_language_itself_does_not_survive_it(backend: Backend) -> None:
    first, *rest = evaluate(backend, BUILTINS, calls(4), isolation="call")
    assert first.status == "ok"
    assert [e.value for e in rest] == [first.value] * 3


@pytest.mark.each_provider
@pytest.mark.needs("isolates")
async def test_a_batch_shares_its_state_and_gives_it_up_at_its_end(backend: Backend) -> None:
    async with backend.make("batch") as sandbox:
        program = await sandbox.load(backend.script(COUNTS), LIMITS)
        assert [[e.value async for e in program.run(calls(4), LIMITS)] for _ in range(3)] == [[1, 2, 3, 4]] * 3


COLLECTS = Source(
    python="import random\nseen = []\ndef evaluate(x):\n    seen.append(x)\n    return [seen, random.random()]\n",
    typescript="""
const seen: number[] = [];
export function evaluate({x}: {x: number}) {
  seen.push(x);
  return [seen, Math.random()];
}
""",
)


@pytest.mark.needs("isolates")
async def test_results_do_not_depend_on_how_rows_were_split(backend: Backend) -> None:
    batch = [Call(id=n, arguments={"x": n}, seed=n) for n in range(6)]

    async def split(sandbox: Sandbox, sizes: list[int]) -> list[object]:
        program = await sandbox.load(backend.script(COLLECTS), LIMITS)
        rest, found = list(batch), []
        for size in sizes:
            found += [e async for e in program.run(rest[:size], LIMITS)]
            rest = rest[size:]
        return [e.value for e in sorted(found, key=lambda e: e.call)]

    async with backend.make("call") as sandbox:
        once, twice, by_row = [await split(sandbox, sizes) for sizes in ([6], [1, 2, 3], [1] * 6)]
    assert once == twice == by_row


@pytest.mark.needs("isolates")
@pytest.mark.parametrize(
    ("opened", "isolation"), [*((name, "call") for name in OPENED), ("file", "batch"), ("thread", "batch")]
)
def test_what_loading_opens_is_not_shared(backend: Backend, opened: str, isolation: Isolation) -> None:
    if opened == "process" and (gap := no_processes(backend)):
        pytest.skip(f"known gap: {gap}")

    async def split(sizes: list[int]) -> list[list[tuple[str, object]]]:
        sandbox = await SHARED.sandbox(backend, isolation)
        program = await sandbox.load(backend.script(OPENED[opened]), LIMITS)
        try:
            return [[(e.status, e.value or e.error) async for e in program.run(calls(n), LIMITS)] for n in sizes]
        finally:
            await program.close()

    longest, *others = SHARED.run(split([3, 1, 2]))
    assert {status for status, _ in longest} == {"ok"}, longest
    assert others == [longest[:1], longest[:2]]
    if isolation == "call":
        assert longest == longest[:1] * 3


LEAVES = Source(
    python="""
import asyncio
async def evaluate(x):
    if x == 0: asyncio.get_running_loop().call_later(0.05, print, "late")
    else: await asyncio.sleep(0.2)
    print("call", x)
    return x
""",
    typescript="""
export async function evaluate({x}: {x: number}) {
  if (x === 0) setTimeout(() => console.log("late"), 50);
  else await new Promise((done) => setTimeout(done, 200));
  console.log("call", x);
  return x;
}
""",
)


@pytest.mark.needs("isolates")
def test_what_a_call_leaves_to_be_done_later_ends_with_it(backend: Backend) -> None:
    batch = [Call(id=n, arguments={"x": n}) for n in range(2)]
    found = evaluate(backend, LEAVES, batch, isolation="call")
    assert [(e.value, e.output) for e in found] == [(0, "call 0\n"), (1, "call 1\n")]


DRAWS = body(
    "import random, os, uuid; return [random.random(), os.urandom(4).hex(), str(uuid.uuid4())]",
    "return [Math.random(), crypto.getRandomValues(new Uint8Array(4)).join(), crypto.randomUUID()];",
)


@pytest.mark.needs("runs")
def test_random_numbers_differ_from_call_to_call_or_repeat_with_the_seed(backend: Backend) -> None:
    free = [tuple(e.value) for e in evaluate(backend, DRAWS, calls(4))]
    assert len({x for v in free for x in v}) == 12
    seeded = [[e.value for e in evaluate(backend, DRAWS, [Call(id=0, seed=5), Call(id=1, seed=6)])] for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert seeded[0][0] != seeded[0][1]


HOLDS = body(
    "import os; held = type('Held', (), {'draw': os.urandom})(); return len(held.draw(8))",
    "return 8;",
)


@pytest.mark.needs("runs")
def test_a_class_may_hold_what_draws_random_numbers(backend: Backend) -> None:
    """As a function of C, which is no method of it."""
    assert [e.value for e in evaluate(backend, HOLDS, [Call(id=0, seed=5), Call(id=1)])] == [8, 8]


SPREAD = body(
    "import random; return [random.random() for _ in range(2000)]",
    "return Array.from({length: 2000}, Math.random);",
)


@pytest.mark.needs("runs")
def test_random_numbers_of_any_seed_are_spread_over_their_range(backend: Backend) -> None:
    batch = [Call(id=n, seed=seed) for n, seed in enumerate([0, 1, 1 << 32, (1 << 64) - 1])]
    drawn = [e.value for e in evaluate(backend, SPREAD, batch)]
    for numbers in drawn:
        assert all(0 <= x < 1 for x in numbers)
        assert 0.45 < sum(numbers) / 2000 < 0.55
    assert len({x for numbers in drawn for x in numbers}) == 8000


# 4. A call over its time is stopped, not abandoned.

LONG = 30
"""Seconds, on a busy machine; what is not stopped goes on for more."""

HANGS = {
    "loops": body("while True: pass", "while (true);"),
    "sleeps": body(
        "import time; time.sleep(60)", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);"
    ),
    "matches": body(
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')", 'return /(a+)+$/.test("a".repeat(40) + "b") ? 1 : 0;'
    ),
    "awaits": Source(
        python="import asyncio\nasync def evaluate(): await asyncio.sleep(60)\n",
        typescript="export const evaluate = async () => await new Promise((done) => setTimeout(done, 60_000));\n",
    ),
    "never-yields": Source(
        python="import asyncio\nasync def evaluate():\n    while True: await asyncio.sleep(0)\n",
        typescript="export async function evaluate() { while (true) await null; }\n",
    ),
}


@pytest.mark.each_provider("sleeps")
@pytest.mark.needs("stops")
@pytest.mark.parametrize("script", HANGS.values(), ids=HANGS)
def test_a_call_over_its_time_is_stopped(backend: Backend, script: Source) -> None:
    began = time.monotonic()
    (found,) = evaluate(backend, script, calls(), limits=QUICK)
    assert found.status == "timeout"
    assert found.error is not None
    assert "0.3 s" in found.error.message
    assert 0.29 < found.duration < LONG
    assert time.monotonic() - began < LONG


WAITS_FOR_NOTHING = Source(
    python="import asyncio\nasync def evaluate(): await asyncio.Event().wait()\n",
    typescript="export const evaluate = () => new Promise(() => {});\n",
)


@pytest.mark.needs("stops")
def test_waiting_for_what_nothing_will_do_ends(backend: Backend) -> None:
    (found,) = evaluate(backend, WAITS_FOR_NOTHING, calls(), limits=QUICK)
    assert found.status in ("timeout", "error")  # where nothing else can happen any more, it need not be waited out
    assert found.duration < LONG


LOADS_SLOWLY = Source(
    python="import time\ntime.sleep(1)\ndef evaluate(): return 1\n",
    typescript="await new Promise((done) => setTimeout(done, 1000));\nexport const evaluate = () => 1;\n",
)


@pytest.mark.needs("stops")
def test_loading_has_a_time_of_its_own(backend: Backend) -> None:
    limits = LIMITS.model_copy(update={"timeout": 0.9})
    (found,) = evaluate(backend, LOADS_SLOWLY, calls(), limits=limits)
    assert (found.status, found.value) == ("ok", 1)


HANGS_OR_NOT = Source(
    python="def evaluate(x):\n    while x: pass\n    return 1\n",
    typescript="export function evaluate({x}: {x: boolean}) {\n  while (x);\n  return 1;\n}\n",
)


@pytest.mark.each_provider
@pytest.mark.needs("stops")
async def test_cancelling_stops_what_runs_and_leaves_the_sandbox_usable(backend: Backend) -> None:
    async with backend.make(backend.isolation) as sandbox:
        program = await sandbox.load(backend.script(HANGS_OR_NOT), LIMITS)

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
        assert stopped < LONG


@pytest.mark.each_provider
@pytest.mark.needs("stops")
def test_nothing_is_left_when_it_is_closed(backend: Backend, child_processes: Callable[[], list[str]]) -> None:
    threads = threading.active_count()

    async def trial() -> None:
        async with backend.make(backend.isolation) as sandbox:
            program = await sandbox.load(backend.script(HANGS["loops"]), LIMITS)
            running = program.run(calls(3), LIMITS.model_copy(update={"timeout": 60}))
            waiting = asyncio.ensure_future(anext(running))
            await asyncio.sleep(0.2)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting

    run(trial())
    # Without Linux's handles on processes, asyncio waits for each in a thread, which ends a moment after it.
    for _ in range(100):
        if threading.active_count() == threads:
            break
        time.sleep(0.05)
    assert threading.active_count() == threads
    assert child_processes() == []
