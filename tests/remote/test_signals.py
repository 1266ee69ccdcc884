"""The command line as a process that is stopped: by Ctrl-C, by SIGTERM, and by what it cannot hear."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from sandboxes import SandboxUnavailableError
from tests.remote.trying import Trying, owed

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("faults at a provider", "remote")]

ROOT = Path(__file__).parents[2]
SLOW = "import time\ndef evaluate(output):\n    time.sleep(0.1)\n    return len(output)\n"
PATIENCE = 30.0

Reached: TypeAlias = Callable[["Cli"], bool]


class Cli:
    """`evalcell` at a local server, in a folder with a script and more rows than it will have time for."""

    def __init__(self, trying: Trying, here: Path) -> None:
        self.trying = trying
        self.here = here
        self.rows = here / "rows.jsonl"
        (here / "slow.py").write_text(SLOW)
        (here / "data.jsonl").write_text("".join(f'{{"id": "{n}", "output": "{"x" * n}"}}\n' for n in range(500)))
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "runner", *arguments, "--env-file", str(self.trying.env_file)]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, cwd=self.here, env=env, text=True, **pipes)  # type: ignore[call-overload]
        self.started.append(process)
        return process  # type: ignore[no-any-return]

    def run(self) -> subprocess.Popen[str]:
        where = ("--sandbox", self.trying.name, "-j", "1")
        return self.start("run", "slow.py", "data.jsonl", *where, "-o", str(self.rows))

    def until(self, process: subprocess.Popen[str], reached: Reached) -> None:
        until(lambda: reached(self) or process.poll() is not None)
        assert process.poll() is None, process.communicate()

    def told(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=PATIENCE)
        assert "Traceback" not in err
        return process.returncode, out, err

    def scored(self) -> int:
        """How many rows were; each is right."""
        whole = self.rows.read_text().rpartition("\n")[0] if self.rows.exists() else ""
        results = [json.loads(line) for line in whole.splitlines()]
        assert all(result["score"] == int(result["id"]) for result in results)
        return len(results)


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def cli(trying: Trying, tmp_path: Path) -> Iterator[Cli]:
    made = Cli(trying, tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def creating(cli: Cli) -> bool:
    return cli.trying.server.state().requests.get("create", 0) > 0


def working(cli: Cli) -> bool:
    return cli.scored() > 1


@pytest.mark.parametrize(("number", "reached"), [(signal.SIGTERM, creating), (signal.SIGINT, working)])
def test_a_signal_ends_the_machine_and_exits_130(cli: Cli, number: signal.Signals, reached: Reached) -> None:
    if reached is creating:
        cli.trying.server.fault("create", "slow:0.5")
    cli.trying.server.fault("kill", "status:503")
    process = cli.run()
    cli.until(process, reached)
    process.send_signal(number)
    code, _, err = cli.told(process)
    assert code == 130, err
    state = cli.trying.server.state()
    assert (state.machines, state.processes, owed()) == ([], 0, [])
    assert state.created == 1
    assert (cli.scored() > 0) == (reached is working)


@pytest.mark.parametrize(
    ("trying", "reached"), [("e2b", creating), ("e2b", working), ("modal", working)], indirect=["trying"]
)
def test_what_a_killed_run_left_is_reaped(cli: Cli, reached: Reached) -> None:
    if reached is creating:
        cli.trying.server.fault("create", "slow:0.5")
    process = cli.run()
    cli.until(process, reached)
    process.kill()
    process.wait()
    until(lambda: bool(cli.trying.server.state().machines))
    assert len(cli.trying.server.state().machines) == 1
    (entry,) = owed()
    assert bool(entry.id) == (reached is working)
    code, out, err = cli.told(cli.start("reap", "--provider", cli.trying.name))
    assert code == 0, err
    assert "ended" in out
    state = cli.trying.server.state()
    assert (state.machines, state.processes, owed()) == ([], 0, [])
    cli.scored()


@pytest.mark.parametrize("trying", ["e2b"], indirect=True)
def test_a_machine_that_comes_after_its_run_was_over_is_reaped(cli: Cli) -> None:
    """Although the process of that run lives on, as a notebook's does."""
    server = cli.trying.server
    server.fault("create", "slow:1.2", times=1000)
    tried = cli.trying.run(start_timeout=0.1, pauses={"first": 0.02, "longest": 0.1, "total": 0.3})
    assert isinstance(tried.error, SandboxUnavailableError)
    assert any("evalcell reap" in line for line in tried.said)
    assert server.state().machines == []
    until(lambda: bool(server.state().machines))
    code, out, err = cli.told(cli.start("reap", "--provider", cli.trying.name))
    assert (code, "ended" in out) == (0, True), err
    assert (server.state().machines, owed()) == ([], [])


@pytest.mark.parametrize("trying", ["e2b"], indirect=True)
def test_a_run_that_still_goes_on_is_not_reaped(cli: Cli) -> None:
    process = cli.run()
    cli.until(process, working)
    code, out, _ = cli.told(cli.start("reap", "--provider", cli.trying.name))
    assert (code, "nothing is left over" in out) == (0, True)
    assert len(cli.trying.server.state().machines) == 1
    process.send_signal(signal.SIGTERM)
    assert cli.told(process)[0] == 130
    assert cli.trying.server.state().machines == []
