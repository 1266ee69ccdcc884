"""A function as an evaluator: what of its file comes with it, and what cannot."""

from __future__ import annotations

import functools
import importlib.util
import json
import linecache
import math
import re
import string as letters
import sys
import xml.etree.ElementTree
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, wraps
from itertools import count
from pathlib import Path
from random import random
from string import punctuation
from types import ModuleType
from typing import Any

import pytest

from runner import EvaluatorError, InputMapping, SandboxConfig, check_examples, evaluate, parity, read_evaluator
from runner.inputs.evaluators.functions.read import read_function

ONE = SandboxConfig(jobs=1)
ROWS = [{"output": "Four", "reference": "four"}]


def scores(function: Callable[..., Any], rows: list[dict[str, Any]] = ROWS, **more: Any) -> list[float | None]:
    report = evaluate(function, rows, sandbox=ONE, **more)
    assert not report.summary.errors, report.summary.errors
    return [result.score for result in report.results]


# what comes with it

FACTOR = 2
WORDS = {"four", "five"}
NESTED = {"a": [1, (2.5, None)], "b": {True: b"\x00"}, "far": math.inf}
SPLIT = re.compile(r"\s+")
Pair = namedtuple("Pair", ["left", "right"])
log = __import__("logging").getLogger(__name__)


class Kind(Enum):
    SAME = 1
    OTHER = 2


DEFAULT = Kind.OTHER


@dataclass(frozen=True)
class Settings:
    weight: float = 0.5

    def of(self, kind: Kind) -> float:
        return self.weight * kind.value


SETTINGS = Settings(weight=4)


def normal(text: str) -> str:
    return "".join(c for c in text.lower() if c not in punctuation)


@cache
def parts(text: str) -> tuple[str, ...]:
    return tuple(SPLIT.split(normal(text)))


def twice(function: Callable[..., float]) -> Callable[..., float]:
    @wraps(function)
    def inner(*args: Any, **keywords: Any) -> float:
        return FACTOR * function(*args, **keywords)

    return inner


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n > 0 and even(n - 1)


def uses_much(output: str, reference: str, *, weight: float = SETTINGS.weight) -> float:
    log.debug("a row")
    pair = Pair(parts(output), parts(reference))
    kind = Kind.SAME if pair.left == pair.right else DEFAULT
    assert xml.etree.ElementTree.fromstring("<a/>").tag == "a"
    assert 0 <= random() < 1
    assert letters.digits.startswith("0")
    assert NESTED["far"] > 1 and NESTED["a"][1] == (2.5, None)  # type: ignore[index, operator]  # noqa: PT018
    assert even(4) and not odd(4)  # noqa: PT018
    return SETTINGS.of(kind) + weight + len(WORDS) + Counter(output)["F"]


@twice
def decorated(output: str) -> float:
    return len(output)


async def awaited(output: Any) -> float:
    return len(output)


def test_a_function_comes_with_what_it_uses_in_its_file() -> None:
    assert scores(uses_much) == [uses_much("Four", "four")] == [4 + 4 + 2 + 1]
    assert scores(decorated) == [8]
    assert scores(awaited) == [4]


def test_the_script_holds_nothing_else() -> None:
    source = read_function(decorated).source
    assert [line for line in source.splitlines() if line.startswith(("def ", "@", "class ", "evaluate"))] == [
        "def twice(function: Callable[..., float]) -> Callable[..., float]:",
        "@twice",
        "def decorated(output: str) -> float:",
        "evaluate = decorated",
    ]
    assert "pytest" not in source
    assert "FACTOR = 2" in source


def test_lines_in_messages_are_those_of_the_file() -> None:
    def breaks(output: str) -> float:
        return 1 / (len(output) - 4)

    [result] = evaluate(breaks, ROWS, sandbox=ONE).results
    assert result.error is not None
    assert result.error.message == f"ZeroDivisionError: division by zero (line {breaks.__code__.co_firstlineno + 1})"


def test_parameters_bind_as_those_of_a_script_do() -> None:
    def answer(output: str, wanted: str, *, bonus: float = 1) -> float:
        return (output == wanted) + bonus

    mapping = InputMapping(paths={"wanted": "gold"}, literals={"bonus": 3})
    assert scores(answer, [{"output": "a", "gold": "a"}], mapping=mapping) == [4]
    with pytest.raises(ValueError, match=r"no column for `wanted`; .* call evaluate\(answer, rows"):
        evaluate(answer, ROWS, sandbox=ONE)
    assert read_function(answer).name == "answer"


def test_values_around_a_function_come_with_it_if_they_are_data_or_functions() -> None:
    threshold, table = 3, {"Four": 4}

    def value(text: str) -> int:
        return table[text]

    def again(n: int) -> int:
        return 0 if n == 0 else 1 + again(n - 1)

    def inside(output: str) -> float:
        """
        Text that stands further left than its function.
        """
        return threshold + value(output) + again(2)

    assert scores(inside) == [9]


