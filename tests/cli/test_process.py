"""The command line as a process: signals, pipes, start-up, and what is on disk afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "runner"]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
SLOW = "import time\ndef evaluate(output):\n    time.sleep(0.05)\n    return output\n"

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and pipes"),
    pytest.mark.rotating("commands and signals", "runner", "sandboxes"),
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "data.jsonl").write_text("".join(f'{{"output": {n}}}\n' for n in range(5000)))
    return tmp_path


def start(here: Path, *arguments: str, **more: object) -> subprocess.Popen[str]:
    settings = {
        "env": ENV,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    } | more
    return subprocess.Popen([*COMMAND, *arguments], cwd=here, text=True, **settings)  # type: ignore[call-overload,no-any-return]


def wait_for_rows(path: Path, rows: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < rows:
        assert time.monotonic() < deadline, "no rows came"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_signal_keeps_what_is_done_and_exits_130(here: Path, number: signal.Signals, jobs: str) -> None:
    files = [a for name in ("x.jsonl", "x.json", "x.csv") for a in ("-o", name)]
    process = start(here, "run", "slow.py", "data.jsonl", "-j", jobs, *files)
    wait_for_rows(here / "x.jsonl", 5)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert "interrupted after" in err
    assert "scored" in err
    assert "Traceback" not in err
    rows = [json.loads(line) for line in (here / "x.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [str(n) for n in range(1, len(rows) + 1)]
    assert 5 <= len(rows) < 5000
    assert json.loads((here / "x.json").read_text()) == rows
    assert len((here / "x.csv").read_text().splitlines()) == len(rows) + 1


@pytest.mark.rotating("long tests", "cli", "engine")
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["test", "slow.py", "-j", "2"], "0 failed"),
        (["parity", "slow.py", "data.jsonl", "-j", "2", "--sandbox", "wasm", "--sandbox", "wasm"], "0 differ"),
    ],
)
def test_a_signal_ends_test_and_parity_with_what_is_known(here: Path, arguments: list[str], said: str) -> None:
    (here / "cases.jsonl").write_text('{"output": 1, "expected": {"score": 1}}\n' * 5000)
    process = start(here, *arguments, env=ENV | {"EVALCELL_TEST": str(here)})
    deadline = time.monotonic() + 60
    while len(started_with(str(here))) < 3:  # its workers: by then it listens to signals
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert said in out
    assert "interrupted after" in err
    assert "Traceback" not in err


def test_a_second_signal_quits_at_once(here: Path) -> None:
    (here / "stuck.py").write_text("def evaluate(output):\n    while output: pass\n    return 1\n")
    process = start(here, "run", "stuck.py", "data.jsonl", "-j", "2", "--timeout", "60", "-o", "x.jsonl")
    wait_for_rows(here / "x.jsonl", 1)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert process.wait(10) == 130
    process.communicate()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_no_process_and_no_file_is_left(here: Path, tmp_path: Path, number: signal.Signals) -> None:
    (here / "stuck.py").write_text("def evaluate(output):\n    while output: pass\n    return 1\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = ENV | {"TMPDIR": str(temporary), "EVALCELL_TEST": str(here)}
    command = [*COMMAND, "run", "stuck.py", "data.jsonl", "-j", "2", "--timeout", "60", "-o", "x.jsonl"]
    process = subprocess.Popen(command, cwd=here, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_for_rows(here / "x.jsonl", 1)
        deadline = time.monotonic() + 20
        while len(started_with(str(here))) < 3:  # the second worker starts when rows have waited for the first
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        process.wait(20)
        deadline = time.monotonic() + 5
        while left := started_with(str(here)):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        assert list(temporary.iterdir()) == []
    finally:
        for left_over in started_with(str(here)):
            os.kill(left_over, signal.SIGKILL)


def started_with(mark: str) -> list[int]:
    """The processes with this value of EVALCELL_TEST in their environment."""
    wanted, found = f"EVALCELL_TEST={mark}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue  # it ended while we looked, or is not ours
    return found


def test_ctrl_c_while_stdin_says_nothing_exits_130(here: Path) -> None:
    process = start(here, "run", "slow.py", "-", "-o", "x.jsonl", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write('{"output": 1}\n')
    process.stdin.flush()
    wait_for_rows(here / "x.jsonl", 1)  # a row is scored before the next one comes
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    _, err = process.communicate()
    assert "interrupted after 1 row; they are in x.jsonl" in err
    assert "Fatal" not in err


def test_ctrl_c_before_the_first_row_does_not_promise_any(here: Path) -> None:
    (here / "endless.py").write_text("def evaluate(output):\n    while True: pass\n")
    process = start(here, "run", "endless.py", "-", "-o", "run/", "--timeout", "100", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write('{"output": 1}\n')  # it does not begin before it has seen which columns its input has
    process.stdin.flush()
    wait_for_rows(here / "run" / "manifest.json", 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    _, err = process.communicate()
    assert "interrupted before the first row was scored\n" in err
    assert "they are in" not in err
    assert json.loads((here / "run" / "manifest.json").read_text())["state"] == "interrupted"


@pytest.mark.parametrize("arguments", [["run", "json-distance", "demo"], ["show", "json-distance"], ["--help"]])
def test_a_closed_pipe_is_quiet(here: Path, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    process = start(here, *arguments, stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [line for line in err.splitlines() if not line.startswith("sandbox:")] == []


def test_a_full_disk_is_3_in_one_line(here: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    (here / "x.jsonl").symlink_to("/dev/full")
    process = start(here, "run", "slow.py", "data.jsonl", "-q", "-o", "x.jsonl")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    assert err.splitlines() == [
        "evalcell: x.jsonl could not be written any further (No space left on device); it may end within a row, after "
        "0 whole rows; make room, or choose another place, and run again"
    ]


def test_there_is_no_progress_bar_in_a_pipe_and_one_on_a_terminal(here: Path) -> None:
    process = start(here, "run", "slow.py", "data.jsonl", "--limit", "30")
    _, err = process.communicate(timeout=60)
    assert err == "sandbox: no packages declared -> wasm\n"
    assert "30/30" in "".join(on_a_terminal(here, "run", "slow.py", "data.jsonl", "--limit", "30"))


def on_a_terminal(here: Path, *arguments: str) -> Iterator[str]:
    """What a process says on a stderr that is a terminal."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = start(here, *arguments, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        yield data.decode(errors="replace")
    os.close(master)
    assert process.wait(60) == 0


