"""TypeScript scripts with packages of npm, run in the sandbox: what they can do, and what no package can."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evalcell import SandboxConfig, evaluate
from runner.cli.main import cli
from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator, Result
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.program import program
from runner.inputs.evaluators.resolve import choose
from sandboxes.base import Call, Execution, Limits
from sandboxes.errors import UnsupportedConfigError
from sandboxes.registry import find
from tests.packages.npm_registry import NpmRegistry, serve

HEADER = "// /// script\n// dependencies = [{}]\n// ///\n"
ROWS = [{"output": text, "reference": "b"} for text in ("a", "b", "c")]


@pytest.fixture
def registry(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmRegistry]:
    """
    One that the user's own .npmrc names, beside this machine's own for the bundler; a test is skipped without one.
    """
    pytest.importorskip("deno")
    with serve() as made:
        (tmp_path / ".npmrc").write_text(f"@t:registry={made.url}/\n")
        monkeypatch.chdir(tmp_path)
        # The names of esbuild's packages are in no scope of the test's.
        yield made


def run(source: str, *packages: str, rows: Any = ROWS, more: tuple[str, ...] = (), **settings: Any) -> list[Result]:
    head = HEADER.format(", ".join(f'"{one}"' for one in packages)) if packages else ""
    wanted = parse_evaluator(head + source, "mine", "mine.ts", language="typescript")
    try:
        return [*evaluate(wanted, rows, sandbox=SandboxConfig(packages=more, jobs=1, **settings)).results]
    except Exception as e:
        if "registry cannot be reached" in str(e) or "esbuild" in str(e):
            pytest.skip(f"no registry of npm that has esbuild: {e}")
        raise


def message(result: Result) -> str:
    assert result.error is not None, result
    return result.error.message


EVERY = """
export const evaluate = ({ output }: { output: string }) => ({ score: same(output, "b") ? 1 : 0, label: kind });
"""


@pytest.mark.parametrize(
    "imports",
    [
        'import { same, kind } from "@t/same";',
        'import { same, kind } from "npm:@t/same@1";',
        'import all from "@t/same";\nconst { same, kind } = all;',
        'import * as all from "@t/same";\nconst { same, kind } = all;',
        'const { same, kind } = await import("@t/same");',
        'import { same } from "@t/same";\nimport { kind } from "@t/same/kind.js";',
        'import { same as s, type Word, kind } from "@t/same";\nconst same: (a: Word, b: Word) => boolean = s;',
    ],
    ids=["named", "with a version", "default", "all", "later", "a part", "renamed"],
)
@pytest.mark.parametrize("form", ["esm", "cjs"])
def test_a_package_is_imported(registry: NpmRegistry, imports: str, form: str) -> None:
    if form == "esm":
        registry.add(
            "@t/same",
            files={
                "index.js": 'export * from "./kind.js";\nexport const same = (a, b) => a === b;\n'
                'import { kind } from "./kind.js";\nexport default { same, kind };\n',
                "kind.js": 'export const kind = "k";\n',
            },
            type="module",
        )
    else:
        registry.add(
            "@t/same",
            files={
                "index.js": 'exports.same = (a, b) => a === b;\nexports.kind = require("./kind.js").kind;\n',
                "kind.js": 'exports.kind = "k";\n',
            },
        )
    found = run(imports + EVERY, "npm:@t/same")
    assert [(one.score, one.label) for one in found] == [(0, "k"), (1, "k"), (0, "k")], found


def test_nothing_of_a_package_outlives_a_call(registry: NpmRegistry) -> None:
    registry.add(
        "@t/count",
        files={
            "index.js": "let count = 0;\nexports.next = () => ++count;\n"
            "exports.pollute = () => { Object.prototype.seen = (Object.prototype.seen ?? 0) + 1; return ({}).seen; };\n"
        },
    )
    source = 'import { next, pollute } from "@t/count";\nexport const evaluate = () => next() * 10 + pollute();\n'
    assert [one.score for one in run(source, "npm:@t/count", isolation="call")] == [11, 11, 11]


ATTACKS = {
    "fetch": ('exports.go = () => fetch("http://127.0.0.1:8001/");', "a TypeScript script has no network"),
    "net": ('exports.go = () => require("net").connect(1, "127.0.0.1");', "a script in a sandbox has no node:net"),
    "fs": ('exports.go = () => require("fs").readFileSync("/etc/passwd", "utf8");', "no node:fs.readFileSync"),
    "child": ('exports.go = () => require("node:child_process").execSync("id");', "no node:child_process.execSync"),
    "deno": ('exports.go = () => Deno.readTextFileSync("/etc/passwd");', "Deno.readTextFileSync is not a function"),
    "worker": ('exports.go = () => new Worker("data:,");', "Worker is not defined"),
    "late": ('exports.go = () => import(["node:", "fs"].join(""));', "not available in the sandbox"),
    "eval": ("exports.go = () => (0, eval)(\"import('node:fs')\");", "not available in the sandbox"),
    "binding": ('exports.go = () => process.binding("fs");', "binding is not a function"),
    "builtin": ('exports.go = () => globalThis.process.getBuiltinModule("fs");', "undefined"),
}


@pytest.mark.parametrize("attack", [*ATTACKS])
def test_a_package_reaches_nothing(registry: NpmRegistry, attack: str) -> None:
    text, why = ATTACKS[attack]
    registry.add("@t/bad", files={"index.js": f"{text}\n"})
    source = 'import { go } from "@t/bad";\nexport const evaluate = async () => String(await go());\n'
    for one in run(source, "npm:@t/bad"):
        assert one.outcome == "failed"
        assert why in message(one)


def test_a_package_sees_no_variable(registry: NpmRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "s3cret")
    registry.add("@t/env", files={"index.js": "exports.all = () => JSON.stringify([process.env, process.cwd()]);\n"})
    source = 'import { all } from "@t/env";\nexport const evaluate = () => all();\n'
    assert {one.label for one in run(source, "npm:@t/env")} == {'[{},"/"]'}


def test_a_package_takes_in_no_file_of_the_machine(registry: NpmRegistry, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"secret": 1}')
    registry.add("@t/takes", files={"index.js": f'exports.got = require("{tmp_path}/mine.json");\n'})
    source = 'import { got } from "@t/takes";\nexport const evaluate = () => JSON.stringify(got);\n'
    with pytest.raises(UnsupportedConfigError, match=r"takes in .*mine\.json, which is no file of a package"):
        run(source, "npm:@t/takes")


def test_what_a_package_lacks_is_told(registry: NpmRegistry) -> None:
    registry.add("@t/esm", files={"index.js": "export const same = 1;\n"}, type="module")
    registry.add("@t/peer", files={"index.js": 'require("@t/absent");\n'})
    with pytest.raises(UnsupportedConfigError, match="@t/esm exports no 'other'; import a name that it has"):
        run('import { other } from "@t/esm";\nexport const evaluate = () => other;\n', "npm:@t/esm")
    with pytest.raises(
        UnsupportedConfigError, match=r"@t/peer imports '@t/absent', .* declare it, too, as 'npm:@t/absent'"
    ):
        run('import p from "@t/peer";\nexport const evaluate = () => p;\n', "npm:@t/peer")


def test_an_import_that_is_not_declared_proposes_the_line(registry: NpmRegistry) -> None:
    source = 'import { same } from "@t/same";\nexport const evaluate = ({ output }) => same(output);\n'
    with pytest.raises(
        EvaluatorError, match=r"mine:1: '@t/same' is a package that is not declared: begin .* \[\"npm:@t/same\"\]"
    ):
        run(source)
    with pytest.raises(
        EvaluatorError, match=re.escape('write `// dependencies = ["npm:@t/o", "npm:@t/same"]` into its')
    ):
        run(source, "npm:@t/o")
    registry.add("@t/same", files={"index.js": 'exports.same = (a) => a === "b";\n'})
    assert [one.label for one in run(source, more=("npm:@t/same",))] == ["false", "true", "false"]


def test_a_run_is_repeated_from_its_lock_and_without_a_registry(registry: NpmRegistry, tmp_path: Path) -> None:
    registry.add("@t/same", files={"index.js": "exports.v = 1;\n"}, types="index.d.ts")
    head = HEADER.format('"npm:@t/same@^1"')
    Path("v.ts").write_text(head + 'import { v } from "@t/same";\nexport const evaluate = () => v;\n')
    Path("rows.jsonl").write_text('{"output": "a"}\n')
    first = CliRunner().invoke(cli, ["run", "v.ts", "rows.jsonl", "-o", "run/"])
    if first.exit_code == 3 and "registry cannot be reached" in first.output:
        pytest.skip("no registry of npm that has esbuild")
    assert first.exit_code == 0, first.output
    lock = Path("run/requirements.lock").read_text()
    assert "@t/same@1.0.0" in lock
    assert "127.0.0.1" not in lock
    registry.add("@t/same", "1.1.0", files={"index.js": "exports.v = 2;\n"})
    registry.asked.clear()
    again = CliRunner().invoke(cli, ["run", "v.ts", "rows.jsonl", "-o", "again/", "--lock", "run/requirements.lock"])
    assert again.exit_code == 0, again.output
    assert registry.asked == []
    assert Path("again/results.jsonl").read_text().count('"score": 1.0') == 1


def test_the_compiler_knows_a_packages_types(registry: NpmRegistry) -> None:
    types = "export declare const size: (text: string) => number;\n"
    registry.add(
        "@t/typed", files={"index.js": "exports.size = (t) => t.length;\n", "index.d.ts": types}, types="index.d.ts"
    )
    head = HEADER.format('"npm:@t/typed"') + 'import { size } from "npm:@t/typed@1";\n'
    body = "export function evaluate({{ output }}: {{ output: string }}): {} {{\n  return size(output);\n}}\n"
    Path("right.ts").write_text(head + body.format("number"))
    Path("wrong.ts").write_text(head + body.format("string"))
    right, wrong = (CliRunner().invoke(cli, ["check", f"{name}.ts"]) for name in ("right", "wrong"))
    assert (right.exit_code, "no type errors" in right.output) == (0, True), right.output
    assert wrong.exit_code == 1
    assert "wrong.ts:6:3: Type 'number' is not assignable to type 'string'. (TS2322)" in wrong.output


NEAR = {
    "named": 'import { same as alike, type Word } from "npm:@t/same@1";\nconst same = (a: Word) => alike(a, "b");\n',
    "default": 'import all from "npm:@t/same";\nconst same = (a: string) => all.same(a, "b");\n',
    "all": 'import * as all from "npm:@t/same";\nconst same = (a: string) => all.same(a, "b");\n',
    "later": 'const same = async (a: string) => (await import("npm:@t/same")).same(a, "b");\n',
    "from another": 'import { alike } from "./lib/other.ts";\nconst same = (a: string) => alike(a, "b");\n',
}


@pytest.mark.parametrize("form", [*NEAR])
def test_the_files_of_a_script_import_packages_too(registry: NpmRegistry, form: str) -> None:
    """Each by names of its own, beside those of the script."""
    registry.add("@t/same", files={"index.js": "exports.same = (a, b) => a === b;\nexports.kind = 'k';\n"})
    source = (
        'import {\n  kind as same,\n} from "@t/same";\nimport { near } from "./near.ts";\n'
        "export const evaluate = async ({ output }) => `${await near(output)} ${same}`;\n"
    )
    files = {
        "near.ts": f"{NEAR[form]}export const near = (text: string) => same(text);\n",
        "lib/other.ts": 'export { same as alike } from "npm:@t/same";\n',
    }
    wanted = parse_evaluator(source, "mine", "mine.ts", language="typescript", files=files)
    assert {one.partition("@1")[0] for one in wanted.packages} == {"npm:@t/same"}
    found = evaluate(wanted, ROWS, sandbox=SandboxConfig(jobs=1)).results
    assert [one.label for one in found] == ["false k", "true k", "false k"]


def test_an_error_in_a_package_shows_who_called_it(registry: NpmRegistry, tmp_path: Path) -> None:
    registry.add("@t/bad", files={"index.js": "exports.go = function go() { throw new Error('bad'); };\n"})
    Path("near.ts").write_text('import { go } from "npm:@t/bad";\n\nexport function near() {\n  return go();\n}\n')
    Path("mine.ts").write_text(
        'import * as all\n  from "npm:@t/bad";\nimport { near } from "./near.ts";\n'
        'export function evaluate({ output }) {\n  return output === "a" ? near() : all.go();\n}\n'
    )
    near, own, _ = evaluate("mine.ts", ROWS, sandbox=SandboxConfig(jobs=1)).results
    assert (message(near), message(own)) == ("Error: bad (near.ts, line 4)", "Error: bad (line 5)")


def test_a_package_that_fails_at_once_has_a_name_in_the_traceback(registry: NpmRegistry) -> None:
    registry.add("@t/load", files={"index.js": "\nthrow new Error('bad');\n"})
    wanted = parse_evaluator(
        'import "npm:@t/load";\nexport const evaluate = () => 1;\n', "mine", "mine.ts", language="typescript"
    )
    loaded = asyncio.run(first_load(wanted))
    assert loaded.error is not None
    assert loaded.error.message == "bad"
    assert "packages.js" in loaded.error.traceback
    assert "blob:" not in loaded.error.traceback


async def first_load(wanted: Evaluator) -> Execution:
    config = choose(wanted).config
    async with find(config.backend)(config) as sandbox:
        loaded = await sandbox.load(program(wanted), Limits())
        return await anext(aiter(loaded.run([Call(id=0, arguments={})], Limits())))


def test_what_a_file_imports_is_declared_by_the_script(registry: NpmRegistry) -> None:
    Path("lib").mkdir()
    Path("mine.ts").write_text('import { near } from "./lib/near.ts";\nexport const evaluate = () => near();\n')
    for near, why in (
        (
            '\nimport { a } from "@t/a";\nexport const near = a;\n',
            r"lib/near.ts:2: '@t/a' is .* not declared: begin the",
        ),
        ('\nimport a = require("@t/a");\nexport const near = a;\n', 'lib/near.ts:2: write `import NAME from "@t/a"`'),
        ('\nexport * from "@t/a";\nexport const near = 1;\n', r'lib/near.ts:2: `export \* from "@t/a"` does not say'),
    ):
        Path("lib/near.ts").write_text(near)
        with pytest.raises(EvaluatorError, match=why):
            evaluate("mine.ts", ROWS, sandbox=SandboxConfig(jobs=1))


def test_packages_of_npm_are_none_of_a_python_script() -> None:
    wanted = parse_evaluator("def evaluate(output): return 1\n", "mine")
    with pytest.raises(UnsupportedConfigError, match="npm:zod is one of npm's, and the script is Python; leave it out"):
        evaluate(wanted, ROWS, sandbox=SandboxConfig(packages=("npm:zod",)))
