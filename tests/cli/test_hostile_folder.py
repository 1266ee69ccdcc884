"""A folder of somebody else, from which evalcell is called: nothing in it is taken for a module or program of ours."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from runner.runs.pool.process import WorkerProcess
from sandboxes.boxes.bubblewrap import bubblewraps
from sandboxes.host.programs import find_program
from sandboxes.packages import find_uv
from sandboxes.wasm import compiler
from tests.cli.commands import LENGTH, ROWS, evalcell, header, write_rows
from tests.cli.folders import KEY, Folders
from tests.cli.test_github_action import Hub, Job
from tests.packages.wheels import wheel

ROOT = Path(__file__).parents[2]
RUN = ["run", "same.py", "rows.jsonl", "-q"]
MODULES = (
    *(
        "runner",
        "sandboxes",
        "templates",
        "evalcell",
        "json",
        "venv",
        "pip",
        "sitecustomize",
        "usercustomize",
        "signal",
    ),
    *(
        "asyncio",
        "pickle",
        "struct",
        "ctypes",
        "wasmtime",
        "pydantic",
        "pydantic_core",
        "pyarrow",
        "ray",
        "uv",
        "anyio",
    ),
    *("compileall", "subprocess", "hashlib", "pip_system_certs", "zlib", "types", "runpy", "ensurepip", "hatchling"),
)
PROGRAMS = ("uv", "bwrap", "deno", "node", "npm", "python", "python3", "sh", "git", "pip")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="programs are files with a right here"),
    pytest.mark.rotating("a hostile folder", "cli", "wasm", "process", "packages", "parts", "pool", "remote", "deno"),
]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the hostile folder: what of it is run writes its name to this file."""
    told = tmp_path / "ran"
    told.touch()
    place = tmp_path / "work"
    place.mkdir()
    evil = f"open({str(told)!r}, 'a').write(__file__ + '\\n')\nraise SystemExit('theirs')\n"
    for name in MODULES:
        (place / f"{name}.py").write_text(evil)
        (place / name).mkdir()  # a package goes before a module, and its __main__ is what `-m` runs
        for part in ("__init__", "__main__"):
            (place / name / f"{part}.py").write_text(evil)
    for name in PROGRAMS:
        program = place / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} >> '{told}'\nexit 7\n")
        program.chmod(0o755)
    (place / "same.py").write_text(LENGTH)
    (place / "same.ts").write_text("export function evaluate(output: string): number { return output.length; }\n")
    write_rows(place / "rows.jsonl", ROWS[:2])
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"bin:.:{os.environ['PATH']}")
    return told


