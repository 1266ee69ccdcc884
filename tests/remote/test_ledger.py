"""The ledger: what it keeps when several write, when writes are torn, and when its lines are an enemy's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import ledger as module
from sandboxes.remote.ledger import Ledger, own_tags
from sandboxes.remote.owner import Owner, started, this_host

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
    ledger.creating("e2b", "https://api.example", key, "run1")
    if id:
        ledger.created(key, id)


def test_what_has_not_ended_is_open(ledger: Ledger) -> None:
    assert ledger.open_entries() == []
    for key in ("a", "b", "c", "d"):
        order(ledger, key, "" if key == "d" else f"id-{key}")
    ledger.ended("b")
    ledger.failed("d")
    assert [(e.key, e.id, e.event) for e in ledger.open_entries()] == [
        ("a", "id-a", "created"),
        ("c", "id-c", "created"),
    ]
    assert [ledger.is_settled(key) for key in "abcd"] == [False, True, False, True]
    (first, _) = ledger.open_entries()
    assert (first.run, first.host, first.pid) == ("run1", this_host(), os.getpid())
    assert own_tags() == {"host": first.host, "pid": str(first.pid), "started": str(int(first.started))}
    assert first.alive


def test_another_ledger_ends_what_this_one_began(ledger: Ledger) -> None:
    order(ledger, "a", "id-a")
    Ledger(ledger.path.parent).ended("a")
    assert ledger.open_entries() == []
    before = ledger.path.stat().st_size
    Ledger(ledger.path.parent).ended("never-ordered")
    assert ledger.path.stat().st_size == before


def test_a_machine_that_comes_after_its_end_is_open_again(ledger: Ledger) -> None:
    order(ledger, "a")
    ledger.ended("a")
    order(ledger, "a", "id-a")
    assert [e.id for e in ledger.open_entries()] == ["id-a"]


def test_folder_and_file_are_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "mine"))
    ledger = Ledger()
    order(ledger, "a")
    assert ledger.path == tmp_path / "mine" / "machines.jsonl"
    assert (ledger.path.parent.stat().st_mode & 0o777, ledger.path.stat().st_mode & 0o777) == (0o700, 0o600)


def test_nothing_is_ordered_that_cannot_be_written_down(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailableError, match="EVALCELL_STATE_DIR"):
        order(Ledger(tmp_path / "file"), "a")


def test_a_link_is_not_followed(ledger: Ledger, tmp_path: Path) -> None:
    order(ledger, "a")
    ledger.path.rename(tmp_path / "elsewhere")
    ledger.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SandboxUnavailableError, match="cannot use"):
        ledger.open_entries()
    with pytest.raises(SandboxUnavailableError, match="cannot use"):
        order(ledger, "b")


@pytest.mark.parametrize("name", ["machines.jsonl", "machines.lock"])
def test_a_folder_in_the_place_of_a_file_is_told(ledger: Ledger, name: str) -> None:
    in_the_way = ledger.path.with_name(name)
    in_the_way.mkdir(parents=True)
    for use in (lambda: order(ledger, "k"), ledger.open_entries, ledger.compact):
        if name == "machines.lock" and use == ledger.open_entries:
            continue  # reads without it
        with pytest.raises(SandboxUnavailableError, match=f"{in_the_way}.*; move it away, or set EVALCELL_STATE_DIR"):
            use()


def test_a_password_in_an_address_is_not_written(ledger: Ledger) -> None:
    ledger.creating("e2b", "https://me:hunter2@api.example:8443/v1?token=hunter3#x", "a", "run1")
    assert ledger.open_entries()[0].address == "https://api.example:8443/v1"
    assert "hunter" not in ledger.path.read_text()


def test_an_address_may_have_any_letters(ledger: Ledger) -> None:
    ledger.creating("modal", "https://api.example/my team/bücher%20", "a", "run1")
    (entry,) = ledger.open_entries()
    assert entry.address == module.plain("https://api.example/my team/bücher%20") == module.plain(entry.address)
    assert entry.address == "https://api.example/my%20team/b%C3%BCcher%20"


def test_an_id_that_is_none_is_the_providers_failure(ledger: Ledger) -> None:
    order(ledger, "a")
    with pytest.raises(SandboxUnavailableError, match="e2b gave a machine an id that is none; look for a"):
        ledger.created("a", "two\nlines")
    assert [e.id for e in ledger.open_entries()] == [""]


def test_a_torn_write_costs_its_own_line_only(ledger: Ledger) -> None:
    order(ledger, "a", "id-a")
    with ledger.path.open("ab") as file:
        file.write(ledger.path.read_bytes()[:100])
    order(ledger, "b", "id-b")
    assert [e.key for e in ledger.open_entries()] == ["a", "b"]
    assert ledger.broken == 1


def test_an_enemys_lines_are_skipped_and_counted(ledger: Ledger) -> None:
    order(ledger, "a", "id-a")
    whole = ledger.path.read_bytes().splitlines()[-1]
    lines = [
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null",
        whole.replace(b'"id-a"', b'"\\u001b[2J"'),
        whole.replace(b'"id-a"', b'"' + b"x" * 5000 + b'"'),
        whole.replace(b'"created"', b'"exploded"'),
        whole.replace(b'"pid":', b'"pid":-'),
        whole.replace(b'"started":', b'"started":1e400,"begun":'),
        whole.replace(b'{"run"', b'{"secret":1,"run"'),
    ]
    ledger.path.write_bytes(b"\n".join([*lines, whole, b""]))
    assert [e.id for e in ledger.open_entries()] == ["id-a"]
    assert ledger.broken == len(lines)


def test_a_large_file_is_read_from_its_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        order(ledger, f"k{number}")
    monkeypatch.setattr(module, "READ", 1000)
    kept = [e.key for e in ledger.open_entries()]
    assert kept
    assert kept == [f"k{number}" for number in range(30 - len(kept), 30)]
    assert ledger.broken == 0


def test_what_has_ended_or_is_forgotten_is_taken_out(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        order(ledger, f"k{number}", f"id{number}")
        if number % 2:
            ledger.ended(f"k{number}")
    (unfinished := ledger.path.with_name(".machines-of-one-that-was-killed")).touch()
    ledger.compact()
    assert not unfinished.exists()
    assert [e.key for e in ledger.open_entries()] == ["k0", "k2", "k4", "k6", "k8"]
    assert len(ledger.path.read_text().splitlines()) == 5
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(module, "FORGOTTEN", timedelta(seconds=-1))
    ledger.compact()
    assert ledger.path.read_text() == ""


WRITER = """
import sys
from pathlib import Path
from sandboxes.remote import ledger
ledger.LARGE = 3000
one = ledger.Ledger(Path(sys.argv[1]))
for number in range(25):
    key = f"{sys.argv[2]}-{number}"
    one.creating("e2b", "", key, "run")
    one.created(key, "id-" + key)
    if number % 5:
        one.ended(key)
"""


def test_several_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Each line of each is there, though the file is made smaller under them all the time."""
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
    assert ledger.path.stat().st_size < 4 * 25 * 2 * 200
    assert not any(e.alive for e in ledger.open_entries())


def owner(pid: int, began: float, host: str = "") -> Owner:
    return Owner(run="r", host=host or this_host(), pid=pid, started=began)


def test_an_owner_lives_until_its_process_ends(other: subprocess.Popen[bytes]) -> None:
    began = started(other.pid)
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
    began = started(os.getpid())
    assert began
    assert owner(os.getpid(), began).alive is True
    assert owner(os.getpid(), began + 1).alive is False
    assert float(own_tags()["started"]) == began, "nothing is lost on the way through a tag"


def test_nobody_here_knows_of_another_host() -> None:
    assert owner(os.getpid(), 0, host="elsewhere-0").alive is None
    assert Owner.tagged({"host": this_host(), "pid": "1; rm", "started": "0", "run": "r"}) is None
    assert Owner.tagged({"pid": "1"}) is None
