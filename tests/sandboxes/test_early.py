"""A worker that is begun before the command line has imported what it needs serves like any other, or ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import runner.cli.commands.run as run_command
import runner.cli.early as guess
from sandboxes import Limits, Program, SandboxLostError, SandboxUnavailableError
from sandboxes.cache import keep
from sandboxes.wasm import early, native_code
from sandboxes.wasm.lanes import Lane
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.cli.commands import ROWS, evalcell, header, write_rows
from tests.descriptors import held
from tests.sandboxes.backends import calls
from tests.scripts import python

pytestmark = [
    pytest.mark.rotating("wasm", "wasm"),
    pytest.mark.skipif(sys.platform == "win32", reason="begun on POSIX alone"),
]

GIVEN = {
    **dict.fromkeys(("sandbox", "lang", "jobs", *guess._ELSEWHERE)),
    "evaluator": "json-distance",
    "dataset": "demo",
}


def begun() -> int:
    early.begin()
    return early._begun[-1].pid


def pid_of(lane: Lane) -> int:
    assert lane._process is not None
    return lane._process.pid


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def values(program: Program) -> list[object]:
    return [e.value async for e in program.run(calls(3), Limits())]


async def test_the_first_lane_takes_it_and_ends_it() -> None:
    before = held()
    pid = begun()

    async with WasmSandbox(WasmConfig(jobs=2)) as sandbox:
        assert pid_of(sandbox._lanes[0]) == pid
        program = await sandbox.load(python("def evaluate(): return 'x' * 100_000"), Limits())
        assert await values(program) == ["x" * 100_000] * 3
    assert not is_there(pid)
    assert held() == before


async def test_one_that_is_killed_is_lost_and_another_takes_its_place() -> None:
    pid = begun()

    async with WasmSandbox(WasmConfig(jobs=2)) as sandbox:
        program = await sandbox.load(python("def evaluate(): return 1"), Limits())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxLostError, match="may be run again"):
            await values(program)
        assert await values(program) == [1, 1, 1]
        assert not is_there(pid)


def test_one_that_nobody_takes_is_ended() -> None:
    before = held()
    pid = begun()
    early.drop()
    assert not is_there(pid)
    assert held() == before


def test_one_that_resets_otherwise_is_not_taken() -> None:
    begun()
    assert early.take("instance") is None
    early.drop()


def test_a_run_takes_the_one_that_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = early.take

    def noted(reset: str) -> object:
        found = take(reset)
        taken.extend([] if found is None else [found.pid])
        return found

    monkeypatch.setattr(early, "take", noted)
    done = evalcell("run", "json-distance", "demo", "--limit", "3", "-j", "2")
    assert (done.exit_code, len(taken)) == (0, 1)
    assert not is_there(taken[0])


def test_a_wrong_guess_is_ended_before_rows_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = header("def evaluate(output): return 1", '"dependencies" = ["scikit-learn"]')
    (tmp_path / "packed.py").write_text(script)
    write_rows(tmp_path / "rows.jsonl", ROWS)
    began: list[int] = []
    begin = early.begin

    def noted() -> None:
        begin()
        began.extend(process.pid for process in early._begun)

    def execute(*_: object, **__: object) -> bool:
        assert began
        assert not any(is_there(pid) for pid in began)
        raise InterruptedError("as far as this")

    monkeypatch.setattr(early, "begin", noted)
    monkeypatch.setattr(run_command, "execute", execute)
    assert (
        "as far as this" in evalcell("run", str(tmp_path / "packed.py"), str(tmp_path / "rows.jsonl"), "-j", "2").output
    )


@pytest.mark.parametrize(
    "given",
    [
        {"sandbox": "process"},
        {"lang": "ts"},
        {"with": ("numpy",)},
        {"allow_network": True},
        {"evaluator": "tfidf-cosine"},
        {"evaluator": "no-such-template"},
        {"evaluator": "script.ts"},
        {"evaluator": None},
        {"dataset": "rows-*.jsonl"},
        {"dataset": None},
    ],
    ids=str,
)
def test_no_worker_is_begun_for_another_sandbox(given: dict[str, object]) -> None:
    assert guess._wanted(GIVEN)
    assert not guess._wanted(GIVEN | given)


def test_a_pipe_is_not_read_to_guess(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "script.py")
    assert not guess._wanted(GIVEN | {"evaluator": str(tmp_path / "script.py")})


def test_a_run_takes_the_code_that_was_checked_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_guest(print)

    def refuse(*_: object) -> object:
        raise AssertionError("it is checked again")

    monkeypatch.setattr(native_code, "get_or_build", refuse)
    done = evalcell("run", "json-distance", "demo", "--limit", "3", "-j", "2")
    assert done.exit_code == 0, done.output
    assert not native_code._checks


@pytest.mark.parametrize("content", [b"", b"other code", bytes(20 << 20), None])
def test_what_is_not_whole_is_not_taken(content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "wasm"
    folder.mkdir(0o700)
    kept = {}
    for part in native_code.PARTS:
        kept[part] = keep(folder, native_code._key(part), native_code.SUFFIX, b"x" * (20 << 20))
        if content is not None:
            kept[part].write_bytes(content)
    native_code.begin_checks()
    found = {part: check.found() for part, check in native_code._checks.items()}
    assert found == (kept if content is None else dict.fromkeys(kept))
    assert all(path.exists() == (content is None) for path in kept.values())
    native_code.drop_checks()


def test_a_folder_that_cannot_be_used_is_told_by_who_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "file"))
    native_code.begin_checks()
    with pytest.raises(SandboxUnavailableError, match="set EVALCELL_CACHE_DIR to another"):
        compile_guest(print)
    native_code.drop_checks()


def test_what_was_checked_for_a_run_that_ended_before_is_forgotten() -> None:
    begun()
    early.check()
    assert set(native_code._checks) == set(native_code.PARTS)
    early.drop()
    assert not native_code._checks
    early.check()  # no worker was begun
    assert not native_code._checks


def test_little_is_imported_before_it_is_begun() -> None:
    code = "import sys, sandboxes.wasm.early; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "sandboxes.wasm.boot" in loaded
    assert not {"asyncio", "pydantic", "sandboxes.base", "sandboxes.wasm.sandbox"} & set(loaded)