def called(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """As a user calls it: by a program, whose folder is the first in which Python looks."""
    program = [sys.executable, "-P", "-c", "from runner.__main__ import main; main()"]
    return subprocess.run([*program, *words], env=os.environ | env, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        [*RUN, "-j", "2"],
        [*RUN, "--sandbox", "process"],
        ["run", "same.ts", "rows.jsonl", "-q"],
        ["run", "same.py", "rows-*.jsonl", "-o", "results/", "-q"],
        ["run", "same.py", "rows.parquet", "-q"],
        ["test", "json-distance"],
        pytest.param(["doctor"], marks=pytest.mark.slow),
        pytest.param([*RUN, "--on", "ray"], marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
    ids=lambda words: "-".join(re.sub(r"[^\w]", "", word) for word in words),
)
def test_nothing_of_it_is_run(ran: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    if "ray" in words and find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    write_rows(Path("rows-a.jsonl"), ROWS[:2])
    write_rows(Path("rows-b.jsonl"), ROWS[:2])
    pa.parquet.write_table(pa.table({"output": ["x", "xxx"]}), "rows.parquet")
    done = called(*words)
    assert ran.read_text() == ""
    assert done.returncode in ((0, 3) if words == ["doctor"] else (0,)), done.stderr


@pytest.mark.parametrize("how", ["an empty part of PYTHONPATH", "-m"])
def test_this_folder_is_left_once_the_program_begins(ran: Path, how: str) -> None:
    """What is imported before the program's first line, a program cannot help."""
    for name in {*MODULES} - {"wasmtime", "pydantic_core"}:
        (Path(name) / "__init__.py").unlink()
        (Path(name) / "__main__.py").unlink()
        Path(name).rmdir()
        Path(f"{name}.py").unlink()
    if how == "-m":
        done = subprocess.run([sys.executable, "-m", "runner", *RUN, "-j", "2"], capture_output=True, text=True)
    else:
        done = called(*RUN, "-j", "2", PYTHONPATH=f"{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert (ran.read_text(), done.returncode) == ("", 0), done.stderr


def test_a_worker_of_a_server_and_what_compiles(ran: Path) -> None:
    async def start() -> None:
        worker = WorkerProcess("tried", os.environ)
        await worker.start()
        await worker.close()

    asyncio.run(start())
    assert compiler.native("an empty module", b"\0asm\1\0\0\0")
    native = Path(f"native-{sha256(b'none').hexdigest()}")
    native.write_bytes(b"none")
    assert not compiler.loads(native)
    assert ran.read_text() == ""


def test_packages(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are resolved, installed and compiled; `tiny` is one that only this test has."""
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "tiny", "1.0")
    for name, value in {"UV_FIND_LINKS": str(tmp_path / "wheels"), "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    Path("same.py").write_text(header(f"import tiny\n{LENGTH}", 'dependencies = ["tiny"]'))
    done = called(*RUN, "--sandbox", "process")
    assert (ran.read_text(), done.returncode) == ("", 0), done.stderr


def test_a_machine_of_a_provider(ran: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """This provider's machines start programs in the folder that evalcell is called from."""
    monkeypatch.setenv("FOLDER_KEY", KEY)
    monkeypatch.setenv("PATH", os.environ["PATH"].removeprefix("bin:.:"))
    done = evalcell(*RUN, "--sandbox", "folder", "--allow-network")
    assert (ran.read_text(), done.exit_code) == ("", 0), done.output


@pytest.mark.parametrize("pythonpath", ["", "."])
def test_the_action_installs_with_nothing_of_the_workspace(ran: Path, tmp_path: Path, pythonpath: str) -> None:
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "evalcell", "9.9")
    job = Job(tmp_path, Hub(), version="9.9")
    job.env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PYTHONPATH": pythonpath}
    done = job.step("install")
    assert (ran.read_text(), done.returncode) == ("", 0), done.stderr
    place = Path((tmp_path / "path").read_text().strip())
    assert list(place.parent.glob("lib/*/site-packages/evalcell-9.9*"))


def test_tools_are_looked_for_in_the_folders_of_path_that_are_nobody_elses(
    ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    assert find_program("pip") != "bin/pip"
    for path in ("bin:.", "", ":"):
        monkeypatch.setenv("PATH", path)
        assert find_program("uv") is None
    monkeypatch.setenv("PATH", f"bin:{tmp_path / 'work' / 'bin'}")
    assert find_uv() == tmp_path / "work" / "bin" / "uv"
    assert bubblewraps()[0] == str(tmp_path / "work" / "bin" / "bwrap")


def test_each_python_that_is_started_has_the_option() -> None:
    """`-I` or `-P`, except where the first line of the program does the same for Pythons that are older."""
    start = re.compile(r"(?:sys\.executable|\"python3\"|python|target\.path\)|view\.python), [^\n]*\"-\w\"[^\n]*")
    found = [
        (path.relative_to(ROOT).as_posix(), hit)
        for top in ("runner", "sandboxes")
        for path in (ROOT / top).rglob("*.py")
        for hit in start.findall(path.read_text("utf-8"))
    ]
    assert len(found) > 8
    assert [(path, hit) for path, hit in found if not re.search(r'"-[IP]"', hit)] == []
