"""A TypeScript script with files of its own: the same as with all of it in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import EvaluatorError, SandboxConfig, evaluate, read_evaluator
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.program import program
from sandboxes.base import Call
from tests.cli.commands import evalcell, write_rows
from tests.sandboxes.backends import BACKENDS, LIMITS, Backend, executed, run, unavailable

TYPESCRIPT = [one for one in BACKENDS if one.language == "typescript"]
ROWS = [{"output": "A", "reference": "a"}, {"output": "B", "reference": "a"}]
FOUR = """import { norm, type Kind } from "./helper.ts";
import { up } from "./lib/up";
import words from "./words.json" with { type: "json" };
import text from "./words.txt";
let count = 0;
export async function evaluate({ output, reference }: { output: string; reference: string }) {
  const { late } = await import("./lib/late.js");
  const kind: Kind = "low";
  if (output === "boom") up(null as unknown as string);
  const same = norm(output) === norm(reference) && kind === "low" && ++count === 1;
  return Number(same && up("a") === "A" && words.length === 2 && text.trim() === "a b" && late === 1);
}
"""
ONE = """let count = 0;
export function evaluate({ output, reference }: { output: string; reference: string }) {
  if (output === "boom") (null as unknown as string).toLowerCase();
  return Number(output.toLowerCase() === reference.toLowerCase() && ++count === 1);
}
"""
FILES = {
    "helper.ts": 'import { low } from "./lib/low.js";\nexport type Kind = "low";\n'
    "export const norm = (text: string): string => low(text);\n",
    "lib/up.ts": 'import { low } from "./low.ts";\nexport const up = (text: string) => low(text).toUpperCase();\n',
    "lib/low.ts": "export function low(text: string): string {\n  return text.toLowerCase();\n}\n",
    "lib/late.js": "export const late = 1;\n",
    "words.json": '["a", "b"]',
    "words.txt": "a b\n",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    return tmp_path


def write(source: str, files: dict[str, str]) -> None:
    for name, text in {"s.ts": source, **files}.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("backend", TYPESCRIPT, ids=lambda backend: backend.id)
def test_a_script_in_several_files_gives_what_one_file_gives(backend: Backend) -> None:
    if why := unavailable(backend):
        pytest.skip(why)
    batch = [Call(id=at, arguments={**row}) for at, row in enumerate([*ROWS, {"output": "boom", "reference": ""}])]

    async def body() -> list[list[object]]:
        every = []
        async with backend.make("call") as sandbox:
            for source, files in ((ONE, {}), (FOUR, FILES)):
                script = program(parse_evaluator(source, "s", language="typescript", files=files))
                executions = await executed(sandbox, backend, script, batch, LIMITS)
                every.append([one.value if one.error is None else one.error.message for one in executions])
                trace = executions[2].error.traceback if executions[2].error is not None else ""
                if files:
                    assert "at low (lib/low.ts:2:15)" in trace
                    assert "blob:" not in trace
        return every

    one, four = run(body())
    assert one == four == [1, 0, "Cannot read properties of null (reading 'toLowerCase')"]


def test_what_is_imported_is_found_checked_and_named() -> None:
    write(FOUR, FILES)
    found = read_evaluator("s.ts")
    assert found.files == FILES
    assert found.version != parse_evaluator(ONE, "s", language="typescript").version
    assert [one.score for one in evaluate("s.ts", ROWS, sandbox=SandboxConfig(jobs=1)).results] == [1.0, 0.0]
    write_rows(Path("rows.jsonl"), ROWS)
    said = evalcell("check", "s.ts", "rows.jsonl", COLUMNS="200").output
    assert "with helper.ts, lib/late.js, lib/low.ts, lib/up.ts, words.json, words.txt" in said
    assert "no type errors" in said
    write(FOUR, {"lib/low.ts": "export function low(text: string): string {\n  return 1;\n}\n"})
    said = evalcell("check", "s.ts", COLUMNS="200").output
    assert "lib/low.ts:2:3: Type 'number' is not assignable to type 'string'" in said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('import { a } from "./no.ts";', r"^s\.ts:1: there is no file './no\.ts' in the script's folder"),
        ('import { a } from "../secret.ts";', r"^s\.ts:1: '\.\./secret\.ts' is outside of the script's folder"),
        ('import { a } from "./../own/../secret.ts";', "is outside of the script's folder"),
        ('import { a } from "./linked.ts";', "there is no file './linked.ts'"),
        (
            'import { a } from "./one.ts";',
            r"^two\.ts:1: files import each other in a loop \(one\.ts -> two\.ts -> one\.ts\)",
        ),
        ('import { a } from "./up.ts";', r"^up\.ts:1: '\.\./secret\.ts' is outside of the script's folder"),
        ('const a = await import("./no.ts");', "there is no file './no.ts'"),
    ],
)
def test_what_is_not_there_or_leads_out_is_refused_with_its_line(here: Path, line: str, why: str) -> None:
    (here / "secret.ts").write_text("export const a = 1;\n")
    Path("linked.ts").symlink_to(here / "secret.ts")
    loop = {"one.ts": 'import "./two.ts";\nexport const a = 1;\n', "two.ts": 'import "./one.ts";\n'}
    write(f"{line}\nexport const evaluate = () => 1;\n", {**loop, "up.ts": 'export { a } from "../secret.ts";\n'})
    with pytest.raises(EvaluatorError, match=why):
        read_evaluator("s.ts")