def test_a_lambda_with_source() -> None:
    assert scores(lambda output: len(output)) == [4]
    short, long = (lambda output: 1), (lambda output, reference: 2)
    assert scores(short) + scores(long) == [1, 2]
    weight = 5
    found = scores(
        lambda output, k=2: (
            k
            * weight
        )
    )  # fmt: skip
    assert found == [10]
    outer: Callable[[], Callable[[str], float]] = lambda: lambda output: 7  # noqa: E731
    assert scores(outer()) == [7]
    assert read_function(short).name == "lambda"


def test_every_door_takes_a_function() -> None:
    def length(output: str) -> float:
        return len(output)

    assert check_examples(length, [{"output": "ab", "expected": {"score": 2}}], sandbox=ONE).passed == 1
    assert parity(length, ROWS, other=lambda output: 4, sandboxes=[ONE, ONE]).same == 1


@pytest.mark.rotating("long tests", "scripts")
def test_the_same_function_has_the_same_version() -> None:
    code = "from tests.inputs.test_functions import *; print(read_function(uses_much).version)"
    assert read_function(uses_much).version == read_function(uses_much).version
    other = [__import__("subprocess").check_output([sys.executable, "-c", code], text=True).strip() for _ in range(2)]
    assert len({*other}) == 1


# files and notebooks


def module(path: Path, source: str, name: str = "mine") -> ModuleType:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


HEADED = """\
# /// script
# [tool.evalcell]
# output = {kind = "continuous", direction = "minimize", threshold = 3}
# ///
import json


def evaluate(output):
    return len(json.dumps(output))


if __name__ == "__main__":
    print(evaluate("x"))
"""


def test_evaluate_of_a_file_is_the_evaluator_of_the_file(tmp_path: Path) -> None:
    own = module(tmp_path / "mine.py", HEADED)
    found, file = read_function(own.evaluate), read_evaluator(tmp_path / "mine.py")
    assert (found.name, found.outputs) == ("mine", file.outputs)
    assert found.source.splitlines()[7:9] == HEADED.splitlines()[7:9]


def test_a_header_for_others_is_left_out(tmp_path: Path) -> None:
    other = HEADED.replace("[tool.evalcell]\n# output =", "[tool.other]\n# output =")
    assert read_function(module(tmp_path / "a.py", other).evaluate).outputs == {}
    helper = module(tmp_path / "b.py", HEADED + "\n\ndef second(output):\n    return 1\n").second
    assert read_function(helper).outputs == {}


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    own = module(tmp_path / "mine.py", "def first(output):\n    return 1\n")
    (tmp_path / "mine.py").write_text("\n\n\ndef second(output):\n    return 2\n")
    linecache.checkcache()
    with pytest.raises(EvaluatorError, match=r"mine.py:1 does not define `first` any more; import it again"):
        read_function(own.first)


@pytest.fixture
def cell() -> Iterator[Callable[[str], dict[str, Any]]]:
    """Run a cell as IPython does: with its source in linecache, in the names of the notebook."""
    names: dict[str, Any] = {"__name__": "__main__", "In": [""]}
    files: list[str] = []

    def run(source: str) -> dict[str, Any]:
        file = f"/tmp/ipykernel_1/{len(names['In'])}.py"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        files.append(file)
        names["In"].append(source)
        exec(compile(source, file, "exec"), names)
        return names

    yield run
    for file in files:
        linecache.cache.pop(file, None)


def test_a_function_of_a_notebook_uses_other_cells(cell: Callable[[str], dict[str, Any]]) -> None:
    cell("import re, json as j\nfrom random import random\nfrom math import sqrt as root\n")
    cell("WORDS = ['a']\nclass Box:\n    def __init__(self, n):\n        self.n = n\n")
    cell("def helper(text):\n    return Box(len(text))\n")
    cell("WORDS.append('b')\nPATTERN = re.compile('[a-z]+')\n")
    names = cell(
        "def score(output):\n    assert PATTERN.search(output) and random() < 1\n"
        "    return helper(output).n + len(WORDS) + len(j.dumps(root(4)))\n"
    )
    assert scores(names["score"]) == [4 + 2 + 3]
    names = cell("def helper(text):\n    return Box(100)\n")
    assert scores(names["score"]) == [105]


# packages


def test_packages_are_declared_as_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    np = pytest.importorskip("numpy")

    def mean(output: list[float]) -> float:
        from packaging.version import Version

        assert Version("1") < Version("2")
        return float(np.mean(output))

    assert set(read_function(mean).packages) == {"numpy", "packaging"}
    assert read_function(mean, packages=True).packages == ()
    scale = np.float32(0.5)
    assert scores(lambda output: output * scale, [{"output": 4}]) == [2]
    with pytest.raises(ValueError, match=r"packages \(.*numpy.*\), which the wasm sandbox cannot install"):
        evaluate(mean, [{"output": [1.0, 2.0]}], sandbox="wasm")


