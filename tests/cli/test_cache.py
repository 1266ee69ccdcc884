"""`evalcell cache`: what is kept, how large it is, and making room."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from sandboxes.wasm.native_code import compile_guest
from tests.cli.commands import evalcell, run

DAY = 86_400
WAIT = "compiling the sandbox for this machine"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def keep(path: Path, size: int, days: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    then = time.time() - days * DAY - 60
    os.utime(path, (then, then))
    return path


def test_an_empty_cache_says_so_and_where_it_is(kept: Path) -> None:
    result = evalcell("cache")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"nothing in {kept}, which EVALCELL_CACHE_DIR can move\n"
    result = evalcell("cache", "prune")
    assert (result.exit_code, result.stdout) == (0, "nothing to delete that no run has used for 30 days\n")
    assert evalcell("cache", "prune", "--all").stdout == "nothing to delete\n"


def test_what_is_kept_is_listed_and_summed(kept: Path) -> None:
    keep(kept / "wasm" / "a-1.bin", 3_000_000, days=40)
    keep(kept / "wasm" / "b-2.bin", 2_000_000, days=1)
    keep(kept / "other" / "c-3.bin", 1_500)
    result = evalcell("cache")
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip()]
    assert lines[0] == "kind holds size last used"
    assert "wasm the compiled sandbox (2 times) 5 MB yesterday" in lines
    assert lines.index("wasm the compiled sandbox (2 times) 5 MB yesterday") < lines.index(
        "other built files 1.5 KB today"
    )
    assert f"3 things, 5 MB in {kept}, which EVALCELL_CACHE_DIR can move" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if str(kept) not in line)


def test_prune_deletes_what_no_run_has_wanted(kept: Path) -> None:
    old, new = keep(kept / "wasm" / "a-1.bin", 3000, days=40), keep(kept / "wasm" / "b-2.bin", 2000, days=10)
    result = evalcell("cache", "prune")
    assert (result.exit_code, result.stdout) == (0, "deleted 1 thing, 3 KB\n")
    assert (old.exists(), new.exists()) == (False, True)
    assert evalcell("cache", "prune", "--unused", "11").stdout == (
        "nothing to delete that no run has used for 11 days\n"
    )
    assert evalcell("cache", "prune", "--unused", "9").stdout == "deleted 1 thing, 2 KB\n"
    assert not new.exists()


@pytest.mark.thorough("a second compilation of the sandbox, beside that which each run of the tests begins with")
def test_after_prune_all_a_run_is_as_the_first_on_a_machine(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = compile_guest(print)
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "kept"))
    kept = tmp_path / "kept" / "wasm"
    kept.parent.mkdir(mode=0o700)
    kept.mkdir()
    for path in machines:
        shutil.copy2(path, kept)
    result = run("length.py", "data.jsonl")
    assert (result.exit_code, WAIT in result.stderr) == (0, False)
    assert "the compiled sandbox" in evalcell("cache").stdout
    result = evalcell("cache", "prune", "--all")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("deleted ")
    assert "nothing in" in evalcell("cache").stdout
    result = run("length.py", "data.jsonl")
    assert (result.exit_code, WAIT in result.stderr) == (0, True)
    assert {path.name for path in kept.glob("*.cwasm")} == {path.name for path in machines}
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_prune_all_deletes_what_runs_still_want(kept: Path) -> None:
    new = keep(kept / "wasm" / "a-1.bin", 3000)
    assert evalcell("cache", "prune", "--all").stdout == "deleted 1 thing, 3 KB\n"
    assert not new.exists()
    assert "nothing in" in evalcell("cache").stdout


def test_what_a_strangers_file_name_says_is_not_obeyed(kept: Path) -> None:
    keep(kept / "\x1b[2Jodd" / "a-1.bin", 10)
    result = evalcell("cache")
    assert result.exit_code == 0
    assert all(c.isprintable() or c == "\n" for c in result.stdout)


@pytest.mark.parametrize("arguments", [["prune", "--unused", "-1"], ["prune", "--unused", "x"], ["nothing"]])
def test_wrong_usage_is_2(kept: Path, arguments: list[str]) -> None:
    assert evalcell("cache", *arguments).exit_code == 2
