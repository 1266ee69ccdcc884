"""
The runners of Langfuse, Opik and SandboxFusion, and SkyRL's client, beside `evalcell serve`: scores and messages.

`make test-vendors` runs this. `EVALCELL_VENDOR_CLONES` names a folder with clones of their repositories; what is not
there is skipped. What Langfuse's dispatcher would refuse of a runner's reply is refused here at once, so that such a
row is told why.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.inputs.foreign.vendors.environment import HERE, TIME, clone, node, python
from tests.server.http.served import Served
from tests.server.http.test_langfuse import PYTHON as SHAPES
from tests.server.http.test_langfuse import TYPESCRIPT as TYPED
from tests.server.http.test_langfuse import asked
from tests.server.protocols.test_opik import RULES
from tests.server.protocols.test_run_code import JAVASCRIPT

RUNNERS = "62751446149b:scripts/code-eval-runners"
INVOKE = "/v1/langfuse/lambda/2015-03-31/functions/any/invocations"


def returning(*scores: str) -> list[str]:
    return [f"def evaluate(ctx):\n    return {{'scores': [{one}]}}\n" for one in scores]


def giving(*scores: str) -> list[str]:
    return [f"function evaluate(ctx: any) {{ return {{ scores: [{one}] }}; }}" for one in scores]


PYTHON = [
    SHAPES,
    *returning(
        "{'name': 'a', 'value': 1}",
        "{'name': 'a', 'value': 0.5, 'dataType': 'NUMERIC', 'comment': None, 'configId': None}",
        "{'name': 'a', 'value': 'x', 'dataType': 'CATEGORICAL', 'configId': 'c'}",
        "{'name': 'a', 'value': 'x', 'data_type': 'CATEGORICAL', 'config_id': 'c'}",
        "{'name': 'a', 'value': 'x', 'data_type': None, 'dataType': 'TEXT'}",
        "{'name': 'a', 'value': 'x', 'data_type': 'CATEGORICAL', 'dataType': 'TEXT'}",
        *(f"{{'name': 'a', 'value': {one}, 'dataType': 'BOOLEAN'}}" for one in ("True", "0", "'TRUE'", "'0'", "1.0")),
        "Score(True, 'a', data_type='BOOLEAN', metadata={'data_type': 1, 'x': [None]})",
        "Score(1, 'a', comment='é😀', config_id='c'), Score('b', 'b')",
        "{'name': 'a', 'value': 1, 'more': 2}",
        "{'name': 'a', 'value': 1, 'metadata': {'when': object}}".replace(
            "object", "__import__('decimal').Decimal('1.5')"
        ),
        "{'name': ctx.observation.input, 'value': str(ctx.experiment.item_expected_output)}",
        "{'name': 'a', 'value': ctx.observation.tool_calls[0].name + ctx.observation.tool_calls[0].type}",
        "{'name': 'a', 'value': ctx.observation.tool_calls[0].index}",
    ),
    "async def evaluate(ctx):\n    return EvaluationResult([Score(1, 'a')])\n",
    "class E:\n    def __call__(self, ctx):\n        return EvaluationResult([Score(1, 'a')])\n\nevaluate = E()\n",
    "evaluate = lambda ctx: {'scores': [{'name': 'a', 'value': 1}]}\n",
    'import json\n\ndef evaluate(ctx):\n    return json.loads(\'{"scores": [{"name": "a", "value": 1}]}\')\n',
    *(f"def evaluate(ctx):\n    return {one}\n" for one in ("None", "1", "'x'", "[]", "{}", "{'scores': 1}", "True")),
    "def evaluate(ctx):\n    return {'scores': ({'name': 'a', 'value': 1},)}\n",
    "def evaluate(ctx):\n    raise ValueError('no')\n",
    "def evaluate(ctx):\n    raise ValueError\n",
    "def evaluate(ctx):\n    return {}['k']\n",
    "def deep(x):\n    return 1 / x\n\ndef evaluate(ctx):\n    return deep(0)\n",
    "async def evaluate(ctx):\n    raise KeyError('k')\n",
    "class MyError(Exception):\n    pass\n\ndef evaluate(ctx):\n    raise MyError('é')\n",
    "def evaluate(ctx, other):\n    return 1\n",
    "def evaluate():\n    return 1\n",
    "def evaluate(ctx):\n    return ctx.nothing\n",
    "def evaluate(ctx):\n    return ctx.observation.nothing\n",
    "def evaluate(ctx):\n    import no_such_module\n",
    "x = 1\n",
    "",
    "evaluate = 1\n",
    "1 / 0\n",
    "def evaluate(ctx)\n    pass\n",
    "x = (\n",
    "raise RuntimeError('at the top')\n",
    "import no_such_module\n",
]
TYPESCRIPT = [
    TYPED,
    *giving(
        "{ name: 'a', value: 1 }",
        "{ name: 'a', value: 'x', dataType: 'CATEGORICAL', configId: 'c' }",
        "{ name: 'a', value: 'x', dataType: 'TEXT', metadata: { a: [1] }, comment: 'é' }",
        *(f"{{ name: 'a', value: {one}, dataType: 'BOOLEAN' }}" for one in ("true", "0", "'True'", "'1'")),
        "{ name: ctx.observation.input, value: ctx.experiment.itemExpectedOutput }",
        "{ name: 'a', value: ctx.observation.toolCalls[0].name }",
        "{ name: 'a', value: ctx.observation.toolCalls.length }",
        "{ name: 'a', value: 1, comment: undefined }",
    ),
    "const evaluate = async (ctx: { observation: unknown }) => ({ scores: [{ name: 'a', value: 1 as number }] });",
    "class E { static run() { return { scores: [{ name: 'a', value: 1 }] }; } }\nconst evaluate = E.run;",
    *(f"function evaluate() {{ return {one}; }}" for one in ("null", "1", "'x'", "[]", "{}", "undefined")),
    "function evaluate() { throw new Error('no'); }",
    "function evaluate() { throw new TypeError('no'); }",
    "function evaluate() { throw new Error(); }",
    "function evaluate() { throw new RangeError(); }",
    "function evaluate() { throw 'text'; }",
    "function evaluate() { throw 1; }",
    "function evaluate() { return null.x; }",
    "async function evaluate() { await 1; throw new Error('later'); }",
    "class MyError extends Error { name = 'MyError'; }\nfunction evaluate() { throw new MyError('own'); }",
    "const other = 1;",
    "",
    "const evaluate = 1;",
    "throw new Error('at the top');",
    "null.x;",
    "function evaluate( {",
]
UNLIKE = {
    "def evaluate(ctx):\n    return ctx.nothing\n": (
        "AttributeError: no 'nothing': there are observation, experiment (line 2)"
    ),
    "def evaluate(ctx):\n    return ctx.observation.nothing\n": (
        "AttributeError: no 'nothing': there are input, output, metadata, tool_calls (line 2)"
    ),
    TYPED: None,  # its runner takes no `export`, and the same evaluator should run by evalcell's command as well
    "function evaluate( {": "Failed to prepare evaluator source: SyntaxError: Expected ',', got 'const'",
}
"""What is said in other words, or works, where theirs says less. See docs/how-to/langfuse.md."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    found = Served(tmp_path_factory.mktemp("state"))
    try:
        with found.client() as client:
            for source, language in ((SHAPES, "PYTHON"), (TYPED, "TYPESCRIPT")):
                client.post(INVOKE, json=asked(source, language))  # the first ones may come too late
            yield client
    finally:
        found.end()


