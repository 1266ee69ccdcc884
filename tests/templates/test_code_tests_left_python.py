"""The template `code-tests` in Python: what the tests of a row leave behind reaches no other row."""

from __future__ import annotations

from typing import Any

import pytest

from runner import SandboxConfig, evaluate
from runner.core.types import Result
from sandboxes import SandboxUnavailableError
from sandboxes.base import Isolation
from templates.parts.quiet import leaves_nothing

RIGHT = "def f(n): return 7919"
WRONG = "def f(n): return 0"
# Each leaves something by which the wrong program passes the tests beside it.
LEFT: dict[str, tuple[str, str]] = {
    "a patched module": (
        "import math\nf(1)\nmath.isclose = lambda *a, **k: True",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
    "a patched built-in": ("import builtins\nf(1)\nbuiltins.abs = lambda n: 0", "assert abs(f(3) - 7919) == 0"),
    "a new built-in": ("import builtins\nf(1)\nbuiltins.helped = 7919", "assert f(3) + helped == 7919"),
    "a module": (
        "import sys, types\nf(1)\nsys.modules['helpers'] = types.SimpleNamespace(g=lambda n: True)",
        "f(3)\nimport helpers\nassert helpers.g(f(3))",
    ),
    "a method of a class": (
        "import unittest\nf(1)\nunittest.TestCase.assertEqual = lambda *a: None",
        "import unittest\nclass TestF(unittest.TestCase):\n    def test_f(self): self.assertEqual(f(3), 7919)",
    ),
    "a trace": (
        "import sys\nf(1)\n"
        "def trace(frame, event, arg):\n"
        "    if frame.f_code.co_name == 'patched': frame.f_globals['wanted'] = 0\n"
        "sys.settrace(trace)",
        "wanted = 7919\ndef patched(): return wanted\npatched()\nassert f(3) == wanted",
    ),
    "a variable": (
        "import os\nf(1)\nos.environ['WANTED'] = '0'",
        "import os\nassert f(3) == int(os.environ['WANTED'])",
    ),
    "a context": (
        "import decimal\nf(1)\ndecimal.getcontext().prec = 1",
        "import decimal\nassert decimal.Decimal(f(3)) + decimal.Decimal('7.96') == 8",
    ),
    "a thread": (
        "import threading, time, math\nf(1)\n"
        "def late():\n    time.sleep(0.01)\n    math.isclose = lambda *a, **k: True\n"
        "threading.Thread(target=late, daemon=True).start()",
        "import math, time\ntime.sleep(0.05)\nassert math.isclose(f(3), 7919)",
    ),
    "a handler of a signal": (
        "import signal\nf(1)\nsignal.signal(signal.SIGALRM, lambda *a: None)",
        "import signal\nassert f(3) == 0 and signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL",
    ),
    "a limit": (
        "import sys\nf(1)\nsys.setrecursionlimit(777)",
        "import sys\nassert f(3) + sys.getrecursionlimit() == 777",
    ),
    "a patch by its name": (
        "f(1)\nsetattr(__import__('math'), 'isclose', lambda *a, **k: True)",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
    "a patch in a class": (
        "import math\nclass T:\n    def put(self): self.isclose = lambda *a, **k: True\nf(1)\nT.put(math)",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
    "a patch of what reads the tests": (
        "import ast, builtins, math\nf(1)\nmath.isclose = lambda *a, **k: True\n"
        "builtins.all = lambda *a: True\nast.walk = lambda tree: []",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
    "a patch by a pattern": (
        "import json\nf(1)\nclass E:\n    def encode(self, x): return ''\n"
        "match json.dumps:\n    case object(__globals__=g): g['JSONEncoder'] = lambda **k: E()",
        "import json\nassert json.dumps(f(3), indent=1) == json.dumps(7919, indent=1)",
    ),
    "a patch of a module that an error names": (
        "import re\nf(1)\nclass M:\n    def isclose(a, b): return True\n"
        "try: re.nothing\nexcept AttributeError as e: e.obj.enum.sys.modules['math'] = M",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
    "a patch by a copy": (
        "import copy, json\nf(1)\ndef fake(self, x): return ''\nclass T:\n"
        "    def __reduce__(self): return (lambda: json.JSONEncoder, (), (None, {'encode': fake}))\ncopy.copy(T())",
        "import json\nassert json.dumps(f(3), indent=1) == json.dumps(7919, indent=1)",
    ),
    "a patch of a test": (
        "import math\ndef test_f():\n    math.isclose = lambda *a, **k: True\n    assert f(3) == 7919",
        "import math\nassert math.isclose(f(3), 7919)",
    ),
}


def row(name: str, output: str, reference: object, **more: object) -> dict[str, Any]:
    return {"id": name, "output": output, "reference": reference, **more}


def scored(
    rows: list[dict[str, Any]], backend: str, isolation: Isolation, mapping: dict[str, str] | None = None
) -> dict[str, Result]:
    config = SandboxConfig(backend=backend, isolation=isolation, jobs=1)
    try:
        found = {str(one.id): one for one in evaluate("code-tests", rows, sandbox=config, mapping=mapping).results}
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    assert {name: one.error for name, one in found.items() if one.outcome != "scored"} == {}
    return found


@pytest.mark.rotating("templates", "templates", "process")
@pytest.mark.parametrize(("backend", "isolation"), [("process", "batch"), ("process", "call"), ("wasm", "batch")])
def test_what_tests_leave_reaches_no_other_row(backend: str, isolation: Isolation) -> None:
    left = {
        name: LEFT[name] for name in LEFT if backend == "process" or name not in ("a thread", "a handler of a signal")
    }
    rows: list[dict[str, Any]] = []
    for name, (leaves, expects) in left.items():
        rows += [row(f"{name}, left", RIGHT, leaves), row(name, WRONG, expects)]
    found = scored(rows, backend, isolation)
    assert {name: found[name].score for name in left} == dict.fromkeys(left, 0.0)
    assert {found[f"{name}, left"].label for name in left} == {"passed"}


def test_a_prompt_leaves_nothing_to_another_row() -> None:
    prompt = "import math\nmath.isclose = lambda *a, **k: True\nwanted = 7919\n"
    tests = {"test": "assert f(3) == wanted", "entry_point": "f", "prompt": prompt}
    rows = [row("left", RIGHT, tests), row("wrong", WRONG, "import math\nassert math.isclose(f(3), 7919)")]
    found = scored(rows, "process", "batch")
    assert {name: one.score for name, one in found.items()} == {"left": 1.0, "wrong": 0.0}


def test_what_tests_reach_by_a_name_of_the_prompt_is_no_more_theirs() -> None:
    leaves = "f(1)\nclass M:\n    def isclose(a, b): return True\nr.enum.sys.modules['math'] = M"
    rows = [
        row("left", RIGHT, {"test": leaves, "prompt": "import re as r\n"}),
        row("wrong", WRONG, "import math\nassert math.isclose(f(3), 7919)"),
    ]
    found = scored(rows, "process", "batch")
    assert {name: one.score for name, one in found.items()} == {"left": 1.0, "wrong": 0.0}


def test_a_module_of_an_earlier_row_stands_for_its_program_no_more() -> None:
    rows = [
        row("first", RIGHT, "from first import f\nassert f(3) == 7919", module="first"),
        row("second", WRONG, "f(3)\nimport first\nassert first.f(3) == 7919", module="second"),
    ]
    found = scored(rows, "process", "batch", {"module": "module"})
    assert {name: one.score for name, one in found.items()} == {"first": 1.0, "second": 0.0}


PLAIN = [
    "assert f(3) == 7",
    "def check(c):\n    import math\n    assert math.fabs(c(1) - 2) < 1e-6\n",
    "import copy, random\nseen = [random.Random(42).randint(1, 2)]\nseen.append(1)\nassert f(copy.copy(seen)) == 1\n",
    "import pytest\nfrom solution import f\n@pytest.mark.parametrize('n', [1])\ndef test_f(n):\n"
    "    with pytest.raises(ValueError): f(n)\n",
    "import unittest\nfrom solution import *\nclass TestF(unittest.TestCase):\n    def setUp(self): self.n = 1\n"
    "    def test_f(self): self.assertEqual(f(self.n), 2)\n",
    "d = {}\nd['a'] = 1\nassert f(d) == 1",
    "class Count:\n    def __init__(self): self.n = 0\n    def __eq__(self, o): return self.n == o\n"
    "    def add(self): self.n += 1\nc = Count()\nc.add()\nassert f(1) == c\nif __name__ == '__main__':\n    f(2)\n",
    "match f(1):\n    case str() | [1, *_] | {'a': _}: pass",
    "def check(string): return string == string[::-1]\nassert check(f(1))",
]
DOUBTFUL = [
    *(leaves for leaves, _ in LEFT.values()),
    *("().__class__", "import random\nm = random", "import re\n[re]", "from fractions import sys", "sys.modules"),
    *("x = vars(math)", "def g():\n    yield\ng().gi_frame", "import json\njson.decoder.x", "from math import *"),
    *("for math.pi in [3]: pass", "with f(1) as math.pi: pass", "del math.pi", "math.pi += 1", "exec('1')"),
    *("from operator import attrgetter", "import string\nstring.Formatter()", "from collections import abc"),
    *("import functools\nfunctools.wraps(f)(g)", "from unittest import TestCase\nx = TestCase"),
    "from unittest import TestCase\nTestCase.x = 1",
    "class T:\n    def a(self):\n        self = f\n        self.x = 1",
    "def g(os=os): return os\ng().environ.clear()",
    "def g():\n    def h(os): return os\n    return os",
    "def g(n, os):\n    global os\n    return os",
    "class T:\n    @staticmethod\n    def a(n): n.x = 1",
    "class T:\n    def a(self):\n        def g(self): self.x = 1\n        g(f)",
    "class T:\n    def a(self):\n        import math as self\n        self.pi = 1",
    "class T:\n    def a(self):\n        try: f(1)\n        except E as self: self.x = 1",
    "class T:\n    def a(self):\n        match f(1):\n            case self: self.x = 1",
    "x = T\nclass T:\n    def a(n): n.x = 1\nx.a(f)",
    "class T:\n    def a(n): n.x = 1\n    a(f)",
    "class T:\n    class U:\n        def a(n): n.x = 1\nT.U.a(f)",
    "class T:\n    def a(n): n.x = 1\n    @classmethod\n    def b(cls): cls.a(f)\nT().b()",
    "import re as x\nx.enum.y\nimport json as x",
    "class P:\n    __match_args__ = ('__class__',)",
    "match f(1):\n    case P(1): pass",
]


@pytest.mark.parametrize("tests", PLAIN)
def test_plain_tests_are_known_to_leave_nothing(tests: str) -> None:
    assert leaves_nothing(tests, "solution")


@pytest.mark.parametrize("tests", DOUBTFUL)
def test_what_may_leave_something_is_not_taken_for_plain(tests: str) -> None:
    assert not leaves_nothing(tests, "solution")
