"""What the image's layout must not change for a script, and that a call writes little of it."""

from __future__ import annotations

from typing import Any

import pytest

from sandboxes import Call, Limits
from sandboxes.protocol import call_request, load_request
from sandboxes.wasm.engine import Engine
from sandboxes.wasm.frames import Request
from sandboxes.wasm.fresh import RestoredPages
from sandboxes.wasm.guests import Guests
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.restore import restores_pages
from sandboxes.wasm.sandbox import bounds
from tests.sandboxes.backends import BACKENDS, evaluate
from tests.scripts import python

pytestmark = pytest.mark.rotating("wasm", "wasm")

WASM = [b for b in BACKENDS if b.id.startswith("wasm")]


def values(source: str, count: int = 3, memory: int = 256 << 20) -> list[Any]:
    """Of as many calls, the same however a fresh state is made."""
    batch = [Call(id=n, seed=n) for n in range(count)]
    found = [evaluate(backend, source, batch, limits=Limits(memory=memory)) for backend in WASM]
    assert {(e.status, str(e.error)) for each in found for e in each} == {("ok", "None")}
    first, *others = [[e.value for e in each] for each in found]
    assert all(other == first for other in others)
    return first


def test_what_is_there_before_a_script_lasts_and_what_it_makes_does_not() -> None:
    source = """
import json, re, sys
def mine(): pass
class Mine: pass
kept = [Mine(), mine, Mine, {"a": 1}, [1.5], "a text of its own" * 2, 123456789, re.compile("a new one")]
def evaluate():
    theirs = [json, json.loads, json.loads.__code__, re.sub, re.Pattern, str.join, dict.__dict__["get"], vars(re), int]
    return [[sys._is_immortal(o) for o in theirs], [sys._is_immortal(o) for o in kept]]
"""
    assert values(source) == [[[True] * 9, [False] * 8]] * 3


def test_what_a_script_loaded_dies_in_the_call_that_deletes_it() -> None:
    source = """
import gc, sys, weakref
said = []
class Mine:
    def __init__(self, name): self.name = name
    def __del__(self): said.append(self.name)
one, two, cycle = Mine("one"), Mine("two"), Mine("cycle")
cycle.self = cycle
seen = weakref.ref(two, lambda _: said.append("called"))
weakly = weakref.WeakValueDictionary(one=one, two=two)
weakref.finalize(one, said.append, "finalized")
def function(): pass
functions = weakref.WeakSet([function])
def evaluate():
    global one, two, cycle, function
    counts = [sys.getrefcount(one), sys.getrefcount(two)]
    again = [one]
    counts.append(sys.getrefcount(one) - counts[0])
    del again, one
    two = None
    del cycle, function
    before = list(said)
    return [counts, before, gc.unfreeze(), gc.collect() > 0, said, seen() is None, len(weakly), len(functions)]
"""
    counts, before, _, collected, said, gone, weakly, functions = values(source)[0]
    assert counts[2] == 1
    assert sorted(before) == ["called", "finalized", "one", "two"]
    assert sorted(said) == ["called", "cycle", "finalized", "one", "two"]
    assert (collected, gone, weakly, functions) == (True, True, 0, 0)
    assert values(source) == [values(source)[0]] * 3


def test_the_garbage_collector_may_be_used_as_anywhere() -> None:
    source = """
import collections, dataclasses, enum, gc, json, re, typing
gc.unfreeze()
gc.collect()
class Kind(enum.Enum): A = 1
def evaluate():
    for _ in range(3):
        gc.unfreeze(); gc.collect(); gc.freeze()
    gc.set_threshold(1)
    made = [dict(a=[n]) for n in range(2000)]
    @dataclasses.dataclass
    class Row: a: int
    Pair = collections.namedtuple("Pair", "a b")
    hints = str(typing.get_type_hints(Row)["a"])
    some = [json.loads('{"a": [1, 2.5]}'), re.sub("b+", "c", "abb"), Row(1).a, Pair(1, 2).b, Kind.A.name]
    return [len(made), *some, hints]
"""
    assert values(source) == [[2000, {"a": [1, 2.5]}, "ac", 1, 2, "A", "<class 'int'>"]] * 3


@pytest.mark.parametrize(
    ("made", "again"),
    [
        ("bytearray(40 << 20)", "bytearray(40 << 20)"),
        ("[bytes(n % 200) for n in range(300_000)]", "[bytes(n % 200) for n in range(300_000)]"),
        ("[bytes(100) for n in range(300_000)]", "bytearray(30 << 20)"),
    ],
)
def test_what_a_call_frees_is_there_for_it_again(made: str, again: str) -> None:
    source = f"""
large = {made}
def evaluate():
    global large
    size = len(large)
    for _ in range(3):
        large = None
        large = {again}
    return [size, len(large)]
"""
    first = values(source, memory=112 << 20)
    assert first == [first[0]] * 3


@pytest.mark.skipif(not restores_pages(), reason="there is no page map here")
@pytest.mark.parametrize("name", ["plain", "large"])
def test_a_call_writes_few_pages_and_leaves_none_changed(name: str) -> None:
    source = {
        "plain": "import json, re\ndef evaluate(x):\n    return [len(json.dumps([x] * 9)), re.sub('a', 'b', x)]\n",
        "large": "kept = [[n] for n in range(50_000)]\ndef evaluate(x):\n    kept.append(x)\n    return len(kept)\n",
    }[name]
    with Engine(*compile_guest(print)) as engine:
        guests, limits = Guests(engine, "restore"), Limits()
        raw = guests.load(1, load_request(python(source), limits), bounds(limits, loading=True))
        assert raw.how == "reply"
        states = guests._programs[1]
        assert isinstance(states, RestoredPages)
        asked = [call_request(Call(id=n, seed=n, arguments={"x": "a" * n}), limits) for n in range(40)]
        requests = [Request(n, n, text) for n, text in enumerate(asked) if isinstance(text, bytes)]
        for _ in guests.run(1, requests, bounds(limits), shared=False):
            pass
        instance = states._spare
        assert instance is not None
        assert instance.memory() == states._pristine.memory()
        assert instance.stack_pointer == instance.get("__stack_pointer")
        assert 10 < states._restore(instance) < 150  # without its layout, 200 and more
        del instance
        guests.close()
