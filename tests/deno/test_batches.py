"""Calls of one batch, and of several: what they share, what ends with them, and whose output is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sandboxes import Call, Isolation
from tests.deno.opened import LIMITS, Opened
from tests.scripts import typescript

pytestmark = pytest.mark.rotating("deno", "deno")

BOTH = pytest.mark.parametrize("isolation", ["batch", "call"])

BAD = {
    "heap": ("const kept = []; while (true) kept.push(new Array(1000).fill({}));", "memory"),
    "buffers": ("const kept = []; while (true) kept.push(new Uint8Array(1 << 20).fill(1));", "memory"),
    "wasm": ("new WebAssembly.Memory({initial: 60_000});", "memory"),
    "hang": ("while (true);", "timeout"),
    "wait": ("return new Promise(() => {});", "timeout"),
    "flood": ("while (true) console.log('x'.repeat(4096));", "output"),
    "exit": ("Deno.exit(0);", "crash"),
    "close": ("self.close();", "crash"),
    "close-and-wait": ("self.close(); return new Promise(() => {});", "crash"),
    "result": ("return 'x'.repeat(2 << 20);", "output"),
}


def wrong() -> Iterator[Any]:
    rest = pytest.mark.thorough("what costs a Deno call alone; the promises try the like in both isolations")
    for bad in BAD:
        yield pytest.param(bad, "batch", marks=rest if bad in ("hang", "exit", "close") else ())
        yield pytest.param(bad, "call", marks=rest)


@pytest.mark.parametrize(("bad", "isolation"), list(wrong()))
def test_a_call_that_goes_wrong_in_the_middle_of_a_batch_costs_that_call(
    opened: Opened, bad: str, isolation: Isolation
) -> None:
    body, status = BAD[bad]
    source = f"export function evaluate({{x}}) {{\n  if (x === 9) {{ {body} }}\n  return x;\n}}\n"
    timeout = 0.3 if status == "timeout" else 10
    found = opened.evaluate(source, [{"x": n} for n in range(20)], isolation, timeout=timeout)
    assert [(e.status, e.value) for e in found if e.call != 9] == [("ok", n) for n in range(20) if n != 9]
    assert found[9].status == status, found[9]


def test_an_end_that_a_call_has_left_for_later_is_not_blamed_on_another(opened: Opened) -> None:
    source = """
export async function evaluate({x}) {
  if (x === 1) setTimeout(() => Deno.exit(), 50);
  if (x === 2) await new Promise((done) => setTimeout(done, 200));
  return x;
}
"""
    assert [e.value for e in opened.evaluate(source, [{"x": n} for n in range(4)])] == [0, 1, 2, 3]


def test_rows_are_not_blamed_for_the_size_of_others(opened: Opened) -> None:
    batch = [{"x": "x" * (1 << 20)} for _ in range(60)]
    found = opened.evaluate("export const evaluate = ({x}) => x.length;\n", batch, memory=64 << 20)
    assert {(e.status, e.value) for e in found} == {("ok", 1 << 20)}


COUNTS = "let count = 0;\nexport const evaluate = () => count += 1;\n"


def test_overlapping_batches_share_no_state(opened: Opened) -> None:
    sandbox = opened.sandbox("batch")

    async def body() -> list[list[Any]]:
        program = await sandbox.load(typescript(COUNTS), LIMITS)

        async def one() -> list[Any]:
            return [e.value async for e in program.run([Call(id=n) for n in range(30)], LIMITS)]

        return await asyncio.gather(*(one() for _ in range(3)))

    assert opened.run(body()) == [list(range(1, 31))] * 3


@BOTH
def test_output_belongs_to_the_call_that_printed_it(opened: Opened, isolation: Isolation) -> None:
    source = """
console.log("loading");
export async function evaluate({x}) {
  console.log("before", x);
  await new Promise((done) => setTimeout(done, x % 3));
  queueMicrotask(() => console.info("micro", x));
  await null;
  Deno.stdout.writeSync(new TextEncoder().encode(`raw ${x}\\n`));
  console.error("after", x);
  return x;
}
"""
    found = opened.evaluate(source, [{"x": n} for n in range(12)], isolation)
    assert [e.output for e in found] == [f"before {n}\nmicro {n}\nraw {n}\nafter {n}\n" for n in range(12)]
    assert not any(e.truncated for e in found)


@BOTH
def test_a_call_that_fails_keeps_what_it_printed(opened: Opened, isolation: Isolation) -> None:
    source = """
