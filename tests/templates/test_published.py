"""The published scripts, unchanged, give in every sandbox what a plain CPython or a plain Deno gives, on all rows."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import read_evaluator
from sandboxes import Call, Execution, Limits, SandboxConfig, create
from sandboxes.packages import install, resolve
from tests.scripts import script
from tests.skips import need

PLACES = [
    ("json_distance.py", "wasm"),
    ("json_distance.py", "process"),
    ("token_cosine.py", "process"),
    ("json_distance.ts", "deno"),
    ("token_cosine.ts", "deno"),
]
PACKAGES = {"token_cosine.py": ("scikit-learn==1.9.1",)}
LIMITS = Limits(timeout=30)

PYTHON = """
import json, sys
names = {}
exec(compile(open(sys.argv[1], encoding="utf-8").read(), "script", "exec"), names)
for line in sys.stdin:
    try:
        told = {"value": names["evaluate"](**json.loads(line))}
    except Exception as error:
        told = {"raised": type(error).__name__}
    print(json.dumps(told))
"""

DENO = """
const rows = new TextDecoder().decode(Deno.readFileSync(Deno.args[0])).split("\\n").filter(Boolean);
for (const row of rows) {
  let told;
  try { told = { value: evaluate(JSON.parse(row)) }; } catch (error) { told = { raised: (error as Error).name }; }
  console.log(JSON.stringify(told));
}
"""


def rows(shared: Path) -> Iterator[dict[str, Any]]:
    """Every pair of an output and a reference that there is."""
    for path in sorted([*shared.glob("cases/*/*.jsonl"), *shared.glob("datasets/*.jsonl")]):
        for line in path.read_text("utf-8").split("\n"):
            row = json.loads(line) if line else {}
            row = row.get("inputs", row)
            if "text" in row and isinstance(row["text"], str):
                row = {"output": row["text"], "reference": row["text"]}
            if isinstance(row, dict) and {"output", "reference"} <= row.keys():
                yield {"output": row["output"], "reference": row["reference"]}


def boxed(recipe: Path, place: str, pairs: list[dict[str, Any]]) -> list[Execution]:
    async def body() -> list[Execution]:
        config = SandboxConfig(backend=place, packages=PACKAGES.get(recipe.name, ()), jobs=1)
        async with create(config) as sandbox:
            program = await sandbox.load(script(recipe.read_text("utf-8"), sandbox.language), LIMITS)
            wanted = [Call(id=number, arguments=pair) for number, pair in enumerate(pairs)]
            found = []
            for start in range(0, len(wanted), sandbox.batch):
                found += [e async for e in program.run(wanted[start : start + sandbox.batch], LIMITS)]
            return sorted(found, key=lambda e: e.call)

    return asyncio.run(body())


def plain(recipe: Path, pairs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    data = folder / "rows.jsonl"
    data.write_text(lines, "ascii")
    variables = dict(os.environ)
    if recipe.suffix == ".ts":
        from sandboxes.deno.binary import find_deno

        script = folder / "script.ts"
        script.write_text(recipe.read_text("utf-8") + DENO, "utf-8")
        command = [find_deno(), "run", "--no-config", "--no-remote", f"--allow-read={data}", str(script), str(data)]
        variables |= {"NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": str(folder / "deno")}
    else:
        command = [sys.executable, "-c", PYTHON, str(recipe)]
        if wanted := PACKAGES.get(recipe.name):
            variables["PYTHONPATH"] = str(asyncio.run(installed(wanted)))
    done = subprocess.run(command, input=lines, env=variables, text=True, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def installed(packages: tuple[str, ...]) -> Path:
    python = Path(getattr(sys, "_base_executable", sys.executable))
    deadline = asyncio.get_running_loop().time() + 300
    lock = await resolve(packages, python, say=print, deadline=deadline)
    return await install(lock, python, say=print, deadline=deadline)


@pytest.mark.rotating("templates", "templates", "wasm", "process", "deno")
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_published_script_runs_unchanged_and_scores_as_it_does_elsewhere(
    name: str, place: str, shared: Path, tmp_path: Path
) -> None:
    need(place)
    recipe = shared / "recipes" / name
    assert read_evaluator(recipe).parameters
    pairs = list(rows(shared))
    assert len(pairs) > 1500
    expected, found = plain(recipe, pairs, tmp_path), boxed(recipe, place, pairs)
    assert len(expected) == len(found) == len(pairs)
    other = place == "wasm"  # another CPython, with words of its own for a text that is no JSON
    differ = [
        (pair, told, execution)
        for pair, told, execution in zip(pairs, expected, found, strict=True)
        if said(told, other) != said(heard(execution), other)
    ]
    assert not differ, differ[:3]


def heard(execution: Execution) -> dict[str, Any]:
    if execution.status == "ok":
        return {"value": execution.value}
    assert execution.error is not None
    return {"raised": execution.error.type}


def said(told: dict[str, Any], other: bool) -> dict[str, Any]:
    value = told.get("value")
    if other and isinstance(value, dict) and value.get("label") == "invalid":
        return {"value": {**value, "explanation": ""}}
    return told
