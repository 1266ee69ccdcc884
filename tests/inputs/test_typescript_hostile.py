"""TypeScript made to break the parser, or to hold it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import MAX_SOURCE
from tests.inputs.parsing import parsed

pytestmark = pytest.mark.rotating("hostile", "scripts")


def repeated(text: str, before: str = "", after: str = "") -> str:
    left = MAX_SOURCE - len(before.encode()) - len(after.encode())
    return before + text * (left // len(text.encode())) + after


HOSTILE = {
    "open brackets": repeated("("),
    "brackets": "(" * 130_000 + ")" * 130_000,
    "blocks": repeated("{"),
    "open template": repeated("a", "`"),
    "quotes": repeated("'"),
    "generics": repeated("a<"),
    "calls with types": repeated("a<b>("),
    "conditions": repeated("a?"),
    "ifs": repeated("if(a)"),
    "yields": repeated("yield ", "function* a() {"),
    "types": repeated("(", "type A = "),
    "open comments": repeated("/*\n"),
    "what the parser guesses at": repeated("function<await;as", "type A="),
    "html comments": repeated("= : this <!-- ", "a?"),
    "casts": repeated(" as a", "export default a"),
    "wrapped": "export default " + "(" * 120_000 + "({ a }) => 1" + ")" * 120_000,
    "names": "".join(f"const a{n} = a{n + 1};" for n in range(12_000)),
    "near misses": "".join(f"function evalute{n}() {{}}\n" for n in range(9_000)),
    "variances": repeated("interface A<in T> {}\n"),
    "tags": repeated("\\u", "a`"),
    "interfaces": "".join(f"interface A{n} extends A{n + 1} {{ a{n}: 1 }}\n" for n in range(6_000)),
    "keys": repeated("a,", "function evaluate({", "}) {}"),
    "one long line": repeated("x=1;", "", "@"),
}


PLAIN = b"const a = f(1);\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_source_brings_the_parser_down_or_holds_it(name: str) -> None:
    # In a process of its own, as the failure would be a segmentation fault.
    source = HOSTILE[name].encode()
    assert len(source) <= MAX_SOURCE
    program = (
        "import sys, time\nfrom runner.core.errors import EvaluatorError\n"
        "from runner.inputs.evaluators.load import parse_evaluator\n"
        "import runner.inputs.evaluators.typescript.signature, tree_sitter, tree_sitter_typescript\n"
        "def spent(source):\n"
        "    before, length = time.process_time(), 0\n"
        "    try: parse_evaluator(source, 'x', language='typescript')\n"
        "    except EvaluatorError as e: length = len(str(e))\n"
        "    return length, time.process_time() - before\n"
        "source = sys.stdin.buffer.read()\n"
        f"print(spent({PLAIN!r} * (len(source) // {len(PLAIN)}))[1], *spent(source))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], input=source, capture_output=True, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert ran.returncode == 0, ran.stderr[-300:]
    plain, length, spent = ran.stdout.split()
    assert int(length) < 500
    assert float(spent) < 10 * float(plain), "beside a harmless source of this length, on whatever machine"


@given(st.text(max_size=60) | st.binary(max_size=60) | st.text("(){}[]<>=,:;'\"`$/*\\.?!abc =>\n", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_source_is_an_evaluator_or_refused(source: str | bytes) -> None:
    try:
        parsed(source, "typescript")
    except EvaluatorError as error:
        str(error).encode()
