"""`evalcell sandboxes --live`, `--try` and `evalcell reap`, with the provider of the documentation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import click
import pytest

from runner.cli.options import duration
from sandboxes.remote.ledger import own_tags
from tests.cli.commands import evalcell
from tests.cli.folders import KEY, Folders
from tests.remote.ledger_rows import change

ROOT = Path(__file__).parents[2]
LIVE = {"run": "now", **own_tags()}
ELSEWHERE = LIVE | {"host": "elsewhere-1"}


@pytest.fixture(scope="module")
def gone() -> dict[str, str]:
    """The tags of a process of this host that has ended."""
    code = "from sandboxes.remote.ledger import own_tags as t; print(*t().values())"
    host, pid, started = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).split()
    return {"run": "before", "host": host, "pid": pid, "started": started}


def test_durations() -> None:
    asked = click.Context(click.Command("reap")), click.Option(["--older-than"])
    assert [duration(*asked, text) for text in ("90s", "30m", "1h", "2d", None)] == [
        timedelta(seconds=90),
        timedelta(minutes=30),
        timedelta(hours=1),
        timedelta(days=2),
        None,
    ]
    for text in ("", "1", "h", "1.5h", "-1h", "1h30m", "1w", "1 h", "\uff19h", "9999999d"):
        with pytest.raises(click.BadParameter, match="write for example 90s, 30m, 1h or 2d"):
            duration(*asked, text)


@pytest.mark.rotating("long tests", "remote", "cli")
def test_sandboxes_of_providers_come_last_with_what_they_lack(folders: Folders) -> None:
    text = evalcell("sandboxes").stdout
    here, _, elsewhere = text.partition("On a provider's machines; script and rows are sent there\n")
    assert "\nprocess\n" in here
    shared, _, own = elsewhere.partition("\nfolder\n")
    assert shared.split()[:2] == ["runs", "python,"]
    assert shared.count("isolation call, batch") == 1, "said once for all of them"
    told = " ".join(own.split())
    assert told.startswith("state not available: FOLDER_KEY is not set; set it to the key of your account")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "available; credentials found, not tested" in " ".join(evalcell("sandboxes", FOLDER_KEY=KEY).stdout.split())


def test_without_credentials_nothing_is_said_to_be_well(folders: Folders) -> None:
    for command in (["sandboxes", "--live"], ["reap"]):
        result = evalcell(*command)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "can be asked, so nothing was looked for; set a provider's key" in result.stderr
        assert "folder" in result.stderr
    result = evalcell("reap", "--provider", "folder")
    assert (result.exit_code, result.stderr) == (
        3,
        "evalcell: FOLDER_KEY is not set; set it to the key of your account\n",
    )
    result = evalcell("reap", "--provider", "wasm")
    assert result.exit_code == 2
    assert "the wasm sandbox runs on this machine; choose one of: " in result.stderr
    assert "folder" in result.stderr


class Refusing(BaseHTTPRequestHandler):
    """Takes no key."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.mark.rotating("long tests", "remote", "cli")
def test_a_provider_that_cannot_be_asked_is_never_said_to_have_nothing(folders: Folders) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}"
        for wrong, says in (({"E2B_DOMAIN": "127.0.0.1"}, "is not a domain"), ({"E2B_API_URL": at}, "answered 401")):
            for command in (["sandboxes", "--live"], ["reap"]):
                result = evalcell(*command, FOLDER_KEY=KEY, E2B_API_KEY="e2b_0", **wrong)
                assert result.exit_code == 3
                assert result.stdout in ("no machines at folder\n", "nothing is left over at folder\n")
                assert "evalcell: e2b: E2B" in result.stderr
                assert says in result.stderr
        server.shutdown()


MEANINGLESS = [
    ["--with", "numpy"],
    ["--lang", "ts"],
    ["--live", "--lang", "ts"],
    ["--try", "wasm", "--with", "numpy"],
    ["--with-requirements", "x"],
    ["--try", "process", "--with-requirements", "none.txt"],
    ["--try", "wasm", "--lang", "ts"],
    ["--try", "deno", "--with", "numpy"],
]


