"""Errors of JavaScript that stands in a config, and of scripts beside our parts, have the script's own lines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runner import evaluate
from runner.core.types import Evaluator
from runner.inputs.evaluators.foreign.guest import ENTRY, javascript_program
from runner.inputs.evaluators.foreign.types import INLINE
from runner.inputs.evaluators.inline import read_inline
from sandboxes import Call, Execution, Limits, SandboxConfig, create
from tests.scripts import typescript

ROW = {"output": "a", "reference": "b"}
CODE = {
    "const x = 1;\nif (output) {\n  nope(x);\n}\nreturn 1;": ("ReferenceError: nope is not defined", 3),
    "output.nope.more": ("TypeError: Cannot read properties of undefined (reading 'more')", 1),
    "  output.nope.more;  ": ("TypeError: Cannot read properties of undefined (reading 'more')", 1),
    "const x = output; x.nope()": ("TypeError: x.nope is not a function", 1),
    "const f = () => {\n  throw new Error('no');\n};\nreturn f();": ("Error: no", 2),
    "return Promise.resolve(1).then(() => {\n  throw new Error('late');\n});": ("Error: late", 2),
    "const x = 1;\nif (output {\n  nope(x);\n}\nreturn 1;": ("SyntaxError: Unexpected token '{'", 2),
    "(output == )": ("SyntaxError: Unexpected token ')'", 1),
    "const x = 1;\n\nreturn await x;": ("SyntaxError: await is only valid in async functions", 3),
    "return 1;\n}\nfunction other() {": ("SyntaxError: Unexpected token 'function'", None),
    "const x = '{{ expected }}';\nreturn x.nope.more;": ("TypeError: Cannot read properties of undefined", 2),
    "const x = '{{ expected }}';\nreturn x..;": ("SyntaxError: Unexpected token '.'", 2),
}


def said(evaluator: Evaluator | Path) -> str:
    (found,) = evaluate(evaluator, [ROW], sandbox=SandboxConfig(backend="deno"), max_failed="100%").results
    assert found.error is not None, found
    return found.error.message


@pytest.mark.parametrize("code", CODE)
def test_inline_code_has_its_own_lines(code: str) -> None:
    message, line = CODE[code]
    found = said(read_inline(code, language="typescript"))
    assert found.startswith(message)
    assert line is None or found.endswith(f"(line {line})")


def test_inline_code_is_not_strict() -> None:
    code = "x = 010;\nreturn x === 8 && this !== undefined;"
    (found,) = evaluate(read_inline(code, language="typescript"), [ROW], sandbox="deno").results
    assert found.label == "pass", found


def stack_of(program: str) -> Execution:
    async def called() -> Execution:
        async with create(SandboxConfig(backend="deno", jobs=1)) as sandbox:
            loaded = await sandbox.load(typescript(program, ENTRY), Limits())
            (found,) = [e async for e in loaded.run([Call(id=0, arguments=ROW)], Limits())]
            return found

    return asyncio.run(called())


def test_stacks_have_no_frame_of_ours() -> None:
    code = "const inner = () => {\n  nope();\n};\nconst outer = () => {\n  inner();\n};\nreturn outer();"
    error = stack_of(javascript_program("promptfoo", INLINE, code)).error
    assert error is not None
    assert error.traceback.splitlines() == [
        "ReferenceError: nope is not defined",
        "    at inner (evaluator.ts:2:3)",
        "    at outer (evaluator.ts:5:3)",
        "    at eval (evaluator.ts:7:8)",
    ]


@pytest.mark.parametrize("suffix", [".ts", ".cjs"])
def test_a_script_of_a_dialect_has_its_own_lines(suffix: str, tmp_path: Path) -> None:
    script = tmp_path / f"assert{suffix}"
    exported = "module.exports =" if suffix == ".cjs" else "export default"
    script.write_text(f"const own = () => {{\n  nope();\n}};\n{exported} (output, context) => own();\n")
    assert said(script) == "ReferenceError: nope is not defined (line 2)"


def test_python_s_line_is_said_once() -> None:
    (found,) = evaluate(read_inline("x = 1\nif output\n    x\nreturn x"), [ROW], max_failed="100%").results
    assert found.error is not None
    assert found.error.message == "the script does not load: SyntaxError: expected ':' (line 2)"
