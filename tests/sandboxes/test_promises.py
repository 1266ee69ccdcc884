"""
What every backend promises: this file and its two neighbours are the definition, docs/backends.md says it in words.

Here: 1, 2 and 8; in test_promises_state.py 3 and 4, in test_promises_bounds.py 5, 6 and 7.

One promise is one test, with its script in each language. A test belongs to a kind of promise (`needs`); a backend
that cannot keep one says why in its `gaps`.
"""

from __future__ import annotations

import asyncio

import pytest

from sandboxes import (
    Call,
    Execution,
    Isolation,
    Limits,
    SandboxConfig,
    SandboxLostError,
    Script,
    UnsupportedConfigError,
    backends,
)
from sandboxes.base import Language
from sandboxes.fake import FakeSandbox
from tests.sandboxes.backends import BACKENDS, LIMITS, QUICK, SOON_LOADED, Backend, calls, run
from tests.sandboxes.languages import ECHO, Each, Source, body
from tests.sandboxes.shared import evaluate
from tests.scripts import python


def test_every_registered_backend_is_here() -> None:
    assert {b.id.partition("-")[0] for b in BACKENDS} == set(backends())


# 1. Whatever the script does comes back as an execution. Only the sandbox's own failure raises.

Ends = tuple[Source, Each[str], Each[str | None]]

ENDS: dict[str, Ends] = {
    "raises": (
        body("return 1 / 0", "return (null as any).x;"),
        Each("error", "error"),
        Each("ZeroDivisionError", "TypeError"),
    ),
    "leaves": (body("raise SystemExit(3)", "Deno.exit(3);"), Each("error", "crash"), Each("SystemExit", None)),
    "raises-what-is-no-error": (
        body("raise KeyboardInterrupt", 'throw "a text";'),
        Each("error", "error"),
        Each("KeyboardInterrupt", "Thrown"),
    ),
    "returns-an-object": (
        body("return object()", "return new (class Thing {})();"),
        Each("no_result", "no_result"),
        Each("Result", "Result"),
    ),
    "returns-nan": (
        body("return float('nan')", "return NaN;"),
        Each("no_result", "no_result"),
        Each("Result", "Result"),
    ),
    "dies": (body("import os; os.abort()", "self.close();"), Each("crash", "crash"), Each(None, None)),
    "imports-what-is-not-there": (
        body("import no_such_module", 'await import("no-such-module");'),
        Each("error", "error"),
        Each("ModuleNotFoundError", "TypeError"),
    ),
    "recurses": (
        body("return evaluate()", "const again = (): number => 1 + again(); return again();"),
        Each("error", "error"),
        Each("RecursionError", "RangeError"),
    ),
}


@pytest.mark.each_provider("dies")
@pytest.mark.needs("runs")
@pytest.mark.parametrize(("script", "status", "kind"), ENDS.values(), ids=ENDS)
def test_what_the_script_does_is_an_execution(
    backend: Backend, script: Source, status: Each[str], kind: Each[str | None]
) -> None:
    (found,) = evaluate(backend, script, calls())
    assert found.status == status[backend.language]
    assert found.error is not None
    assert found.error.message or found.error.type == "KeyboardInterrupt"
    assert kind[backend.language] in (None, found.error.type)
    assert found.value is None


LOADS = {
    "raises": (Source("1 / 0", "(null as any).x;"), "error"),
    "hangs": (Source("while True: pass", "while (true);"), "timeout"),
    "waits-for-nothing": (Source("import time; time.sleep(60)", "await new Promise(() => {});"), "timeout"),
    "takes-memory": (Source("x = [0] * 10**9", "const x = new Uint8Array(4e9);"), "memory"),
    "dies": (Source("import os; os.abort()", "self.close();"), "crash"),
    "has-no-evaluate": (Source("def other(): pass", "export function other() {}"), "error"),
    "cannot-be-read": (Source("def evaluate(: pass", "export function evaluate(: {}"), "error"),
}


@pytest.mark.needs("runs")
@pytest.mark.parametrize(("script", "status"), LOADS.values(), ids=LOADS)
def test_what_the_script_does_while_loading_is_every_calls_execution(
    backend: Backend, script: Source, status: str
) -> None:
    found = evaluate(backend, script, calls(3), limits=SOON_LOADED if status == "timeout" else LIMITS)
    assert [(e.call, e.status) for e in found] == [(0, status), (1, status), (2, status)]


NO_EVALUATE = Source("other = evaluator = 1", "export const other = 1, evaluator = 2;")


@pytest.mark.needs("runs")
def test_a_script_without_evaluate_is_told_so(backend: Backend) -> None:
    (found,) = evaluate(backend, NO_EVALUATE, calls())
    assert found.error is not None
    assert "the script defines no function named evaluate" in found.error.message


