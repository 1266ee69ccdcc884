"""What a script leaves for a later row: nothing, also when it got hold of the process that holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import templates
from runner.inputs.evaluators.program import program
from runner.inputs.evaluators.resolve import find_evaluator
from sandboxes import Call
from sandboxes.base import Isolation, Script
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from sandboxes.reach import reach
from tests.process.conftest import LIMITS, run
from tests.sandboxes.hostile.scripts import scripts
from tests.scripts import python

pytestmark = pytest.mark.rotating("hostile", "process")

LEFT = {script.name: script.source for script in scripts(Path(__file__).parent / "hostile", ("left",), bare=True)}


async def told(tier: Tier, isolation: Isolation, author: str | None) -> dict[str, list[Any]]:
    """What each script returns for rows that share no state."""
    found: dict[str, list[Any]] = {}
    async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1, isolation=isolation)) as sandbox:
        sandbox.warn = lambda text: None
        for name, source in LEFT.items():
            loaded = await sandbox.load(Script(source, "python", "evaluate", author), LIMITS)
            for _ in range(3):
                rows = [each async for each in loaded.run([Call(id=0), Call(id=1)], LIMITS)]
                each = rows if isolation == "call" else rows[:1]
                found.setdefault(name, []).extend(row.value if row.error is None else row.error.message for row in each)
            await loaded.close()
    return found


@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize("author", [None, ""], ids=["read", "unread"])
def test_no_row_learns_of_another(tier: Tier, isolation: Isolation, author: str | None) -> None:
    """`unread`: nobody has looked at the source, so that only what is seen from outside keeps the rows apart."""
    found = run(told(tier, isolation, author))
    assert {name: values for name, values in found.items() if any(value != values[0] for value in values)} == {}


REACHING = {
    "sys._getframe().f_back": "import sys\nsys._getframe()",
    "an identifier in other letters": "x = print\nx.__\U0001d4fcelf__",
    "a name that is imported": "from sys import _getframe as g",
    "a pattern": "match print:\n    case object(__self__=x): pass",
    "text": "x = '{0.__self__}'",
    "a computed name": "getattr(print, '__se' + 'lf__')",
    "a name as an argument": "from operator import attrgetter\nattrgetter('a.__self__')",
    "a function that takes names": "list(map(getattr, [print], ['x']))",
    "limits": "import resource as r\nr.setrlimit(7, (30, 64))",
    "modules by computed names": "import sys\nsys.modules['pick' + 'le'].loads(b'')",
    "ctypes of an array": "import numpy\nnumpy.zeros(1).ctypes",
    "code": "exec('1')",
    "evaluated": "eval('1')",
    "a pickle": "from joblib import load",
    "all names": "from sys import *",
    "a method that others call": "class R:\n    def __reduce__(self): return print, ()",
    "another class": "import os\nos.__class__ = int",
    "what cannot be read": "def (",
}

PLAIN = """
import ctypes, gc, json, logging, operator, os, re, sys, traceback
from dataclasses import dataclass, field
from typing import Any

query, code, trace, vars_ = "a", "b", "c", {}
pattern = re.compile("a|b")
gc.collect()
model = type("Model", (), {"eval": lambda self: self})().eval()
name = getattr(os, "name", None)

@dataclass(slots=True)
class Part:
    __hash__ = None
    text: str = field(default="x")
    def __post_init__(self): self.text = self.text.strip()
    def __eq__(self, other): return self.__class__ is other.__class__

class Own(dict):
    def __getattr__(self, name): return self[name]
    def __init__(self, **given): super().__init__(**given)

def evaluate(output):
    try:
        return {"score": 1.0, "label": type(output).__name__, "explanation": f"{output!r}: {query}"}
    except ValueError as error:
        print(traceback.format_exc(), error.__traceback__, file=sys.stderr)
if __name__ == "__main__":
    print(sorted([Part()], key=operator.attrgetter("text")))
"""


def test_what_reaches_further_is_read_in_the_source() -> None:
    found = {name: reach(python(source), "call") for name, source in REACHING.items()}
    assert [name for name, word in found.items() if not word] == []


def test_with_batches_a_script_stays_loaded() -> None:
    assert [reach(python(source), "batch") for source in REACHING.values()] == [""] * len(REACHING)


def test_usual_scripts_stay_loaded() -> None:
    assert reach(python(PLAIN), "call") == ""
    for name in templates.names():
        if "python" in templates.languages(name):
            assert reach(program(find_evaluator(name)), "call") == "", name


def test_a_copy_of_a_template_counts_as_its_copier_s() -> None:
    assert reach(python(templates.source("code-tests")), "call") != ""


async def test_the_run_says_what_reaches_too_far() -> None:
    said: list[str] = []
    async with ProcessSandbox(ProcessConfig(jobs=1, isolation="call")) as sandbox:
        sandbox.warn = said.append
        await sandbox.load(python("import pickle\ndef evaluate(): return pickle\n"), LIMITS)
    assert [text for text in said if "tier" not in text] == [
        "by pickle the script could reach the process that holds it, so it is loaded again for each row; "
        'do without it, or choose SandboxConfig(isolation="batch"), to be faster'
    ]