def test_results_do_not_depend_on_the_number_of_jobs(here: Path) -> None:
    rows = []
    for jobs in ("1", "2"):
        name = f"x{jobs}.jsonl"
        process = start(here, "run", "json-distance", "demo", "-q", "-j", jobs, "-o", name)
        process.communicate(timeout=60)
        assert process.returncode == 0
        found = [json.loads(line) for line in (here / name).read_text().splitlines()]
        rows.append([{**row, "duration_ms": 0} for row in found])
    assert rows[0] == rows[1]


INTERRUPTED_AT = """
import os, signal, sys
def hook(event, arguments, wanted=sys.argv.pop(1)):
    if event == "import" and arguments[0] == wanted:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from runner.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("runner.cli.streams", ["--help"]),
        ("click", ["--help"]),
        ("runner.cli.commands.score.run", ["run", "slow.py", "data.jsonl"]),
        ("rich.console", ["templates"]),
    ],
)
def test_a_signal_while_it_starts_exits_130_without_a_traceback(here: Path, module: str, arguments: list[str]) -> None:
    words = [sys.executable, "-c", INTERRUPTED_AT, module, *arguments]
    done = subprocess.run(words, cwd=here, env=ENV, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("interrupted\n", "interrupted before the first row was scored\n")


PYTHON = ("same.py", "def evaluate(output):\n    return 1\n")
TYPESCRIPT = ("same.ts", "export function evaluate(output: string) { return 1 }\n")


@pytest.mark.parametrize(("sandbox", "script"), [("deno", TYPESCRIPT), ("process", PYTHON), ("wasm", PYTHON)])
def test_a_umask_that_keeps_the_owner_out_stops_nothing(here: Path, sandbox: str, script: tuple[str, str]) -> None:
    (here / script[0]).write_text(script[1])
    words = ["run", script[0], "data.jsonl", "--limit", "2", "--sandbox", sandbox, "-j", "1", "-o", "out.jsonl"]
    in_python = (
        "import os, runner; os.umask(0o777)\n"
        f"done = runner.evaluate({script[0]!r}, 'data.jsonl', sandbox={sandbox!r}, limit=2, progress=False)\n"
        "print(done.summary.mean)"
    )
    found = subprocess.run([*COMMAND, *words], cwd=here, env=ENV, umask=0o777, capture_output=True, text=True)
    assert (found.returncode, found.stderr.count("lost")) == (0, 0), found.stderr
    assert (here / "out.jsonl").stat().st_mode & 0o777 == 0o600
    library = subprocess.run([sys.executable, "-c", in_python], cwd=here, env=ENV, capture_output=True, text=True)
    assert (library.stdout, library.returncode) == ("1.0\n", 0), library.stderr


@pytest.mark.parametrize("variable", ["PYTHONDEVMODE", "PYTHONASYNCIODEBUG"])
@pytest.mark.parametrize(("sandbox", "script"), [("deno", TYPESCRIPT), ("process", PYTHON)])
def test_what_is_for_developers_of_python_says_nothing_of_our_loops(
    here: Path, sandbox: str, script: tuple[str, str], variable: str
) -> None:
    (here / script[0]).write_text(script[1])
    words = ["run", script[0], "data.jsonl", "--limit", "2", "--sandbox", sandbox, "-q"]
    found = subprocess.run([*COMMAND, *words], cwd=here, env=ENV | {variable: "1"}, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "asyncio" not in found.stderr
    assert "Executing" not in found.stderr
