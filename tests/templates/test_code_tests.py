"""The template `code-tests`: what a program may try to pass without being right, and tests of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from runner import InputMapping, SandboxConfig, evaluate
from runner.core.types import Result
from sandboxes import Limits
from tests.skips import need

SECRET = "def check(candidate):\n    assert candidate(3) == 7919\n    assert abs(candidate(4) - 7927.5) < 1e-6\n"
HONEST = "def f(n):\n    return {3: 7919, 4: 7927.5}[n]\n"

ATTACKS = {
    "equals everything": """
class Yes:
    def __eq__(self, other): return True
    def __sub__(self, other): return 0
    def __rsub__(self, other): return 0
    def __abs__(self): return 0
    def __lt__(self, other): return True
    __hash__ = None
def f(n): return Yes()
""",
    "a number that equals everything": """
class Yes(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
def f(n): return Yes(1)
""",
    "reads the stack": """
import sys
def f(n):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [str(one) for one in frame.f_locals.values()]
        frame = frame.f_back
    return 7900 + 19 if "79" + "19" in str(seen) and n == 3 else 7900 + 27.5 if "79" + "27" in str(seen) else 0
""",
    "reads all objects": """
import gc
def f(n):
    seen = [one for one in gc.get_objects() if isinstance(one, dict) and "reference" in one]
    return 7919 if "79" + "19" in str(seen) else 0
""",
    "traces": """
import sys
seen = []
def trace(frame, event, arg):
    seen.append(str(frame.f_locals))
    return trace
sys.settrace(trace)
def f(n): return 7919 if any("79" + "19" in one for one in seen) else 0
""",
    "patches what it is called by": """
import sys
own = sys.modules["evaluator"]
own.Program.answers = lambda *a: {"label": "passed", "score": 1.0}
own.evaluate = lambda *a, **k: {"label": "passed", "score": 1.0}
own.Judge.judged = own.evaluate
def f(n): return 0
""",
    "patches the built-in names": """
import builtins, math, json
builtins.isinstance = lambda *a: True
builtins.abs = lambda x: 0
builtins.len = lambda x: 0
math.isclose = lambda *a, **k: True
json.dumps = lambda *a, **k: '{"label": "passed", "score": 1.0}'
def f(n): return 0
""",
    "answers what it was not asked": """
import sys
own = sys.modules["evaluator"]
value = {"value": {"own": "builtin", "name": "eval"}}
own.Program.answers = lambda self, asked: {"answers": [value] * 9, "classes": {}}
def f(n): return 0
""",
    "asks itself": """
import sys
own = sys.modules["evaluator"]
own.Program.answers = lambda self, asked: {"apart": {"asked": [], "output": "", "reference": None}}
def f(n): return 0
""",
    "leaves": "import os\ndef f(n): os._exit(0)\n",
    "leaves while it loads": "import sys\nsys.exit(0)\n",
    "leaves at the end": "import atexit, os\natexit.register(os._exit, 0)\ndef f(n): return 0\n",
    "raises what tests raise": "class Stop(BaseException): pass\ndef f(n): raise Stop\n",
    "ends the interpreter's loop": "def f(n): raise SystemExit(0)\n",
    "returns what nests too deeply": """
def f(n):
    found = []
    for _ in range(100_000): found = [found]
    return found
""",
    "returns too much": "def f(n): return 'x' * 30_000_000\n",
    "says that it passed": "print('passed')\ndef f(n): return {'label': 'passed', 'score': 1.0}\n",
    "names itself the tests": """
import sys
sys.modules["solution"] = sys.modules["tests"] = sys.modules["evaluator"]
sys.modules.clear()
def f(n): return True
""",
}
HOGS = {
    "loops": ("def f(n):\n    while True: pass\n", {"timeout"}),
    "loops while it loads": ("while True: pass\n", {"timeout"}),
    "fills the memory": (
        "def f(n):\n    x = []\n    while True: x.append(bytearray(10_000_000))\n",
        {"memory", "failed", "crash"},
    ),
    "floods": (
        "import sys\ndef f(n):\n    while True: sys.__stdout__.write('x' * 1_000_000)\n",
        {"output", "failed", "timeout", "crash"},
    ),
}


def scored(
    sandbox: str, programs: dict[str, str], reference: Any, timeout: float = 60, **more: Any
) -> dict[str, Result]:
    need(sandbox)
    rows = [{"id": name, "output": text, "reference": reference} for name, text in programs.items()]
    config = SandboxConfig(backend=sandbox, jobs=2)
    report = evaluate("code-tests", rows, sandbox=config, limits=Limits(timeout=timeout), **more)
    return {result.id: result for result in report.results}


@pytest.mark.rotating("templates", "templates", "runner")
@pytest.mark.parametrize("sandbox", ["wasm", "process"])
def test_no_trick_claims_a_pass(sandbox: str) -> None:
    reference = {"test": SECRET, "entry_point": "f"}
    found = scored(sandbox, {**ATTACKS, "honest": HONEST}, reference)
    assert {name: r.outcome for name, r in found.items() if r.outcome != "scored"} == {}
    assert [name for name, r in found.items() if r.score != 0] == ["honest"]
    assert found["honest"].label == "passed"


ESCAPES = {
    "a method that takes functions": "f(1).map(lambda one: one + 1)\nassert f(2) == 7919\n",
    "slices": "assert f(1)[0:2] == [7919]\n",
    "a growing length": "r, i = f(1), 0\nwhile i < len(r):\n    i += 1\nassert i == 3\n",
    "never empty": "r = f(1)\nwhile r:\n    r.pop()\n",
}


@pytest.mark.rotating("templates", "templates", "process")
def test_an_object_that_a_program_returns_takes_no_row_out_of_the_count() -> None:
    program = """
class Own:
    n = 0
    def map(self, *a): return self
    def pop(self): return 0
    def __bool__(self): return True
    def __len__(self):
        self.n += 1
        return self.n
def f(n): return Own()
class Named(Own): pass
"""
    rows = [{"id": name, "output": program, "reference": tests} for name, tests in ESCAPES.items()]
    found = evaluate("code-tests", rows, sandbox="process").results
    assert {r.id: (r.outcome, r.label, r.score) for r in found} == dict.fromkeys(ESCAPES, ("scored", "spoilt", 0.0))
    # Here the tests themselves are at fault, whatever the program does.
    rows = [{"id": "1", "output": program, "reference": "assert Named().map(lambda one: one)\n"}]
    assert [r.outcome for r in evaluate("code-tests", rows, sandbox="process").results] == ["failed"]


@pytest.mark.rotating("templates", "templates", "runner")
@pytest.mark.parametrize("sandbox", ["wasm", "process"])
def test_loops_and_bombs_fail_their_row_alone_and_are_told_as_what_they_are(sandbox: str) -> None:
    programs = {name: text for name, (text, _) in HOGS.items()}
    found = scored(sandbox, {**programs, "honest": HONEST}, {"test": SECRET, "entry_point": "f"}, timeout=8)
    for name, (_, labels) in HOGS.items():
        assert (found[name].outcome, found[name].score) == ("scored", 0.0), found[name]
        assert found[name].label in labels, found[name]
    assert found["honest"].label == "passed"


STEERS = {
    "map": ("StopIteration", "assert all(map(lambda c: f(c[0]) == c[1], [(1, 2)]))\n"),
    "zip": ("StopIteration", "for a, b in zip(map(f, [1, 2]), [1, 2]):\n    assert a == b\n"),
    "sum": ("StopIteration", "assert sum(map(f, [1, 2])) == 0\n"),
    "filter": ("StopIteration", "assert not list(filter(f, [1, 2]))\n"),
    "next": ("StopIteration", "assert next(map(f, [1, 2]), 7) == 7\n"),
    "iter": ("StopIteration", "for x in iter(lambda: f(1), 3):\n    assert x == 2\n"),
    "yield from": ("StopIteration", "def g(): yield from map(f, [1])\nassert all(x == 2 for x in g())\n"),
    "a class of its own": ("Own", "assert sum(map(f, [1, 2])) == 0\n"),
    "getattr": (
        "AttributeError",
        "class B:\n    @property\n    def ok(self): return f(1) == 2\nassert getattr(B(), 'ok', True)\n",
    ),
    "in": ("IndexError", "class B:\n    def __getitem__(self, i): return f(i)\nassert 5 not in B()\n"),
    "a loop by index": (
        "IndexError",
        "class B:\n    def __getitem__(self, i): return f(i)\nassert all(x == 2 for x in B())\n",
    ),
    "a mapping's default": (
        "KeyError",
        "from collections.abc import Mapping\nclass B(Mapping):\n    def __getitem__(self, i): return f(i)\n"
        "    def __iter__(self): return iter(())\n    def __len__(self): return 0\nassert B().get(1, 7) == 7\n",
    ),
    "a length as a hint": (
        "TypeError",
        "class B:\n    def __len__(self):\n        assert f(1) == 2\n        return 0\n"
        "    def __iter__(self): return iter(())\nassert list(B()) == []\n",
    ),
    "close": (
        "GeneratorExit",
        "def g():\n    try: yield 1\n    finally: assert f(1) == 2\na = g()\nnext(a)\na.close()\n",
    ),
    "async for": (
        "StopAsyncIteration",
        "import asyncio\nclass A:\n    def __aiter__(self): return self\n    async def __anext__(self): return f(1)\n"
        "async def main():\n    async for x in A(): assert x == 2\nasyncio.run(main())\n",
    ),
    "a helper": ("ValueError", "def h(): return f(1)\nassert h() is None\nfor x in [1]:\n    assert not h()\n"),
    "a thread": (
        "SystemExit",
        "import threading\nbad = []\ndef w():\n    if f(1) != 2: bad.append(1)\n"
        "t = threading.Thread(target=w)\nt.start()\nt.join()\nassert not bad\n",
    ),
}


@pytest.mark.rotating("templates", "templates", "process")
@pytest.mark.parametrize("score", ["all", "share"])
def test_no_exception_of_a_program_steers_its_tests(score: str) -> None:
    rows = [
        {"id": name, "output": f"class Own(StopIteration): pass\ndef f(*a): raise {error}\n", "reference": tests}
        for name, (error, tests) in STEERS.items()
    ]
    found = evaluate("code-tests", rows, sandbox="process", mapping=InputMapping(literals={"score": score})).results
    # Where the share counts, the assert after the thread holds.
    expected = {**dict.fromkeys(STEERS, 0.0), **({"a thread": 0.5} if score == "share" else {})}
    assert {r.id: (r.outcome, r.score) for r in found} == {name: ("scored", one) for name, one in expected.items()}
    for result in found:
        assert STEERS[result.id][0] in str(result.explanation), result


TESTS = {
    "exceptions that tests name": (
        "class Box:\n    def __iter__(self): return self\n    def __next__(self): raise StopIteration\n"
        "def f(n):\n    if n == 1: raise KeyError(n)\n    if n == 2: raise IndexError\n    return Box()\n"
        "def g(x): return x.no\n",
        "import pytest\ntry:\n    f(1)\n    assert False\n"
        "except LookupError as e:\n    assert type(e).__name__ == 'KeyError'\n"
        "with pytest.raises(IndexError): f(2)\nwith pytest.raises(AttributeError): g(1)\n"
        "assert next(f(3), 7) == 7 and not hasattr(f(3), 'no') and getattr(f(3), 'no', 8) == 8\n",
    ),
    "what is async, or yields": (
        "def f(n): return n + 1\n",
        "import unittest\nasync def test_f(): assert f(1) == 2\n"
        "class TestF(unittest.IsolatedAsyncioTestCase):\n    async def asyncSetUp(self): self.n = f(2)\n"
        "    async def test_f(self): self.assertEqual(self.n, 3)\n",
    ),
    "a loop that ends with an answer": ("def f(n): return n < 3\n", "n = 0\nwhile f(n):\n    n += 1\nassert n == 3\n"),
    "loops that need answers": (
        "def f(n):\n    return n // 2\n",
        "n = 40\nsteps = 0\nwhile n > 0:\n    n = f(n)\n    steps += 1\nassert steps == 6\n",
    ),
    "helpers of the program": ("def f(x): return 2 * x\ndef half(x): return x // 2\n", "assert half(f(21)) == 21\n"),
    "arguments that it changes": (
        "def f(x):\n    x.sort()\n    x.append(9)\n",
        "a = [3, 1]\nassert f(a) is None\nassert a == [1, 3, 9]\n",
    ),
    "all kinds of values": (
        "def f(x): return x\n",
        "from decimal import Decimal\nfor x in [{1: (2, 3)}, {1, 2}, b'a', 1 << 80, -0.0, 1j, range(3), None, 'é', "
        "Decimal('1.5'), frozenset([1]), float('inf')]:\n    assert f(x) == x and type(f(x)) is type(x)\n",
    ),
    "iterators": (
        "def f(n):\n    while True: yield n\n",
        "from itertools import islice\nassert list(islice(f(2), 3)) == [2, 2, 2]\n",
    ),
    "objects of its own": (
        "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n"
        "    def __add__(self, o): return P(self.x + o.x)\n    def twice(self): return P(2 * self.x)\n"
        "    def __repr__(self): return f'P({self.x})'\n    def __iter__(self): return iter([self.x])\n",
        "p = P(1)\nassert isinstance(p, P)\nassert p.twice().x == 2\nassert p + p == P(2)\nassert p != 1\np.x = 5\n"
        "assert p.x == 5 and repr(P(3)) != '' and str(P(3)) == 'P(3)' and list(p) == [5] and 5 in p\n",
    ),
    "unittest": (
        "def f(n):\n    if n < 0: raise ValueError('no')\n    return n\n",
        "import unittest\nfrom solution import f\nclass TestF(unittest.TestCase):\n    def setUp(self): self.n = 3\n"
        "    def test_f(self): self.assertEqual(f(self.n), 3)\n"
        "    def test_e(self):\n        with self.assertRaises(ValueError): f(-1)\n",
    ),
    "fixtures": (
        "def f(n): return n / 3\n",
        "import pytest\nimport solution\n@pytest.fixture\ndef n():\n    yield 1\n"
        "def test_f(n): assert solution.f(n) == pytest.approx(0.3333333)\n"
        "@pytest.mark.skip\ndef test_g(): assert False\n",
    ),
    "try and except": (
        "def f(n): raise KeyError(n)\n",
        "try:\n    f(1)\n    assert False\nexcept KeyError as e:\n    assert '1' in str(e)\n",
    ),
}


@pytest.mark.rotating("templates", "templates", "process")
@pytest.mark.parametrize(
    "test", ["async def test_f(): assert f(1) == 2", "def test_f():\n    yield\n    assert f(1) == 2"]
)
def test_a_test_that_is_async_or_yields_is_run(test: str) -> None:
    rows = [{"output": "def f(n): return 0\n", "reference": f"def test_g(): assert f(2) == 0\n{test}\n"}]
    (found,) = evaluate("code-tests", rows, sandbox="process").results
    assert (found.label, found.score) == ("failed", 0.0)
    assert "test_f, line" in str(found.explanation)


@pytest.mark.rotating("templates", "templates", "process")
@pytest.mark.parametrize("score", ["all", "share"])
def test_tests_of_many_kinds_pass_and_a_program_that_does_nothing_fails_them(score: str) -> None:
    nothing = "def f(*a): return object()\nP = half = f\n"
    rows = [
        (f"{name}, {kind}", text, tests)
        for name, (good, tests) in TESTS.items()
        for kind, text in (("good", good), ("bad", nothing))
    ]
    data = [{"id": name, "output": text, "reference": tests} for name, text, tests in rows]
    found = evaluate("code-tests", data, sandbox="process", mapping=InputMapping(literals={"score": score})).results
    for result in found:
        assert result.outcome == "scored", result
        assert (result.score == 1.0) is result.id.endswith("good"), result
