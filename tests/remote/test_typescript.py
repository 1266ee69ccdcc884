"""TypeScript on machines: Deno is installed there, and a script finds in it what it finds here."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.resolve import choose
from sandboxes import (
    Isolation,
    SandboxConfig,
    SandboxLostError,
    SandboxUnavailableError,
    UnsupportedConfigError,
    registry,
)
from sandboxes.boxes.host_files import reachable
from sandboxes.deno.binary import find_deno
from tests.cli.commands import evalcell
from tests.packages.npm_registry import serve
from tests.remote.served import config, env_file, server
from tests.remote.ways import EACH_WAY, LIMITS, OWN, Running, Way, ask, asked, rows

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines run Linux")

ROWS = """
let count = 0;
export async function evaluate({ x }: { x: unknown }) {
  console.log("row", x);
  count += 1;
  if (x === "hangs") while (true);
  if (x === "leaves") Deno.exit(3);
  if (x === "throws") throw new TypeError("no such row");
  if (x === "fills") for (const kept = []; ;) kept.push(new Array(1 << 17).fill(count));
  return [x, count];
}
"""
"""What a row does to itself, and how many were in its Worker."""


def packages(way: Way) -> str:
    """The folder above Deno's, as if it had been installed there."""
    folder = Path(find_deno()).parents[1]
    if way.name == "user" and not reachable(str(folder)):
        pytest.skip("another user cannot start this Deno")
    return str(folder)


def came(way: Way, isolation: Isolation, timeout: float, *values: Any) -> list[tuple[str, Any]]:
    limits = LIMITS.model_copy(update={"timeout": timeout})
    found = ask(ROWS, rows(*values), isolation, way, limits, language="typescript", packages=packages(way))
    assert found.listener.greeting is not None
    assert found.listener.greeting.deno == metadata.version("deno")
    missing = way.closed - set(found.listener.greeting.protects)
    assert not missing or way.name in ("own", "user"), "Deno is kept in by no less than Python is"
    assert all(e.output.startswith(f"row {x}") for x, e in zip(values, found.executions, strict=True))
    return [(e.status, e.value) for e in found.executions]


@EACH_WAY
def test_a_row_that_fails_costs_its_neighbours_nothing(way: Way) -> None:
    if way.name == "nothing":
        pytest.skip("its /tmp cannot be written to")
    found = came(way, "batch", 10, "a", "b", "leaves", "throws", "c", "fills", "d")
    assert found == [
        ("ok", ["a", 1]),
        ("ok", ["b", 2]),
        ("crash", None),
        ("error", None),
        ("ok", ["c", 2]),
        ("memory", None),
        ("ok", ["d", 1]),
    ]


def test_each_row_has_a_state_of_its_own() -> None:
    found = came(OWN, "call", 1, "a", "b", "throws", "hangs", "c")
    assert found == [("ok", ["a", 1]), ("ok", ["b", 1]), ("error", None), ("timeout", None), ("ok", ["c", 1])]


def test_deno_is_found_where_an_images_own_pip_puts_it() -> None:
    if Path(find_deno()).parent != Path(sys.executable).parent:
        pytest.skip("it is installed elsewhere")
    found = ask(ROWS, rows("a"), packages="site", python=sys.executable, language="typescript")
    assert found.values == [["a", 1]]


@pytest.mark.parametrize("way", ["own", "nothing"])
def test_where_deno_cannot_be_started_it_says_why(way: str, tmp_path: Path) -> None:
    """Without Deno, and without a place for the pipes to it."""
    from tests.remote.ways import WAYS

    if way not in WAYS:
        pytest.skip("there is no bubblewrap")
    why = "Deno is not where" if way == "own" else "no named pipes can be made in /tmp: Read-only"
    folder = str(tmp_path) if way == "own" else packages(OWN)
    running = Running(WAYS[way], asked(ROWS, language="typescript", packages=folder), rows("a"))
    with pytest.raises(SandboxLostError, match=f"a process for the script could not be started: {why}"):
        running.answer()


SCORES = """
export async function evaluate({ output }: { output: string }) {
  if (output === "npm") await import(`npm:${"lodash"}`);
  if (output === "node") await import("node:fs");
  return { score: output.length, label: Deno.version.deno };
}
"""


@pytest.mark.parametrize("name", ["e2b", "modal", "vercel", "daytona"])
def test_a_run(name: str) -> None:
    """On Modal, which bakes Deno into its image, the promises suite is tried, on E2B the templates."""
    wanted = parse_evaluator(SCORES, "mine", "mine.ts", language="typescript")
    ready = server(name)
    ready.clear()
    ran = evaluate(wanted, [{"output": text} for text in ("one", "npm", "node")], sandbox=config(name, jobs=1))
    scored, *failed = ran.results
    deno = metadata.version("deno")
    assert (scored.score, scored.label, scored.sandbox) == (3, deno, f"{name}/deno-{deno}")
    told = [result.error.message for result in failed if result.error]
    assert "a package is declared in the script's header" in told[0]
    assert "node:fs is not available in the sandbox" in told[1]
    assert not ready.state().machines


def test_packages_of_npm_and_files_are_sent_with_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made into modules here: the machine asks no registry."""
    sandbox = config("e2b", jobs=1)
    ready = server("e2b")
    ready.clear()
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    source = 'import { same } from "npm:@t/same";\nimport { near } from "./near.ts";\n'
    source += "export const evaluate = ({ output }) => ({ score: near(output), label: String(same(output, 'a')) });\n"
    near = 'import { same } from "npm:@t/same@1";\nexport const near = (a: string) => Number(same(a, "b"));\n'
    wanted = parse_evaluator(source, "mine", "mine.ts", language="typescript", files={"near.ts": near})
    with serve() as registry:
        registry.add("@t/same", files={"index.js": "exports.same = (a, b) => a === b;\n"})
        (tmp_path / ".npmrc").write_text(f"@t:registry={registry.url}/\n")
        try:
            ran = evaluate(wanted, [{"output": text} for text in "ab"], sandbox=sandbox)
        except SandboxUnavailableError as e:
            pytest.skip(f"no registry of npm that has esbuild: {e}")
    assert [(one.score, one.label) for one in ran.results] == [(0, "true"), (1, "false")], ran.results
    assert not ready.state().machines


def test_a_try_starts_deno_there() -> None:
    ready = server("vercel")
    ready.clear()
    result = evalcell("sandboxes", "--try", "vercel", "--lang", "ts", "--env-file", env_file("vercel"))
    assert result.exit_code == 0, result.output
    steps = {line.split()[0]: line for line in result.stdout.splitlines()}
    named = ["order", "greet", "resolve", "install", "cut", "deno", "open", "load", "run", "close", "look", "it"]
    assert list(steps) == named
    assert f"Deno {metadata.version('deno')}" in steps["load"]
    assert not ready.state().machines


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"network": True}, "no network, as a TypeScript evaluator has no permission"),
        ({"env": ("HOME",)}, r"no env \(HOME\), as a TypeScript evaluator has no permission"),
        ({"files": {"MODEL": "model.json"}}, r"no files \(MODEL\), as a TypeScript evaluator has no permission"),
    ],
)
def test_what_a_typescript_evaluator_has_nowhere_is_refused(more: dict[str, Any], why: str) -> None:
    wanted = parse_evaluator(SCORES, "mine", "mine.ts", language="typescript")
    config = choose(wanted, SandboxConfig(backend="e2b", **more)).config
    assert config.language == "typescript"
    with pytest.raises(UnsupportedConfigError, match=f"the e2b sandbox has {why}"):
        registry.create(config)