def copy(folder: Path, repository: str, at: str) -> None:
    command = ["git", "-C", str(clone(repository)), "-c", "safe.directory=*", "show", at]
    (folder / Path(at).name).write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)


def read(command: Sequence[str | Path], bodies: Sequence[Any]) -> list[Any]:
    text = "".join(json.dumps(body) + "\n" for body in bodies)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIME)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def normal(reply: Any) -> Any:
    """A reply as Langfuse stores it: booleans as 1 and 0, nothing where there is null."""
    if not isinstance(reply, dict) or "error" in reply or not reply.get("scores"):
        return reply
    found = []
    for score in reply["scores"]:
        one = {name: value for name, value in score.items() if value is not None}
        if one.get("dataType") == "BOOLEAN":
            one["value"] = int(str(one["value"]).lower() in ("true", "1", "1.0"))
        found.append(one)
    return {"scores": found}


def differences(
    sources: list[str], language: str, theirs: list[Any], served: httpx.Client
) -> list[tuple[str, Any, Any]]:
    found = []
    for source, said in zip(sources, theirs, strict=True):
        own = served.post(INVOKE, json=asked(source, language)).json()
        if source in UNLIKE:
            assert own.get("error", {}).get("message") == UNLIKE[source]
            assert UNLIKE[source] is None or own["error"]["code"] == said["error"]["code"]
        elif normal(own) != normal(said):
            found.append((source, normal(said), normal(own)))
    return found


