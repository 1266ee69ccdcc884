"""Odd places: limits, disks, users and variables with which a run cannot work, or must. The true reason is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from runner.cli.shadowed_module import cannot_import
from tests.disks import needs_mounts
from tests.groups import limited

ROOT = Path(__file__).parents[2]
EVALCELL = f'"{sys.executable}" -P -c "from runner.__main__ import main; main()"'
RUN = f"{EVALCELL} run json-distance demo --limit 3 -q"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there are these limits")

pytestmark = [LINUX, pytest.mark.rotating("odd places", "cli", "packages", "wasm", "process")]


def sh(script: str, *, mounts: bool = False, **env: str | None) -> subprocess.CompletedProcess[str]:
    """In a shell, in name spaces of its own where it mounts something; a variable that is None is not set."""
    own = [*(("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user"))]
    given = os.environ | {"PYTHONPATH": str(ROOT)} | env
    variables = {name: value for name, value in given.items() if value is not None}
    return subprocess.run([*(own if mounts else ()), "sh", "-c", script], env=variables, capture_output=True, text=True)


def entering(groups: list[str]) -> str:
    """What a shell does to enter a group of processes."""
    return " ".join(f'echo 0 > "{folder}/cgroup.procs";' for folder in groups)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_too_few_addresses(jobs: str) -> None:
    done = sh(f"ulimit -v 4000000; {RUN} -j {jobs}")
    refused(done, "10 GB of addresses", "this process may have 3.8 GB", "ulimit -v unlimited")


def test_files_too_small(tmp_path: Path) -> None:
    refused(sh(f"ulimit -f 1000; {RUN} -j 1"), "File too large", "ulimit -f unlimited")


@pytest.mark.thorough("files that are too small where nothing has to be compiled")
def test_a_cache_that_may_hold_no_large_file(tmp_path: Path) -> None:
    done = sh(f"ulimit -f 1000; {RUN} -j 1", EVALCELL_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 3
    assert "File too large); raise the limit of a file's size: ulimit -f unlimited" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
def test_a_container_of_150_mb_and_20_processes(sandbox: str) -> None:
    with limited(150, 20) as groups:
        done = sh(f"{entering(groups)} {RUN} --sandbox {sandbox}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough(
    "a compilation for which memory runs out: kernels may look for some for minutes before they end it"
)
def test_a_container_that_is_too_small_to_compile_in(tmp_path: Path) -> None:
    with limited(150) as groups:
        done = sh(f"{entering(groups)} {RUN} -j 1", EVALCELL_CACHE_DIR=str(tmp_path / "cache"))
    refused(done, "too little memory to compile the sandbox, which needs about 450 MB", "give it more")


@needs_mounts
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_cache_on_a_disk_without_programs(tmp_path: Path, jobs: str) -> None:
    cache = tmp_path / "cache"
    mount = f'mount -t tmpfs -o noexec,mode=700 none "{cache}" && cp -r "$REAL/wasm" "{cache}"'
    cache.mkdir()
    from sandboxes.cache import cache_dir

    done = sh(f"{mount} && {RUN} -j {jobs}", mounts=True, EVALCELL_CACHE_DIR=str(cache), REAL=str(cache_dir()))
    refused(done, f"{cache}/wasm is on a disk that is mounted noexec", "set EVALCELL_CACHE_DIR to a folder on another")


@needs_mounts
def test_a_disk_that_fills_while_packages_are_installed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    script = f'mount -t tmpfs -o size=4m,mode=700 none "{cache}" && {RUN} --sandbox process --with numpy'
    done = sh(script, mounts=True, EVALCELL_CACHE_DIR=str(cache))
    assert done.returncode == 3
    last = done.stderr.splitlines()[-1]
    if "cannot be reached" in last:
        pytest.skip("no package index can be reached")
    assert f"the disk of {cache} is full" in last
    assert "make room" in last


@needs_mounts
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_wasm_needs_no_proc(jobs: str) -> None:
    done = sh(f"umount -l /proc && {RUN} -j {jobs}", mounts=True)
    assert done.returncode == 0, done.stderr


@needs_mounts
def test_process_says_that_it_needs_proc() -> None:
    done = sh(f"umount -l /proc && {RUN} --sandbox process", mounts=True)
    refused(done, "it needs /proc, which is not mounted here")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user whom nobody knows")
def test_a_user_without_a_home(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv.pop());"
        "import runner.cli.main, runner.cli.commands.machine.cache, runner.results.output.files;"
        "os.setgroups([]); os.setgid(54321); os.setuid(54321); from runner.__main__ import main; main()"
    )
    (tmp_path / "rows.jsonl").write_text("")
    command = f"""exec "{sys.executable}" -P -c '{code}' cache "{ROOT}" """
    done = sh(command, HOME=None, XDG_CACHE_HOME=None, EVALCELL_CACHE_DIR=None)
    refused(done, "this user has no home folder; set EVALCELL_CACHE_DIR to a folder to use, such as /tmp")


def test_the_variables_of_another_python_change_nothing() -> None:
    done = sh(RUN, PYTHONHOME=sys.base_prefix)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["json.py", "enum.py", "signal.py"])
@pytest.mark.parametrize("content", ["raise SystemError('mine')\n", "x = 1\n", "def (\n"])
def test_a_module_that_hides_pythons_own(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    done = sh(RUN, PYTHONPATH=f"{ROOT}:{tmp_path}")
    refused(done, f"{tmp_path}/{name}, found by PYTHONPATH, hides a module", "env -u PYTHONPATH evalcell")


@pytest.mark.parametrize("name", ["json.py", "enum.py", "signal.py"])
def test_the_folder_that_it_is_called_from_hides_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x = 1\n")
    done = sh(f'cd "{tmp_path}" && "{sys.executable}" -m runner --version', PYTHONPATH=f"{ROOT}:")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_fault_of_our_own_is_no_module_that_hides_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(click.__file__).parents[1]))
    fails = click.Command("fails", callback=lambda: throw(AttributeError("ours")))
    with pytest.raises(AttributeError) as raised:
        fails.main([], standalone_mode=False)
    assert cannot_import(raised.value, starting=False) is None


def throw(error: Exception) -> None:
    raise error


def test_a_folder_of_packages() -> None:
    """As `pip --target` makes it: what is on PYTHONPATH is evalcell itself."""
    assert sh(RUN).returncode == 0


# What `doctor` says of all this.


def findings(script: str = "", **env: str | None) -> dict[str, dict[str, Any]]:
    done = sh(f"{script} {EVALCELL} doctor --json", mounts="mount" in script, **env)
    return {one["name"]: one for one in json.loads(done.stdout)["findings"]}


def test_doctor_finds_what_is_there() -> None:
    found = findings()
    assert found["wasm"]["state"] == "ok"
    assert "opened, loaded and ran a script" in found["wasm"]["found"]
    assert {"evalcell", "python", "system", "memory", "home", "cache", "state", "clock", "deno"} <= found.keys()
    assert all(one["step"] for one in found.values() if one["state"] != "ok")
    done = sh(f"{EVALCELL} doctor")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(found)


@pytest.mark.parametrize(
    ("script", "name", "state", "step"),
    [
        ("ulimit -v 4000000;", "wasm", "problem", "raise the limit: ulimit -v unlimited"),
        ("ulimit -f 1000;", "bytes in a file", "warning", "raise it: ulimit -f unlimited"),
        ("ulimit -n 60;", "open files", "warning", "raise it: ulimit -n 256"),
        pytest.param("umount -l /proc;", "system", "warning", "mount it", marks=needs_mounts),
        ("HOME=/dev/null", "home", "warning", "set EVALCELL_CACHE_DIR and EVALCELL_STATE_DIR"),
        ("TMPDIR=/proc", "temporary folder", "ok", ""),
        ("PYTHONHOME=", "python", "ok", ""),
    ],
)
def test_doctor_says_what_to_do(script: str, name: str, state: str, step: str) -> None:
    found = findings(script)[name]
    assert found["state"] == state
    assert step in found["step"]


def test_doctor_ends_with_3_where_nothing_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = sh(f"{EVALCELL} doctor", EVALCELL_CACHE_DIR=str(tmp_path / "file"))
    assert done.returncode == 3, done.stdout
    assert "WRONG cache" in done.stdout
    assert "WRONG wasm" in done.stdout
    assert done.stdout.endswith("No sandbox of this machine works; see the steps above\n")


def test_doctor_names_what_pythonpath_hides(tmp_path: Path) -> None:
    (tmp_path / "templates.py").write_text("")
    (tmp_path / "mine.py").write_text("")
    done = sh(f"{EVALCELL} doctor", PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert f"whose {tmp_path}/templates.py hide modules" in done.stdout
    assert "mine.py" not in done.stdout
