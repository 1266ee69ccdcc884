"""evalcell itself is killed, at any moment: what it leaves at a provider is found and ended by `evalcell reap`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandboxes.remote.ledger import Ledger
from tests.cli.commands import evalcell
from tests.remote.trying import Trying

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("faults at a provider", "remote")]

ROOT = Path(__file__).parents[2]
SLEEPER = "import time\ndef evaluate(output):\n    time.sleep(50)\n"


Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(trying: Trying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a run of rows that do not end, at a provider; its process ends with the test."""
    for name, value in trying.server.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "slow.py").write_text(SLEEPER)
    (tmp_path / "data.jsonl").write_text('{"output": "a"}\n' * 4)
    words = ["run", "slow.py", "data.jsonl", "--sandbox", trying.name, "-j", "1", "--timeout", "55"]
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import runner.__main__ as c; c.main()",
    ]
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([*command, *words], cwd=tmp_path, env=os.environ, stderr=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def until(true: Callable[[], object], run: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 25
    while not true():
        assert run is None or run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_run_that_was_killed_among_its_rows_left_is_ended(trying: Trying, start: Start) -> None:
    run = start()
    until(lambda: trying.server.state().processes > 3, run)
    (machine,) = trying.server.state().machines
    result = evalcell("reap", "--provider", trying.name, "--older-than", "0s")
    assert (result.exit_code, result.stdout) == (0, f"nothing is left over at {trying.name}\n")
    live = evalcell("sandboxes", "--live").stdout
    assert machine["id"][:20] in live.replace("\n", "")
    assert f"process {run.pid}" in " ".join(live.split())
    run.kill()
    run.wait()
    assert len(trying.server.state().machines) == 1, "and nobody else ends it so soon"
    result = evalcell("reap", "--dry-run")
    assert result.exit_code == 0
    assert "1 machine would be ended" in result.stdout
    result = evalcell("reap")
    assert (result.exit_code, result.stdout) == (0, f"{trying.name} {machine['id']}: ended\n")
    state = trying.server.state()
    assert (state.machines, state.processes) == ([], 0)
    assert Ledger().open_entries() == []


def test_a_machine_that_comes_after_its_run_was_killed_is_ended(trying: Trying, start: Start) -> None:
    """Nobody ever heard of its id: the ledger has the order's key alone."""
    trying.server.fault("create", "slow:2.5")
    run = start()
    until(lambda: trying.server.state().requests.get("create"), run)
    run.kill()
    run.wait()
    (entry,) = Ledger().open_entries()
    assert (entry.event, entry.id, entry.pid) == ("creating", "", run.pid)
    result = evalcell("reap")
    assert result.exit_code == 3
    assert result.stdout.startswith(f"{trying.name} {entry.key}: not there yet")
    until(lambda: trying.server.state().machines)
    result = evalcell("reap")
    assert result.exit_code == 0, result.output
    assert "ended" in result.stdout
    assert trying.server.state().machines == []
    assert Ledger().open_entries() == []


def test_a_provider_that_does_not_end_a_machine_is_no_success(trying: Trying, start: Start) -> None:
    run = start()
    until(lambda: trying.server.state().machines, run)
    run.kill()
    run.wait()
    until(lambda: trying.server.state().created == 1)
    trying.server.fault("kill", "status:403", times=100)
    result = evalcell("reap")
    assert result.exit_code == 3
    assert "still runs" in result.stdout
    trying.server.clear()


def test_a_try_tells_what_is_wrong_with_a_provider(
    trying: Trying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sandboxes", "--try", trying.name, "--env-file", str(trying.env_file)]
    trying.server.fault("create", "status:403", times=100)
    result = evalcell(*words)
    assert result.exit_code == 3
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["order", "open", "close"]
    (line,) = result.stderr.splitlines()
    assert line.startswith("evalcell: ")
    assert "Traceback" not in result.output
    for value in trying.server.environment.values():
        assert "://" in value or value not in result.output
    trying.server.clear()
    monkeypatch.setattr("runner.cli.commands.machine.try_sandbox._PAUSE", 0.01)
    trying.server.fault("kill", "status:403", times=100)
    result = evalcell(*words)
    (machine,) = trying.server.state().machines
    assert result.exit_code == 3
    assert f"{machine['id']} may still run at {trying.name}; run: evalcell reap" in result.stderr
    trying.server.clear()
    assert evalcell("reap", *words[3:]).exit_code == 0
    result = evalcell(*words)
    assert result.exit_code == 0, result.output
    assert trying.server.state().machines == []