@pytest.mark.timeout(900)
def test_python_is_as_langfuse_s_own_runner_has_it(served: httpx.Client, tmp_path: Path) -> None:
    copy(tmp_path, "langfuse/langfuse", f"{RUNNERS}/python/code_based_eval_handler.py")
    loop = (
        "import json, sys\nfrom code_based_eval_handler import handler\nfor line in sys.stdin:\n"
        "    print(json.dumps(handler(json.loads(line), None)))\n"
    )
    (tmp_path / "loop.py").write_text(loop)
    theirs = read([sys.executable, tmp_path / "loop.py"], [asked(source) for source in PYTHON])
    assert differences(PYTHON, "PYTHON", theirs, served) == []


@pytest.mark.timeout(900)
def test_typescript_is_as_langfuse_s_own_runner_has_it(served: httpx.Client, tmp_path: Path) -> None:
    copy(tmp_path, "langfuse/langfuse", f"{RUNNERS}/node/code-based-eval-handler.mjs")
    loop = (
        'import { createInterface } from "node:readline";\n'
        'import { handler } from "./code-based-eval-handler.mjs";\n'
        "for await (const line of createInterface({ input: process.stdin }))\n"
        "  console.log(JSON.stringify(await handler(JSON.parse(line))));\n"
    )
    (tmp_path / "loop.mjs").write_text(loop)
    program = node("aws-lambda") / "bin" / "node"
    theirs = read([program, tmp_path / "loop.mjs"], [asked(source, "TYPESCRIPT") for source in TYPESCRIPT])
    assert differences(TYPESCRIPT, "TYPESCRIPT", theirs, served) == []


@pytest.mark.timeout(900)
def test_skyrl_s_own_client_sees_what_a_program_did(served: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "coder1").mkdir()
    for name in ("sandboxfusion_exec.py", "utils.py"):
        at = f"HEAD:skyrl-agent/skyrl_agent/tasks/verifiers/coder1/{name}"
        copy(tmp_path / "coder1", "NovaSky-AI/SkyRL", at)
    programs: list[tuple[str, str | None, int]] = [
        ("print(int(input()) * 2)", "21\n", 30),
        ("print('a')\n1 / 0", None, 30),
        ("while True:\n    pass\n", None, 2),
        ("import time\ntime.sleep(3)\nprint('b')", None, 4),
        ("x = b'x' * 2**40", None, 30),
        ("x = (", None, 30),
    ]
    address = str(served.base_url).rstrip("/") + "/run_code"
    told = read([sys.executable, HERE / "oracles" / "skyrl_client.py", tmp_path, address], programs)
    assert [ran for ran, _, _ in told] == [True, False, False, True, False, False]
    assert [tries for _, _, tries in told] == [[seconds + 2] for *_, seconds in programs]  # each had its answer
    assert (told[0][1], told[3][1]) == ("42\n", "b\n")
    failed = [said for ran, said, _ in told if not ran]
    assert all(said.startswith("Failed to execute program: STDOUT:\n") for said in failed), failed
    assert "a\n" in failed[0]
    assert "ZeroDivisionError" in failed[0]
    assert ["MemoryError" in said or "memory" in said for said in failed] == [False, False, True, False]


HEAD = "from opik.evaluation.metrics import base_metric, score_result\nfrom opik.evaluation.metrics import *\n"
SCORE = "score_result.ScoreResult"


def rule(returned: str, parameters: str = "self, **_", before: str = "", after: str = "") -> str:
    """A metric that returns this."""
    body = f"    def score({parameters}):\n{before and f'        {before}{chr(10)}'}        return {returned}\n"
    begin = "class Own(base_metric.BaseMetric):\n    def __init__(self):\n        super().__init__('own')\n"
    return HEAD + begin + body + after


