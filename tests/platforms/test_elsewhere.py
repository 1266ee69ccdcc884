"""macOS and Windows, as far as they can be played on Linux: see `elsewhere` for what is, and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rotating("other systems", "wasm", "remote")
commands = pytest.mark.rotating("other systems", "wasm", "remote", "runner")

ROOT = Path(__file__).parents[2]
SYSTEMS = ["darwin", "win32"]
PROMISES = [f"tests/sandboxes/test_promises{part}.py" for part in ("", "_state", "_bounds")]
COMMAND = "import tests.platforms.elsewhere; from runner.__main__ import main; main()"


def there(system: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"EVALCELL_TEST_PLATFORM": system, "PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
    )


def evalcell(system: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, where nothing that only Unix has can be imported at all."""
    return there(system, "-P", "-c", COMMAND, *arguments, EVALCELL_TEST_ALL="1")


def promises(system: str, names: str, *files: str) -> None:
    plugin = ("-p", "tests.platforms.elsewhere", "-p", "no:cacheprovider")
    done = there(system, "-m", "pytest", *plugin, "-q", "--rootdir", str(ROOT), *files, "-k", names)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", ["win32", pytest.param("darwin", marks=pytest.mark.thorough("the same on Windows, which has less"))]
)
def test_wasm_keeps_its_promises(system: str) -> None:
    promises(system, "wasm-instance", str(ROOT / PROMISES[0]))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.thorough("wasm's first promises, and the commands, on other systems")
@pytest.mark.parametrize("names", ["wasm-instance or wasm-workers", "e2b"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_all_promises_are_kept(system: str, names: str) -> None:
    promises(system, names, *(str(ROOT / file) for file in PROMISES))


@commands
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_ends_with_all_its_files(system: str, workers: str) -> None:
    files = ["rows.jsonl", "rows.json", "rows.csv", "all/"]
    options = [word for file in files for word in ("-o", file)]
    done = evalcell(system, "run", "json-distance", "demo", "-j", workers, "--limit", "20", "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scored"] == 20
    assert len(Path("rows.jsonl").read_text().splitlines()) == 20
    assert json.loads(Path("all/manifest.json").read_text())["state"] == "finished"


@commands
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "command",
    [
        "sandboxes",
        "check json-distance demo",
        "test json-distance -q",
        "cache",
        "templates",
        "show bleu",
        "init",
        "new x",
    ],
)
def test_a_command_works(system: str, command: str) -> None:
    done = evalcell(system, *command.split())
    assert done.returncode == 0, done.stderr
    assert "cannot be imported" not in done.stdout


INSTEAD = {
    "darwin": "a provider such as e2b, evalcell in a Linux container, "
    "or for scripts that you trust --allow-weak-isolation",
    "win32": "a provider such as e2b, or evalcell in WSL or a Linux container",
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("asked", [("token-cosine", "process"), ("json-distance --lang ts", "deno")])
def test_what_needs_linux_says_at_once_what_to_use(system: str, asked: tuple[str, str]) -> None:
    evaluator, sandbox = asked
    done = evalcell(system, "run", *evaluator.split(), "demo")
    assert done.returncode == 3
    wasm = "the wasm sandbox for Python without packages, " if sandbox == "process" else ""
    assert done.stderr.splitlines()[-1] == f"evalcell: the {sandbox} sandbox needs Linux; use {wasm}{INSTEAD[system]}"
    assert "scikit-learn 1" not in done.stderr, "nothing is resolved before"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_provider_can_be_used(system: str) -> None:
    done = evalcell(system, "run", "json-distance", "demo", "--sandbox", "e2b")
    assert (done.returncode, done.stderr.splitlines()[-1][:29]) == (3, "evalcell: E2B_API_KEY is not ")