export function evaluate({x}) {
  console.log("call", x);
  if (x === 1) throw new Error("no");
  if (x === 2) while (true);
  if (x === 3) Deno.exit();
  return x;
}
"""
    found = opened.evaluate(source, [{"x": n} for n in range(5)], isolation, timeout=0.3)
    assert [e.output for e in found] == [f"call {n}\n" for n in range(5)]


def test_what_is_printed_while_loading_is_told_of_the_loading(opened: Opened) -> None:
    async def body() -> tuple[str, str]:
        source = "console.log('once', {a: [1]});\nexport const evaluate = () => 1;"
        program = await opened.sandbox().load(typescript(source), LIMITS)
        (found,) = [e async for e in program.run([Call(id=0)], LIMITS)]
        return program.loaded.output, found.output

    assert opened.run(body()) == ("once { a: [ 1 ] }\n", "")


def test_consoles_words_are_those_of_deno_without_colours(opened: Opened) -> None:
    source = """
export function evaluate() {
  console.log("%s has %d", "it", 2, {a: ["b"]});
  console.warn(new Map([["a", 1n]]), undefined, -0);
  console.assert(false, "asserted");
  console.group("in"); console.debug("deeper"); console.groupEnd();
  return 1;
}
"""
    (found,) = opened.evaluate(source, [{}])
    assert found.output == (
        'it has 2 { a: [ "b" ] }\nMap(1) { "a" => 1n } undefined -0\nAssertion failed: asserted\nin\n  deeper\n'
    )


@BOTH
def test_an_error_outside_of_the_call_is_printed_and_harms_nobody(opened: Opened, isolation: Isolation) -> None:
    source = """
export async function evaluate({x}) {
  if (x === 1) Promise.reject(new Error("nobody waits"));
  if (x === 2) setTimeout(() => { throw new Error("from a timer") }, 1);
  if (x === 3) queueMicrotask(() => { throw new Error("from a microtask") });
  await new Promise((done) => setTimeout(done, 30));
  return x;
}
"""
    found = opened.evaluate(source, [{"x": n} for n in range(5)], isolation)
    assert [(e.status, e.value) for e in found] == [("ok", n) for n in range(5)]
    said = [e.output for e in found]
    assert (said[0], said[4]) == ("", "")
    assert "nobody waits" in said[1]
    assert "from a timer" in said[2]
    assert "from a microtask" in said[3]


@BOTH
def test_messages_of_the_scripts_own_are_no_results(opened: Opened, isolation: Isolation) -> None:
    source = """
const forged = {kind: 2, seconds: 0, text: '{"status":"ok","value":1}', place: 0};
export async function evaluate({x}) {
  const {port1, port2} = new MessageChannel();
  port2.onmessage = ({data}) => self.dispatchEvent(new MessageEvent("message", {data}));
  for (const message of [forged, forged.text, null, [forged]]) port1.postMessage(message);
  self.onmessage = self.onerror = null;
  self.dispatchEvent(new MessageEvent("message", {data: forged}));
  JSON.stringify = JSON.parse = () => forged.text;
  await new Promise((done) => setTimeout(done, 1));
  return x;
}
"""
    found = opened.evaluate(source, [{"x": n + 0.5} for n in range(4)], isolation)
    assert [e.value for e in found] == [0.5, 1.5, 2.5, 3.5]


@BOTH
def test_seeded_numbers_are_a_matter_of_the_call_alone(opened: Opened, isolation: Isolation) -> None:
    source = "export const evaluate = ({n}) => Array.from({length: n}, Math.random);"
    batch = [Call(id=n, arguments={"n": 3 + n}, seed=s) for n, s in enumerate([7, 8, 7, (1 << 53) - 1, (1 << 53) - 2])]
    first, second, third, large, larger = [e.value[:3] for e in opened.evaluate(source, batch, isolation)]
    assert first == third
    assert first != second
    assert large != larger
    free = opened.evaluate(source, [{"n": 1}] * 4, isolation)
    assert len({e.value[0] for e in free}) == 4


@BOTH
def test_what_is_drawn_while_loading_is_the_same_for_every_call_and_run(opened: Opened, isolation: Isolation) -> None:
    source = "const drawn = [Math.random(), crypto.randomUUID()];\nexport const evaluate = () => drawn;\n"
    found = [e.value for _ in range(2) for e in opened.evaluate(source, [{}] * 3, isolation)]
    assert found == [found[0]] * 6


def test_a_long_batch_is_quick_and_whole(opened: Opened) -> None:
    batch = [{"x": {"n": n, "text": "é" * (n % 50)}} for n in range(3000)]
    found = opened.evaluate("export const evaluate = ({x}) => x;", batch)
    assert [e.value for e in found] == [b["x"] for b in batch]
    assert sum(e.duration for e in found) < 10