LOGGED = {"output": "Paris", "input": {"q": ["é"]}, "reference": "Paris"}
SAID = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
ONE = f"{SCORE}('n', 1)"
OPIK: list[tuple[str, Any, str | None]] = [
    *(
        (rule(f"{SCORE}('n', {value})"), LOGGED, None)
        for value in ("1", "0", "0.5", "-1e300", "True", "False", "10**20", "None", "1, None", "1, 'why é😀'", "1, ''")
    ),
    *(
        (rule(f"{SCORE}('n', 1, {more})"), LOGGED, None)
        for more in ("scoring_failed=True", "scoring_failed=False", "metadata={'a': 1}", "category_name='c'")
    ),
    *((rule(value), LOGGED, None) for value in ("None", "1", "'text'", "[]", "{}", f"({ONE},)", f"iter([{ONE}])")),
    (rule(f"[{ONE}, 1, None, {SCORE}('m', 0)]"), LOGGED, None),
    (rule(f"[{SCORE}('n', None), {SCORE}('m', 0, scoring_failed=True)]"), LOGGED, None),
    (rule(f"[{SCORE}('n', None), {SCORE}('m', 0)]"), LOGGED, None),
    (rule(f"{SCORE}(self.name, output == reference)", "self, output, reference"), LOGGED, None),
    (rule(f"{SCORE}(self.name, output == reference)", "self, output, reference, **more"), LOGGED, None),
    (rule(f"{SCORE}('n', output is None)", "self, output"), {}, None),
    (rule(f"{SCORE}('n', output is None and b == 2)", "self, output, *, a, b=2"), {"a": 1}, None),
    (rule(ONE, "self, output, spans"), {"output": 1}, None),
    (rule(f"{SCORE}('n', len(spans))", "self, output, spans"), {"output": 1, "spans": [1, 2]}, None),
    (rule(ONE, "self, output, /"), {"output": 1}, None),
    (rule(ONE, "this, output"), {}, None),
    (rule(f"{SCORE}('n', len(data))", "self, data"), SAID, "trace_thread"),
    (rule(f"{SCORE}('n', len(data))", "self, data, more=None"), [], "trace_thread"),
    (rule(ONE, "self"), SAID, "trace_thread"),
    (rule("1 / 0"), LOGGED, None),
    (rule("self.nothing"), LOGGED, None),
    (rule("deep(20)", after="def deep(n):\n    return deep(n - 1) if n else {}['k']\n"), LOGGED, None),
    (rule(ONE, before="raise ValueError('a') from KeyError('b')"), LOGGED, None),
    (rule(ONE, before="raise ValueError('a') from None"), LOGGED, None),
    (rule(ONE, before="raise ExceptionGroup('g', [ValueError('a'), KeyError('b')])"), LOGGED, None),
    (
        rule(
            "f(9)",
            after="def f(n):\n    try:\n        return f(n - 1) if n else {}['k']\n    except Exception as e:\n"
            "        raise ValueError(n) from e\n",
        ),
        LOGGED,
        None,
    ),
    (rule(ONE) + "class Before(base_metric.BaseMetric):\n    def score(self, **_):\n        return 1\n", LOGGED, None),
    (rule(ONE) + "class Zed(Own):\n    pass\n", LOGGED, None),
    (rule(ONE) + "class Apart(Own):\n    pass\n", LOGGED, None),
    (HEAD + "class Own(base_metric.BaseMetric):\n    pass\n", LOGGED, None),
    (HEAD + "class Own(Equals):\n    pass\n", LOGGED, None),
    (HEAD, LOGGED, None),
    ("", LOGGED, None),
    ("x = 1", LOGGED, None),
    ("x = (", LOGGED, None),
    ("def f(:\n  pass", LOGGED, None),
    ("1 / 0", LOGGED, None),
    ("import no_such_module", LOGGED, None),
]
"""The code of a rule, its data, and its type."""


def plain(answer: list[Any]) -> list[Any]:
    """An answer without what differs where nothing is amiss: frames of other lines, fields that Opik's Java drops."""
    status, body = answer
    if "error" in body:
        return [
            status,
            re.sub(r'\n +File "(?!<string>).*?(?=\n  File "<string>|$)', "", body["error"], flags=re.DOTALL),
        ]
    names = ("name", "value", "reason", "scoring_failed")
    return [status, [{name: score.get(name) for name in names} for score in body["scores"]]]


@pytest.mark.timeout(900)
def test_rules_are_as_opik_s_own_backend_has_them(served: httpx.Client) -> None:
    folder = clone("comet-ml/opik") / "apps" / "opik-python-backend" / "src" / "opik_backend"
    command: list[str | Path] = [python("opik"), HERE / "oracles" / "opik_backend.py", folder]
    bodies = [{"code": code, "data": data} | ({"type": kind} if kind else {}) for code, data, kind in OPIK]
    bodies += [{"code": 1, "data": {}}, {"data": {}}, {"code": "x"}]
    theirs = read(command, bodies)
    until, found = time.monotonic() + TIME, []
    while (reply := served.post(RULES, json=bodies[0])).status_code in (503, 504):
        assert time.monotonic() < until, reply.text  # it is being installed
    for body, said in zip(bodies, theirs, strict=True):
        reply = served.post(RULES, json=body)
        own = plain([reply.status_code, reply.json()])
        if own != plain(said):
            found.append((body.get("code"), plain(said), own))
    assert not found, "\n\n".join(f"{code}\ntheirs: {said}\nours:   {own}" for code, said, own in found)


