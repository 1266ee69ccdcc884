"""Scripts as evaluators: what is accepted, and how what is not is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core.errors import EvaluatorError
from runner.core.types import Parameter
from runner.inputs.evaluators.load import MAX_SOURCE, read_evaluator
from tests.inputs.parsing import GOOD, parsed, refusal


def names(source: str) -> list[str]:
    return [parameter.name for parameter in parsed(source).parameters]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def evaluate(a): pass", ["a"]),
        ("@cache\ndef evaluate(a): pass", ["a"]),
        ("evaluate = lambda output, k=1: k", ["output", "k"]),
        ("evaluate: Callable = lambda a: a", ["a"]),
        ("x = evaluate = lambda a: a", ["a"]),
        ("def score(a): pass\nevaluate = score", ["a"]),
        ("def evaluate(a): pass\ndef evaluate(b): pass", ["b"]),
        ("evaluate = None\ndef evaluate(b): pass", ["b"]),
        ("if x:\n def evaluate(a): pass\nelse:\n def evaluate(b): pass", ["b"]),
        ("try:\n import n\nexcept ImportError:\n def evaluate(a): pass", ["a"]),
        ("try:\n pass\nfinally:\n def evaluate(a): pass", ["a"]),
        ("with x:\n for y in z:\n  while y:\n   def evaluate(a): pass", ["a"]),
        ("match x:\n case 1:\n  def evaluate(a): pass", ["a"]),
        ("def evaluate(): pass", []),
        ("\f\ndef evaluate(a): pass\f\n", ["a"]),
        ("# coding: utf-8\ndef evaluate(ﬁ): pass", ["fi"]),
        ("#!/usr/bin/env python3\n# -*- coding: UTF8 -*-\n" + GOOD, ["output", "reference"]),
    ],
)
def test_accepted(source: str, expected: list[str]) -> None:
    assert names(source) == expected


def test_signature() -> None:
    evaluator = parsed("def evaluate(a, b=1, /, c=2, *d, e, f=3, **g): pass")
    assert evaluator.parameters == (
        Parameter(name="a", positional_only=True),
        Parameter(name="b", positional_only=True, required=False),
        Parameter(name="c", required=False),
        Parameter(name="e"),
        Parameter(name="f", required=False),
    )
    assert evaluator.accepts_any


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "x.py has no function `evaluate`; define `def evaluate(output, reference): …`"),
        ("def Evaluate(a): pass", "(line 1 defines `Evaluate`)"),
        ("\ndef evalute(a): pass", "(line 2 defines `evalute`)"),
        ("def score(a): pass", "`score(a)` likely scores a row: name it, `x.py:score`"),
        ("class A:\n def evaluate(self, output): pass", "(line 2 has one, inside the class `A`)"),
        ("def f():\n def evaluate(a): pass", "(it defines `f`)"),
        ("from m import evaluate", "x.py:1: the parameters of this `evaluate` cannot be seen"),
        ("import evaluate", "cannot be seen"),
        ("class evaluate: pass", "cannot be seen"),
        ("evaluate, x = f, 1", "cannot be seen"),
        ("evaluate = partial(f, 1)", "cannot be seen"),
        ("def f(a): pass\nf = g(f)\nevaluate = f", "cannot be seen"),
        ("evaluate = lambda a: 1\nevaluate += 1", "cannot be seen"),
        ("def evaluate(a)\n  pass", "x.py:1:16: expected ':'\n    def evaluate(a)\n                   ^"),
        ("# coding: latin-1\n" + GOOD, "x.py:1: the encoding is declared as 'latin-1'; save it as UTF-8"),
        ("\n# vim: set fileencoding=cp1252 :\n" + GOOD, "x.py:2: the encoding is declared as 'cp1252'"),
        ("a = 1\0", "a null byte at byte 6"),
        ("#" * (MAX_SOURCE + 1), "larger than 256 KB"),
        ("x = '\ud800'", "a lone surrogate"),
        (b"x = '\xff'", "not UTF-8 at byte 6"),
        (GOOD.encode("utf-16"), "is UTF-16"),
    ],
)
def test_refused(source: str | bytes, message: str) -> None:
    assert message in refusal(source)


@pytest.mark.parametrize(
    "source", ["def evaluate[T](a: T): pass", "type X = int\n" + GOOD, "class A[T]: pass\n" + GOOD]
)
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads it")
def test_newer_syntax_is_told(source: str) -> None:
    assert "Syntax newer than Python 3.11" in refusal(source)


def test_a_caret_stands_below_its_place() -> None:
    message = refusal("if x:\n\tdef evaluate(é, \x0c b) 1\n")
    _, excerpt, caret = message.split("\n")
    assert excerpt[caret.index("^")] == "1"
    long = refusal("x = " + "y" * 5000 + " z" + "y" * 5000)
    assert max(map(len, long.split("\n"))) < 120
    assert long.split("\n")[1][long.split("\n")[2].index("^")] == "z"


def test_version_and_source_do_not_depend_on_the_system() -> None:
    plain = parsed(GOOD)
    assert re.fullmatch("[0-9a-f]{12}", plain.version)
    for same in (GOOD.replace("\n", "\r\n"), GOOD.replace("\n", "\r"), "\ufeff" + GOOD, GOOD.encode()):
        assert (parsed(same).version, parsed(same).source) == (plain.version, GOOD)
    assert parsed(GOOD + "\n").version != plain.version


def test_description() -> None:
    assert parsed('"""Module."""\ndef evaluate(a):\n """Function."""').description == "Module."
    assert parsed('def evaluate(a):\n """Function."""').description == "Function."
    assert parsed("evaluate = lambda a: a").description == ""
    assert parsed('"\\ud800"\n' + GOOD).description == "\ufffd"
    header = '# /// script\n# [tool.evalcell]\n# description = "Header."\n# ///\n'
    assert parsed('"""Module."""\n' + header + GOOD).description == "Header."


NESTED = {
    "minus": "-" * 200_000 + "1",
    "tilde": "~" * 200_000 + "1",
    "brackets": "(" * 200_000,
    "closed brackets": "(" * 100_000 + ")" * 100_000,
    "lists": "[" * 99 + "]" * 99,
    "attributes": "a" + ".a" * 100_000,
    "calls": "a" + "()" * 100_000,
    "indexes": "a" + "[0]" * 80_000,
    "not": "not " * 50_000 + "1",
    "plus": "1+" * 120_000 + "1",
    "power": "1**" * 80_000 + "1",
    "elif": "if a: pass\n" + "elif a: pass\n" * 15_000,
    "short elif": "if a: pass\n" + "elif a: pass\n" * 1_000,
    "lambda": "lambda:" * 30_000 + "1",
    "conditions": "1 if a else " * 20_000 + "1",
    "blocks": "".join(" " * n + "if 1:\n" for n in range(99)) + " " * 99 + "0",
    "deep blocks": "".join(" " * n + "if 1:\n" for n in range(600)) + " " * 600 + "0",
    "f-strings": "f'{" * 40_000 + "1" + "}'" * 40_000,
    "format specs": "f'{1:" + "{1:" * 1000 + "}" * 1000 + "}'",
    "comprehensions": "[a " + "for a in a " * 20_000 + "]",
    "dicts": "{1:" * 60_000,
    "walrus": "(a:=" * 50_000,
    "await": "async def f():\n " + "await " * 40_000 + "x",
    "digits": "9" * 250_000,
    "hex digits": "0x" + "f" * 250_000,
    "decorators": "@a\n" * 80_000 + "def f(): 0",
    "patterns": "match a:\n case " + "a." * 60_000 + "b: 0",
    "unfinished": "f(a=" * 190,
    "imports": "import a" + ".a" * 100_000,
    "surrogates": "'" + "\\ud800" * 40_000 + "'",
}


@pytest.mark.rotating("hostile", "scripts")
@pytest.mark.parametrize("name", NESTED)
def test_no_source_brings_the_parser_down(name: str) -> None:
    # In a process of its own, as the failure would be a segmentation fault.
    source = NESTED[name]
    assert len(source) <= MAX_SOURCE
    program = (
        "import sys\nfrom runner.core.errors import EvaluatorError\n"
        "from runner.inputs.evaluators.load import parse_evaluator\n"
        "try: parse_evaluator(sys.stdin.buffer.read(), 'x')\nexcept EvaluatorError as e: print('refused', len(str(e)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=source.encode(),
        capture_output=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr[-300:]
    assert ran.stdout.startswith(b"refused")
    assert int(ran.stdout.split()[1]) < 500


@pytest.mark.rotating("long tests", "scripts")
@given(st.text(max_size=60) | st.binary(max_size=60))
@settings(max_examples=200)
def test_any_source_is_an_evaluator_or_refused(source: str | bytes) -> None:
    try:
        parsed(source)
    except EvaluatorError as error:
        str(error).encode()


def test_read_evaluator(tmp_path: Path) -> None:
    path = tmp_path / "my_score.py"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    evaluator = read_evaluator(path)
    assert (evaluator.name, evaluator.source) == ("my_score", GOOD)
    (tmp_path / "big.py").write_bytes(b"#" * (MAX_SOURCE + 1))
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "a.ts").write_text("export const evaluate = ({ a }) => 1;")
    assert read_evaluator(tmp_path / "a.ts").language == "typescript"
    for name, message in [
        ("my_scoer.py", "my_scoer.py (did you mean `my_score.py`?)"),
        ("json_distance.py", "(did you mean the template `json-distance`?)"),
        ("big.py", "larger than 256 KB"),
        ("folder.py", "is a folder without an evaluator.py or evaluator.ts; name a script in it"),
        ("", "is a folder without an evaluator.py or evaluator.ts; name a script in it"),
        ("a.js", "no script"),
        ("a.mts", "or a grader *.json; rename it to *.ts"),
        ("a.tsx", "or a grader *.json; JSX cannot be run"),
        ("a.cts", "rename it to *.cjs"),
        ("a.jsonl", "a.jsonl is a dataset by its name; name a script here, and the dataset after it"),
        ("a.txt", "an evaluator is a script named *.py (Python), *.ts or *.js (TypeScript), or a grader *.json"),
        ("a\0.py", "cannot be opened"),
        ("a\x1b[2J.py", r"no script "),
    ]:
        with pytest.raises(EvaluatorError) as caught:
            read_evaluator(tmp_path / name)
        assert message in str(caught.value)
        assert str(caught.value).isprintable()


@pytest.mark.skipif(not hasattr(__import__("os"), "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.py")
    with pytest.raises(EvaluatorError, match="is not a regular file"):
        read_evaluator(tmp_path / "x.py")


def test_the_published_recipes_are_evaluators() -> None:
    folder = Path(__file__).parents[3] / "shared" / "recipes"
    if not folder.is_dir():
        pytest.skip("the published recipes are not here")
    for path in folder.glob("*.py"):
        assert [p.name for p in read_evaluator(path).parameters][:2] == ["output", "reference"]
