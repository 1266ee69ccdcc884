"""The ledger: what it keeps when several write, when they are killed, and when its rows are an enemy's."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import ledger as module
from sandboxes.remote.ledger import Ledger, Owner, own_tags, start_number, this_host
from tests.remote.ledger_rows import change, rows

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there are a process's start and state told")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this host."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin
    process.stdin.close()


def order(ledger: Ledger, key: str, id: str = "") -> None:
    ledger.record_order("e2b", "https://api.example", key, "run1")
    if id:
        ledger.record_creation(key, id)


def test_what_has_not_ended_is_open(ledger: Ledger) -> None:
    assert ledger.open_entries() == []
    for key in ("a", "b", "c", "d"):
        order(ledger, key, "" if key == "d" else f"id-{key}")
    ledger.record_end("b")
    ledger.record_end("d")
    assert [(e.key, e.id, e.event) for e in ledger.open_entries()] == [
        ("a", "id-a", "created"),
        ("c", "id-c", "created"),
    ]
    assert [ledger.is_ended(key) for key in "abcd"] == [False, True, False, True]
    (first, _) = ledger.open_entries()
    assert (first.run, first.host, first.pid) == ("run1", this_host(), os.getpid())
    assert own_tags() == {"host": first.host, "pid": str(first.pid), "started": str(int(first.started))}
    assert first.alive


def test_another_ledger_ends_what_this_one_began(ledger: Ledger) -> None:
    order(ledger, "a", "id-a")
    Ledger(ledger.path.parent).record_end("a")
    assert ledger.open_entries() == []
    Ledger(ledger.path.parent).record_end("never-ordered")
    nowhere = Ledger(ledger.path.parent / "nowhere")
    nowhere.record_end("never-ordered")
    assert not nowhere.path.parent.exists(), "nothing is made for what is not there"


def test_a_machine_that_comes_after_its_end_is_open_again(ledger: Ledger) -> None:
    order(ledger, "a")
    ledger.record_end("a")
    order(ledger, "a", "id-a")
    assert [e.id for e in ledger.open_entries()] == ["id-a"]


def test_folder_and_file_are_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "mine"))
    ledger = Ledger()
    order(ledger, "a")
    assert ledger.path == tmp_path / "mine" / "machines.sqlite3"
    assert (ledger.path.parent.stat().st_mode & 0o777, ledger.path.stat().st_mode & 0o777) == (0o700, 0o600)
    ledger.path.write_bytes(b"")
    ledger.path.chmod(0o644)  # as left by a process that was killed while it made it
    order(ledger, "a")
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_ordered_that_cannot_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailableError, match="EVALCELL_STATE_DIR"):
        order(Ledger(tmp_path / "file"), "a")


def test_a_link_is_not_followed(ledger: Ledger, tmp_path: Path) -> None:
    order(ledger, "a")
    ledger.path.rename(tmp_path / "elsewhere")
    ledger.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SandboxUnavailableError, match="not a regular file"):
        ledger.open_entries()
    with pytest.raises(SandboxUnavailableError, match="not a regular file"):
        order(ledger, "b")


def test_a_folder_in_the_place_of_a_file_is_told(ledger: Ledger) -> None:
    in_the_way = ledger.path
    in_the_way.mkdir(parents=True)
    for use in (lambda: order(ledger, "k"), ledger.open_entries):
        with pytest.raises(SandboxUnavailableError, match=f"{in_the_way}.*; move it away, or set EVALCELL_STATE_DIR"):
            use()


@pytest.mark.parametrize("content", [b"machines\n" * 1000, b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 5000])
def test_a_file_that_is_no_list_is_told_and_kept(ledger: Ledger, content: bytes) -> None:
    ledger.path.parent.mkdir()
    ledger.path.write_bytes(content)
    for use in (lambda: order(ledger, "k"), ledger.open_entries):
        with pytest.raises(SandboxUnavailableError, match=r"\(file is not a database\); move it away, or set EVALCELL"):
            use()
    assert ledger.path.read_bytes() == content


HOSTILE = {
    "endless": "CREATE VIEW machines AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) "
    "SELECT count(*) AS run, 1 AS host, 1 AS pid, 1 AS started, 1 AS at, 1 AS event, 1 AS provider, 1 AS address, "
    "1 AS key, 1 AS id, 1 AS rowid FROM n",
    "huge": "CREATE VIEW machines AS SELECT hex(zeroblob(100000000)) AS run, 1 AS host, 1 AS pid, 1 AS started, "
    "1 AS at, 1 AS event, 1 AS provider, 1 AS address, 1 AS key, 1 AS id, 1 AS rowid",
    "another": "CREATE TABLE machines (name)",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_another_list_of_that_name_is_told(ledger: Ledger, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.5)
    ledger.path.parent.mkdir()
    rows(ledger, HOSTILE[kind])
    with pytest.raises(SandboxUnavailableError, match=r"cannot use .*; move it away, or set EVALCELL_STATE_DIR"):
        ledger.open_entries()


def test_a_list_that_is_held_for_long_is_told(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.2)
    order(ledger, "a")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SandboxUnavailableError, match=r"\(database is locked\); end the process that holds it"):
            order(ledger, "b")
    order(ledger, "b")
    assert [e.key for e in ledger.open_entries()] == ["a", "b"]


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root may write everywhere")
def test_a_list_that_cannot_be_written_is_read(ledger: Ledger) -> None:
    order(ledger, "a", "id-a")
    ledger.path.chmod(0o400)
    ledger.path.parent.chmod(0o500)
    try:
        assert [e.id for e in ledger.open_entries()] == ["id-a"]
        with pytest.raises(SandboxUnavailableError, match=r"readonly database\); set EVALCELL_STATE_DIR to another"):
            order(ledger, "b")
    finally:
        ledger.path.parent.chmod(0o700)


def test_a_password_in_an_address_is_not_written(ledger: Ledger) -> None:
    ledger.record_order("e2b", "https://me:hunter2@api.example:8443/v1?token=hunter3#x", "a", "run1")
    assert ledger.open_entries()[0].address == "https://api.example:8443/v1"
    assert b"hunter" not in ledger.path.read_bytes()


def test_an_address_may_have_any_letters(ledger: Ledger) -> None:
    ledger.record_order("modal", "https://api.example/my team/bücher%20", "a", "run1")
    (entry,) = ledger.open_entries()
    assert entry.address == module.plain("https://api.example/my team/bücher%20") == module.plain(entry.address)
    assert entry.address == "https://api.example/my%20team/b%C3%BCcher%20"


def test_an_id_that_is_none_is_the_providers_failure(ledger: Ledger) -> None:
    order(ledger, "a")
    with pytest.raises(SandboxUnavailableError, match="e2b gave a machine an invalid id; look for a"):
        ledger.record_creation("a", "two\nlines")
    assert [e.id for e in ledger.open_entries()] == [""]


def test_an_enemys_rows_are_skipped_and_counted(ledger: Ledger) -> None:
    enemys: dict[str, object] = {
        "id": "\x1b[2J",
        "address": "x" * 5000,
        "event": "exploded",
        "pid": -1,
        "started": float("inf"),
        "host": None,
        "run": b"\xff\xfe",
        "provider": 7,
        "at": "yesterday",
    }
    for column, value in enemys.items():
        order(ledger, column)
        change(ledger, column, **{column: value})
    order(ledger, "not-text")
    rows(ledger, "UPDATE machines SET id = CAST(x'c328' AS TEXT) WHERE key = 'not-text'")
    order(ledger, "a", "id-a")
    assert [e.id for e in ledger.open_entries()] == ["id-a"]
    assert ledger.broken == len(enemys) + 1


def test_of_very_many_the_latest_are_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        order(ledger, f"k{number}")
    monkeypatch.setattr(module, "MOST", 3)
    assert [e.key for e in ledger.open_entries()] == ["k5", "k6", "k7"]


def test_what_is_forgotten_is_taken_out(ledger: Ledger) -> None:
    for key, days in (("old", 31), ("young", 29)):
        order(ledger, key)
        change(ledger, key, at=(datetime.now(UTC) - timedelta(days=days)).isoformat())
    order(ledger, "new")
    assert [e.key for e in ledger.open_entries()] == ["young", "new"]


WRITER = """
import sys
from pathlib import Path
from sandboxes.remote import ledger
ledger._WAIT = 60.0
one = ledger.Ledger(Path(sys.argv[1]))
for number in range(25):
    key = f"{sys.argv[2]}-{number}"
    one.record_order("e2b", "", key, "run")
    one.record_creation(key, "id-" + key)
    if number % 5:
        one.record_end(key)