TYPES = {
    "enums": (
        "enum Color { Red = 'r', Green = 'g' }\nenum N { A, B = 5, C }\nconsole.log(Color.Green, N.C, N[5]);",
        None,
    ),
    "const enums": ("const enum E { A = 1 }\nconsole.log(E.A);", None),
    "generics": (
        "function first<T extends { n: number }>(x: T[]): T { return x[0]!; }\nconsole.log(first([{ n: 1 }]));",
        None,
    ),
    "classes": (
        "abstract class A<T> { constructor(protected readonly x: T, public y = 2) {} abstract f(): T; }\n"
        "class B extends A<number> { #p = 3; static s = 4; f(): number { return this.x + this.y + this.#p + B.s; } }\n"
        "console.log(new B(1).f(), new B(1));",
        None,
    ),
    "namespaces": ("namespace Own { export const one: number = 1; }\nconsole.log(Own.one);", None),
    "satisfies": (
        "const x = { a: 1 } satisfies Record<string, number>;\nconsole.log(x.a!, (x as any).b?.c ?? 'none');",
        None,
    ),
    "overloads": ("function f(x: string): string;\nfunction f(x: any) { return x; }\nconsole.log(f('a'));", None),
    "imports": (
        "import util from 'util';\nimport { strict as assert } from 'assert';\nimport type { Duplex } from 'stream';\n"
        "assert(true);\nconsole.log(util.inspect({ a: [1n] }));",
        None,
    ),
    "sleeps": (
        "import util from 'util';\nconst sleep = util.promisify(setTimeout);\n"
        "async function main() { await sleep(5); console.log('late'); }\nmain();",
        None,
    ),
    "asserts": ('import assert from "assert";\nassert.strictEqual(1, 2, "1 !== 2");', None),
    "reads": (
        "process.stdin.on('data', (input: Buffer) => {\n  const n: number = parseInt(input.toString());\n"
        "  console.log(n);\n  process.exit();\n});",
        "65535",
    ),
    "reads lines": (
        "import * as readline from 'readline';\nconst rl = readline.createInterface({ input: process.stdin });\n"
        "const lines: string[] = [];\nrl.on('line', (l: string) => lines.push(l));\n"
        "rl.on('close', () => console.log(lines.map(Number).reduce((a, b) => a + b, 0)));",
        "20\n22\n",
    ),
    "wrong types": (
        "const x: number = 'a' as any as number;\nconst y: string = 1 as unknown as string;\nconsole.log(x, y);",
        None,
    ),
    "errors of types": ("const x: number = 'text';\nconsole.log(x);", None),
    "throws": (
        "class Own extends Error { constructor(public code: number) { super('bad'); } }\nthrow new Own(3);",
        None,
    ),
    "syntax": ("let x: = 1", None),
    "maps": (
        "console.log(new Map<string, number[]>([['a', [1]]]), new Set<number>([1]), [, 1], { f() {} }, Symbol('s'));",
        None,
    ),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("language", "programs"), [("nodejs", JAVASCRIPT), ("typescript", JAVASCRIPT | TYPES)])
def test_programs_end_as_by_sandbox_fusion_s_commands(
    served: httpx.Client, tmp_path: Path, language: str, programs: dict[str, tuple[str, str | None]]
) -> None:
    folder = node("sandbox-fusion")
    command = [folder / "bin" / "node"] + (
        [folder / "node_modules/tsx/dist/cli.mjs"] if language == "typescript" else []
    )
    found = []
    for name, (code, stdin) in programs.items():
        file = tmp_path / ("main.ts" if language == "typescript" else "main.js")
        file.write_text(code)
        theirs = subprocess.run([*command, file], input=stdin or "", capture_output=True, text=True, timeout=TIME)
        reply = served.post("/run_code", json={"code": code, "language": language, "stdin": stdin})
        run = reply.json()["run_result"]
        own = (run["return_code"], run["stdout"], bool(run["stderr"]))
        if own != (theirs.returncode, theirs.stdout, bool(theirs.stderr)):
            found.append((name, (theirs.returncode, theirs.stdout, theirs.stderr[-300:]), (*own, run["stderr"][-300:])))
    assert not found, "\n\n".join(f"{name}\ntheirs: {said}\nours:   {own}" for name, said, own in found)