@pytest.mark.parametrize(
    "words", [["--live", "--try", "wasm"], ["--env-file", "x"], ["--try", "nowhere"], *MEANINGLESS]
)
def test_wrong_usage_of_sandboxes(words: list[str]) -> None:
    result = evalcell("sandboxes", *words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.rotating("long tests", "remote", "cli")
def test_what_runs_now_is_listed_with_whose_it_is(folders: Folders, gone: dict[str, str]) -> None:
    result = evalcell("sandboxes", "--live", FOLDER_KEY=KEY)
    assert (result.exit_code, result.stdout) == (0, "no machines at folder\n")
    folders.put("m1", LIVE, age=200)
    folders.put("m2", gone, age=7300)
    folders.put("m3", ELSEWHERE)
    folders.put("m4", {})
    result = evalcell("sandboxes", "--live", FOLDER_KEY=KEY)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"folder m1 3 min now live, process {os.getpid()}" in lines
    assert "folder m2 2 h before left over" in lines
    assert any(line.startswith("folder m3") and line.endswith("now of elsewhere-1") for line in lines)
    assert any(line.startswith("folder m4") and line.endswith("unknown owner") for line in lines)
    assert "4 machines at folder" in lines
    assert "evalcell reap ends the 1 machine left over" in lines
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert folders.machines == ["m1", "m2", "m3", "m4"]


def test_reap_ends_what_was_left_and_nothing_else(folders: Folders, gone: dict[str, str]) -> None:
    folders.put("m1", LIVE, age=7300)
    folders.put("m2", gone, age=60)
    folders.put("m3", ELSEWHERE, age=7300)
    result = evalcell("reap", "--dry-run", FOLDER_KEY=KEY)
    assert result.exit_code == 0
    assert "1 machine would be ended; leave out --dry-run to do it" in result.stdout
    assert folders.machines == ["m1", "m2", "m3"]
    result = evalcell("reap", "--older-than", "5m", "--dry-run", FOLDER_KEY=KEY)
    assert "m3" in result.stdout
    assert "m2" not in result.stdout
    result = evalcell("reap", FOLDER_KEY=KEY)
    assert (result.exit_code, result.stdout) == (0, "folder m2: ended\n")
    result = evalcell("reap", "--older-than", "1h", "--provider", "folder", FOLDER_KEY=KEY)
    assert (result.exit_code, result.stdout) == (0, "folder m3: ended\n")
    assert folders.machines == ["m1"]
    assert evalcell("reap", FOLDER_KEY=KEY).stdout == "nothing is left over at folder\n"


def test_an_order_whose_answer_nobody_heard_is_no_success_yet(folders: Folders, gone: dict[str, str]) -> None:
    """As after SIGKILL in the middle of an order. Then the machine comes after all."""
    folders.ledger.record_order("folder", str(folders.place / "machines"), "late", "before")
    change(folders.ledger, "late", pid=gone["pid"], started=gone["started"])
    result = evalcell("reap", FOLDER_KEY=KEY)
    assert result.exit_code == 3
    assert result.stdout == (
        "folder late: not there yet, requested a short time ago, it may still appear; run evalcell reap again later\n"
    )
    folders.put("late", {"run": "before"})
    assert evalcell("reap", FOLDER_KEY=KEY).stdout == "folder late: ended\n"
    assert (folders.machines, folders.ledger.open_entries()) == ([], [])


def test_what_was_not_asked_and_what_is_broken_is_told(folders: Folders, gone: dict[str, str]) -> None:
    folders.ledger.record_order("folder", "/another/account", "k1", "before")
    folders.ledger.record_order("folder", "/another/account", "k2", "before")
    change(folders.ledger, "k1", host="elsewhere-1")
    change(folders.ledger, "k2", event="broken")
    result = evalcell("reap", FOLDER_KEY=KEY)
    assert (result.exit_code, result.stdout) == (0, "nothing is left over at folder\n")
    assert result.stderr.splitlines() == [
        "evalcell: 1 machine of folder may be left at /another/account, which was not asked; "
        "set that account's key and run: evalcell reap",
        f"evalcell: skipped 1 row of {folders.ledger.path}, broken",
    ]


def test_an_env_file_has_the_key(folders: Folders, tmp_path: Path) -> None:
    file = tmp_path / "keys.env"
    file.write_text(f'# mine\nFOLDER_KEY="{KEY}"\n')
    result = evalcell("sandboxes", "--live", "--env-file", str(file))
    assert (result.exit_code, result.stdout) == (0, "no machines at folder\n")
    for words in (["sandboxes", "--live"], ["reap"]):
        result = evalcell(*words, "--env-file", str(tmp_path / "none"))
        assert result.exit_code == 2
        assert f"--env-file {tmp_path / 'none'} cannot be read" in result.stderr


@pytest.mark.rotating("long tests", "remote", "cli")
def test_a_try_tells_its_steps_and_leaves_nothing(folders: Folders) -> None:
    result = evalcell("sandboxes", "--try", "folder", FOLDER_KEY=KEY)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["order", "greet", "open", "load", "run", "close", "look", "it"]
    version = ".".join(map(str, sys.version_info[:3]))
    assert lines[3].split(None, 3)[3].startswith(f"Python {version}")
    assert lines[4].endswith("one row, and the right result; the script reaches no network")
    assert (folders.machines, folders.ledger.open_entries()) == ([], [])
    assert not folders.holds(KEY)
    assert KEY not in result.output


def test_a_try_of_a_sandbox_of_this_machine(folders: Folders) -> None:
    result = evalcell("sandboxes", "--try", "wasm")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["open", "load", "run", "close", "it"]


def test_a_try_that_fails_says_at_which_step(folders: Folders, tmp_path: Path) -> None:
    assert evalcell("sandboxes", "--try", "folder").exit_code == 3
    (tmp_path / "file").write_text("")
    result = evalcell("sandboxes", "--try", "folder", FOLDER_KEY=KEY, EVALCELL_STATE_DIR=str(tmp_path / "file"))
    assert result.exit_code == 3
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["order", "open", "close"]
    assert "failed" in result.stdout
    assert "EVALCELL_STATE_DIR" in result.stderr
    assert folders.machines == []


SLEEPER = "import time\ndef evaluate(output):\n    time.sleep(60)\n"


@pytest.mark.rotating("long tests", "remote", "cli")
def test_what_a_killed_run_left_is_ended_by_reap_but_no_live_run(folders: Folders, here: Path) -> None:
    (here / "slow.py").write_text(SLEEPER)
    words = ["run", "slow.py", "data.jsonl", "--sandbox", "folder", "-j", "1", "--timeout", "90"]
    code = (
        f"import sys; sys.path[:0] = {[str(folders.installed), str(ROOT)]!r}; from runner.__main__ import main; main()"
    )
    quiet = subprocess.DEVNULL
    run = subprocess.Popen([sys.executable, "-c", code, *words], env=os.environ | {"FOLDER_KEY": KEY}, stderr=quiet)
    try:
        deadline = time.monotonic() + 30
        while not any(entry.id for entry in folders.ledger.open_entries()):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        live = evalcell("sandboxes", "--live", FOLDER_KEY=KEY).stdout
        assert f"live, process {run.pid}" in live
        result = evalcell("reap", "--older-than", "0s", FOLDER_KEY=KEY)
        assert (result.exit_code, result.stdout) == (0, "nothing is left over at folder\n")
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    (machine,) = folders.machines
    assert evalcell("reap", FOLDER_KEY=KEY).stdout == f"folder {machine}: ended\n"
    assert (folders.machines, folders.ledger.open_entries()) == ([], [])
    assert not folders.holds(KEY)


@pytest.mark.rotating("long tests", "remote", "cli")
def test_rows_on_the_documentations_provider_come_out_as_here(folders: Folders, here: Path) -> None:
    result = evalcell(
        "parity", "length.py", "data.jsonl", "--sandbox", "wasm", "--sandbox", "folder", "-j", "2", FOLDER_KEY=KEY
    )
    assert result.exit_code == 0, result.output
    assert (folders.machines, folders.ledger.open_entries()) == ([], [])
    assert not folders.holds(KEY)