NAMED = Source(
    python="""
score = 3
def evaluate(x): return "another"
def get_assert(x): return x if x else object()
""",
    typescript="""
export const score = 3;
export const evaluate = () => "another";
export function get_assert({x}: {x: number}) { return x ? x : new (class Thing {})(); }
""",
)


@pytest.mark.needs("names")
def test_calls_go_to_the_function_of_the_name(backend: Backend) -> None:
    batch = [Call(id=0, arguments={"x": 1}), Call(id=1, arguments={"x": 0})]
    found, failed = evaluate(backend, backend.script(NAMED, "get_assert"), batch)
    assert (found.status, found.value) == ("ok", 1)
    assert failed.error is not None
    assert failed.error.message.startswith("get_assert returned what JSON cannot hold")


@pytest.mark.needs("names")
@pytest.mark.parametrize("name", ["score", "missing"])
def test_a_name_without_a_function_is_told(backend: Backend, name: str) -> None:
    (found,) = evaluate(backend, backend.script(NAMED, name), calls(x=1))
    assert found.status == "error"
    assert found.error is not None
    assert found.error.message.startswith(f"the script defines no function named {name}")


@pytest.mark.needs("names")
def test_the_number_of_a_call_may_be_any(backend: Backend) -> None:
    numbers = [-5, 1 << 31, 1 << 70]
    found = evaluate(backend, backend.script(ECHO), [Call(id=n, arguments={"x": str(n)}) for n in numbers])
    assert [(e.call, e.value) for e in found] == [(n, str(n)) for n in numbers]


@pytest.mark.needs("names")
def test_a_script_in_another_language_is_refused(backend: Backend) -> None:
    other: Language = "typescript" if backend.language == "python" else "python"
    with pytest.raises(UnsupportedConfigError, match=f"was made for {backend.language}, and the script is {other}"):
        evaluate(backend, Script("", other, "evaluate"), calls())


UNREADABLE = Source("x = 1\ndef evaluate(: pass\n", "const x: number = 1;\nexport function evaluate(: {}\n")


@pytest.mark.needs("runs")
def test_a_script_that_cannot_be_read_is_told_so(backend: Backend) -> None:
    (found,) = evaluate(backend, UNREADABLE, calls())
    assert found.error is not None
    assert (found.status, found.error.type) == ("error", "SyntaxError")
    assert "2" in found.error.message + found.error.traceback, "the line"


SLOWLY = Source(
    python="""
import asyncio
async def evaluate(x):
    await asyncio.sleep(0.01)
    if x == 1: raise ValueError("not one")
    return x
""",
    typescript="""
export async function evaluate({x}: {x: number}) {
  await new Promise((done) => setTimeout(done, 10));
  if (x === 1) throw new RangeError("not one");
  return x;
}
""",
)


@pytest.mark.needs("runs")
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_an_async_evaluate_is_awaited(backend: Backend, isolation: Isolation) -> None:
    batch = [Call(id=n, arguments={"x": n}) for n in range(3)]
    first, second, third = evaluate(backend, SLOWLY, batch, isolation=isolation)
    assert [(e.status, e.value) for e in (first, second, third)] == [("ok", 0), ("error", None), ("ok", 2)]
    assert second.error is not None
    assert (second.error.type, second.error.message) == (
        Each("ValueError", "RangeError")[backend.language],
        "not one",
    )


async def test_the_sandboxs_own_failure_raises() -> None:
    def dies(call: Call) -> Execution:
        raise SandboxLostError("it died")

    async with FakeSandbox(SandboxConfig(backend="fake"), dies) as sandbox:
        program = await sandbox.load(python(""), LIMITS)
        with pytest.raises(SandboxLostError):
            [e async for e in program.run(calls(), LIMITS)]


# 2. Every call yields exactly one execution, tagged with its call.


@pytest.mark.each_provider("call")
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_one_execution_a_call(backend: Backend, isolation: Isolation) -> None:
    batch = [Call(id=7 * n, arguments={"x": n}) for n in range(20)]
    found = evaluate(backend, ECHO, batch, isolation=isolation)
    assert [e.call for e in found] == [c.id for c in batch]
    assert {e.status for e in found} == {"ok"}


@pytest.mark.each_provider
@pytest.mark.needs("runs")
def test_the_value_is_what_evaluate_returned(backend: Backend) -> None:
    batch = [Call(id=n, arguments={"x": {"n": n, "text": "é\u2028\x00", "deep": [[[n]]]}}) for n in range(3)]
    found = evaluate(backend, ECHO, batch)
    assert [e.value for e in found] == [c.arguments["x"] for c in batch]
    assert all(0 < e.duration < LIMITS.timeout for e in found)