# what cannot be carried

stream = open(__file__)  # noqa: SIM115
numbers = count()
mutable = Counter("abc")


class Model:
    def score(self, output: str) -> float:
        return 1

    def __call__(self, output: str) -> float:
        return 1


model = Model()


def uses_model(output: str) -> float:
    return model.score(output)


def calls_one_that_does(output: str) -> float:
    return uses_model(output)


def uses_file(output: str) -> str:
    return stream.read()


def uses_counter(output: str) -> float:
    return next(numbers) + mutable["a"]


def uses_ours(output: str) -> float:
    return len(read_function(lambda output: 1).source)


def around() -> Callable[[str], float]:
    held = Model()
    return lambda output: held.score(output)


def bare(function: Callable[[str], float]) -> Callable[[str], float]:
    def inner(output: str) -> float:
        return function(output)

    return inner


@bare
def below_bare(output: str) -> float:
    return 1


@functools.partial
def below_partial(output: str) -> float:
    return 1


HUGE = ["x" * 1000] * 200


def uses_huge(output: str) -> float:
    return len(HUGE)


_prompt: dict[str, Any] = {}
exec("def typed(output):\n    return 1\nnameless = lambda output: 1\n", _prompt)


def uses_place(output: str) -> str:
    return __file__


def counting() -> Callable[[str], int]:
    seen = 0

    def inner(output: str) -> int:
        nonlocal seen
        seen += 1
        return seen

    return inner


REFUSED: dict[str, tuple[Any, str]] = {
    "object": (uses_model, "`uses_model` uses `model`, a live object (Model)"),
    "object of a helper": (calls_one_that_does, "`uses_model` uses `model`, a live object (Model)"),
    "file": (uses_file, "a live object (TextIOWrapper)"),
    "counter": (uses_counter, "`uses_counter` uses `mutable`, a live object (Counter)"),
    "closure": (around(), "the lambda uses `held`, a live object (Model)"),
    "method": (model.score, "`score` is a method of an object, which stays here; write a function"),
    "plain method": (Model.score, "`score` is a method of the class `Model`; write a function"),
    "callable object": (model, "`Model` makes objects that can be called"),
    "class": (Model, "`Model` is a class; write a function that uses it"),
    "built in": (len, "`len` is built in and has no source; write a function that calls it"),
    "partial": (functools.partial(decorated, output="x"), "`decorated` is a partial; pass the function"),
    "decorator": (below_bare, "put @functools.wraps(function) above the inner function of the decorator"),
    "decorated by a class": (below_partial, "is a partial"),
    "typed at a prompt": (_prompt["typed"], "the source of the function `typed` is not known"),
    "lambda without source": (_prompt["nameless"], "the source of the function `<lambda>` is not known"),
    "huge": (uses_huge, "`HUGE` is more than 128 KB of data, too much for a script; save it to a file"),
    "place": (uses_place, "`uses_place` uses `__file__`, and a sandbox does not have that file"),
    "nonlocal": (counting(), "`inner` changes a variable of the function around it"),
    "ours": (uses_ours, "`uses_ours` needs the module 'runner'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_is_named_with_the_next_step(name: str) -> None:
    function, words = REFUSED[name]
    with pytest.raises(EvaluatorError) as caught:
        evaluate(function, ROWS, sandbox=ONE)
    message = str(caught.value)
    assert words in message
    assert ";" in message
    assert message.isprintable()


def test_modules_of_ones_own_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_helpers.py").write_text("def helper(text):\n    return 1\nLIMIT = 3\n")
    own = module(
        tmp_path / "a.py", "from own_helpers import helper, LIMIT\ndef f(output):\n    return helper(output)\n"
    )
    with pytest.raises(EvaluatorError, match="`f` needs the module 'own_helpers', which is a file of yours"):
        read_function(own.f)
    data = module(tmp_path / "b.py", "from own_helpers import LIMIT\ndef f(output):\n    return LIMIT\n").f
    assert scores(data) == [3]
    relative = module(tmp_path / "c.py", "def f(output):\n    from . import x\n    return 1\n").f
    with pytest.raises(EvaluatorError, match="a relative import"):
        read_function(relative)


def test_an_own_name_for_evaluate_is_refused(tmp_path: Path) -> None:
    source = "def evaluate(x):\n    return 1\n\n\ndef mine(output):\n    return evaluate(output)\n"
    with pytest.raises(EvaluatorError, match="`mine` uses something else that is named `evaluate`"):
        read_function(module(tmp_path / "a.py", source).mine)


def test_a_row_may_be_json(tmp_path: Path) -> None:
    def depth(output: Any) -> float:
        return 1 + max((depth(inner) for inner in output), default=0) if isinstance(output, list) else 0

    assert scores(depth, [{"output": json.loads("[[1],[[2]]]")}]) == [3]