"""


def test_several_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "state"), f"w{number}"], cwd=ROOT)
        for number in range(4)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    ledger = Ledger(tmp_path / "state")
    found = {e.key: e.id for e in ledger.open_entries()}
    keys = [f"w{writer}-{number}" for writer in range(4) for number in range(0, 25, 5)]
    assert found == {key: f"id-{key}" for key in keys}
    assert ledger.broken == 0
    assert not any(e.alive for e in ledger.open_entries())


KILLED = """
import sys
from pathlib import Path
from sandboxes.remote.ledger import Ledger
one = Ledger(Path(sys.argv[1]))
for number in range(1000):
    one.record_order("e2b", "", f"k{number}", "run")
    print(number, flush=True)
    one.record_creation(f"k{number}", f"id-{number}")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there a process cannot be killed like that")
def test_a_process_that_is_killed_leaves_all_that_it_ordered(tmp_path: Path) -> None:
    for killed in range(6):
        folder = tmp_path / f"state-{killed}"
        command = [sys.executable, "-c", KILLED, str(folder)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            ordered = [process.stdout.readline() for _ in range(5)]
            time.sleep(killed * 0.0017)
            process.kill()
            ordered += process.stdout.readlines()
        ledger = Ledger(folder)
        found = ledger.open_entries()
        assert [e.key for e in found][: len(ordered)] == [f"k{number}" for number in range(len(ordered))]
        assert len(found) - len(ordered) in (0, 1), "noted, and not ordered yet"
        assert ledger.broken == 0
        order(ledger, "next")


def owner(pid: int, began: float, host: str = "") -> Owner:
    return Owner(run="r", host=host or this_host(), pid=pid, started=began)


def test_an_owner_lives_until_its_process_ends(other: subprocess.Popen[bytes]) -> None:
    began = start_number(other.pid)
    assert began is not None
    assert owner(other.pid, began).alive is True
    assert owner(other.pid, 0).alive is True, "where its start is not known the number alone counts"
    other.kill()
    deadline = time.monotonic() + 5
    while owner(other.pid, began).alive and time.monotonic() < deadline:
        time.sleep(0.01)
    if sys.platform == "linux":
        assert owner(other.pid, began).alive is False, "not collected yet, but it has ended"
    other.wait()
    assert owner(other.pid, began).alive is False


@LINUX
def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    began = start_number(os.getpid())
    assert began
    assert owner(os.getpid(), began).alive is True
    assert owner(os.getpid(), began + 1).alive is False
    assert float(own_tags()["started"]) == began, "nothing is lost on the way through a tag"


def test_nobody_here_knows_of_another_host() -> None:
    assert owner(os.getpid(), 0, host="elsewhere-0").alive is None
    assert Owner.from_tags({"host": this_host(), "pid": "1; rm", "started": "0", "run": "r"}) is None
    assert Owner.from_tags({"pid": "1"}) is None