BAD = {
    "hangs": Source("while True: pass", "while (true);"),
    "dies": Source("import os; os.abort()", "self.close();"),
    "leaves": Source("import os; os._exit(0)", "Deno.exit(0);"),
    "takes-memory": Source("[0] * 10**9", "new Uint8Array(4e9);"),
    "raises": Source("1 / 0", "(null as any).x;"),
}


@pytest.mark.each_provider("hangs")
@pytest.mark.needs("runs")
@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_call_that_hangs_or_dies_costs_its_neighbours_nothing(
    backend: Backend, isolation: Isolation, bad: Source
) -> None:
    script = Source(
        python=f"def evaluate(x):\n    if x == 2:\n        {bad.python}\n    return x\n",
        typescript=f"export function evaluate({{x}}) {{\n  if (x === 2) {{ {bad.typescript} }}\n  return x;\n}}\n",
    )
    batch = [Call(id=n, arguments={"x": n}) for n in range(5)]
    limits = QUICK if bad is BAD["hangs"] else LIMITS
    found = evaluate(backend, script, batch, isolation=isolation, limits=limits)
    assert [(e.call, e.value) for e in found if e.call != 2] == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert found[2].status in ("timeout", "crash", "memory", "error")


FORGOTTEN = Source(
    python="""
import asyncio
async def evaluate(x):
    async def fails(): raise ValueError("nobody waits for it")
    if x == 1: asyncio.ensure_future(fails())
    await asyncio.sleep(0)
    return x
""",
    typescript="""
export async function evaluate({x}: {x: number}) {
  if (x === 1) Promise.reject(new Error("nobody waits for it"));
  await null;
  return x;
}
""",
)


@pytest.mark.needs("runs")
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_an_error_that_nobody_waits_for_costs_the_neighbours_nothing(backend: Backend, isolation: Isolation) -> None:
    batch = [Call(id=n, arguments={"x": n}) for n in range(4)]
    found = evaluate(backend, FORGOTTEN, batch, isolation=isolation)
    assert [(e.call, e.value) for e in found if e.call != 1] == [(0, 0), (2, 2), (3, 3)]
    assert found[1].status in ("ok", "error", "crash")


SAYS = Source(
    python='print("loading")\ndef evaluate(x):\n    print("call", x)\n    return x\n',
    typescript='console.log("loading");\nexport function evaluate({x}) { console.log("call", x); return x; }\n',
)


@pytest.mark.needs("runs")
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_what_is_printed_belongs_to_its_call(backend: Backend, isolation: Isolation) -> None:
    batch = [Call(id=n, arguments={"x": n}) for n in range(10)]
    found = evaluate(backend, SAYS, batch, isolation=isolation)
    assert [e.output for e in found] == [f"call {n}\n" for n in range(10)]


# 8. Runs may overlap.


@pytest.mark.each_provider
def test_runs_may_overlap(backend: Backend) -> None:
    async def trial() -> list[list[int]]:
        async with backend.make(backend.isolation) as sandbox:
            program = await sandbox.load(backend.script(ECHO), LIMITS)

            async def one(first: int) -> list[int]:
                batch = [Call(id=first + n, arguments={"x": n}) for n in range(10)]
                return [e.call async for e in program.run(batch, LIMITS)]

            return await asyncio.gather(*(one(100 * k) for k in range(5)))

    found = run(trial())
    assert [sorted(ids) for ids in found] == [[100 * k + n for n in range(10)] for k in range(5)]


@pytest.mark.each_provider
async def test_closing_twice_is_safe(backend: Backend) -> None:
    sandbox = backend.make(backend.isolation)
    await sandbox.open()
    program = await sandbox.load(backend.script(ECHO), LIMITS)
    for _ in range(2):
        await program.close()
    for _ in range(2):
        await sandbox.close()


@pytest.mark.needs("runs")
async def test_several_programs_side_by_side(backend: Backend) -> None:
    scripts = [backend.script(body(f"return {n}", f"return {n};")) for n in range(4)]
    async with backend.make(backend.isolation) as sandbox:
        programs = [await sandbox.load(script, LIMITS) for script in scripts]
        await programs[0].close()
        assert [[e.value async for e in p.run(calls(3), LIMITS)] for p in programs[1:]] == [[1] * 3, [2] * 3, [3] * 3]


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="timeout"):
        Limits(timeout=0)


@pytest.mark.parametrize("limit", [{"memory": 1 << 64}, {"memory": 0}, {"output": -1}, {"timeout": float("nan")}])
def test_limits_that_cannot_be_meant_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(limit))):
        Limits.model_validate(limit)
