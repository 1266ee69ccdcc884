"""Which machines are taken for left behind, and what becomes of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandboxes.remote.ledger import Ledger, own_tags
from sandboxes.remote.provider import (
    OWNER,
    BusyError,
    Command,
    CommandResult,
    ListedMachine,
    Machine,
    OnOutput,
    Order,
    Provider,
    RefusedError,
    UnreachableError,
)
from sandboxes.remote.reaper import leftovers, reap, survey
from tests.remote.ledger_rows import change


class Shelf(Provider):
    """Machines that are nothing but their entry in a dict."""

    name = "shelf"
    variables = ()
    address = "https://shelf.example"

    def __init__(self, values: Mapping[str, str]) -> None:
        self.machines: dict[str, ListedMachine] = {}
        self.hidden: dict[str, str] = {}
        """By key, the ids of machines that the list does not show yet."""
        self.killed: list[str] = []
        self.failures: list[Exception] = []

    def put(self, id: str, tags: Mapping[str, str], *, key: str = "", age: float = 0) -> None:
        self.machines[id] = ListedMachine(id, key, datetime.now(UTC) - timedelta(seconds=age), {"owner": OWNER, **tags})

    async def create(self, order: Order) -> Machine:
        raise RefusedError("nothing is made here")

    async def find(self, key: str) -> Machine | None:
        return Machine(self.hidden[key], key) if key in self.hidden else None

    async def kill(self, id: str) -> None:
        if self.failures:
            raise self.failures.pop()
        self.machines.pop(id, None)
        self.killed.append(id)

    async def list(self) -> AsyncIterator[ListedMachine]:
        for one in list(self.machines.values()):
            yield one

    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        raise RefusedError("nothing runs here")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf({})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


@pytest.fixture(scope="module")
def gone() -> dict[str, str]:
    """The tags of a process of this host that has ended."""
    code = "from sandboxes.remote.ledger import own_tags as t; print(*t().values())"
    root = Path(__file__).parents[2]
    host, pid, started = subprocess.check_output([sys.executable, "-c", code], cwd=root, text=True).split()
    return {"run": "old", "host": host, "pid": pid, "started": started}


LIVE = {"run": "now", **own_tags()}
ELSEWHERE = LIVE | {"host": "elsewhere-1"}


def note(ledger: Ledger, gone: dict[str, str], key: str, id: str = "", *, age: float = 0, address: str = "") -> None:
    """As a run that was killed left it."""
    ledger.record_order("shelf", address or Shelf.address, key, "old")
    if id:
        ledger.record_creation(key, id)
    change(ledger, key, at=(datetime.now(UTC) - timedelta(seconds=age)).isoformat(), **gone)


def ended(shelf: Shelf, ledger: Ledger, older_than: float | None = None) -> dict[str, str]:
    """The fate of each leftover by key or id."""

    async def work() -> dict[str, str]:
        age = None if older_than is None else timedelta(seconds=older_than)
        done = await reap(shelf, ledger, await leftovers(shelf, ledger, age))
        return {one.machine.id or one.machine.key: one.fate for one in done}

    return asyncio.run(work())


def states(shelf: Shelf, ledger: Ledger) -> dict[str, tuple[str, bool]]:
    return {one.id: (one.state, one.listed) for one in asyncio.run(survey(shelf, ledger))}


def test_only_what_a_dead_run_of_this_host_left_is_ended(shelf: Shelf, ledger: Ledger, gone: dict[str, str]) -> None:
    shelf.put("live", LIVE, age=9999)
    shelf.put("left", gone)
    shelf.put("far", ELSEWHERE)
    shelf.put("bare", {"run": "x"})
    assert states(shelf, ledger) == {
        "live": ("live", True),
        "left": ("leftover", True),
        "far": ("elsewhere", True),
        "bare": ("elsewhere", True),
    }
    assert ended(shelf, ledger) == {"left": "killed"}
    assert shelf.killed == ["left"]


def test_with_an_age_other_hosts_machines_are_ended_too_but_no_live_one(
    shelf: Shelf, ledger: Ledger, gone: dict[str, str]
) -> None:
    for name, tags in (("live", LIVE), ("left", gone), ("far", ELSEWHERE), ("bare", {})):
        shelf.put(f"old-{name}", tags, age=7200)
        shelf.put(f"new-{name}", tags, age=60)
    assert ended(shelf, ledger, older_than=3600) == {"old-left": "killed", "old-far": "killed", "old-bare": "killed"}
    assert sorted(shelf.killed) == ["old-bare", "old-far", "old-left"]


def test_the_ledger_is_believed_before_the_providers_tags(shelf: Shelf, ledger: Ledger, gone: dict[str, str]) -> None:
    ledger.record_order("shelf", Shelf.address, "key1", "now")
    ledger.record_creation("key1", "mine")
    shelf.put("mine", gone, key="key1")
    note(ledger, gone, "key2", "theirs")
    shelf.put("theirs", LIVE)  # and the provider tells no key
    assert ended(shelf, ledger) == {"theirs": "killed"}
    assert [e.key for e in ledger.open_entries()] == ["key1"]


def test_what_the_ledger_alone_has_is_ended_and_struck_out(shelf: Shelf, ledger: Ledger, gone: dict[str, str]) -> None:
    note(ledger, gone, "listed-no-more", "id1")
    shelf.hidden["unheard"] = "id2"
    note(ledger, gone, "unheard")
    assert {one.key: one.listed for one in asyncio.run(survey(shelf, ledger))} == {
        "listed-no-more": False,
        "unheard": False,
    }
    assert ended(shelf, ledger) == {"id1": "killed", "unheard": "killed"}
    assert sorted(shelf.killed) == ["id1", "id2"]
    assert ledger.open_entries() == []


def test_an_order_without_an_answer_is_kept_until_it_can_no_longer_come(
    shelf: Shelf, ledger: Ledger, gone: dict[str, str]
) -> None:
    note(ledger, gone, "young", age=60)
    note(ledger, gone, "old", age=3600)
    assert ended(shelf, ledger) == {"young": "unknown", "old": "gone"}
    assert [e.key for e in ledger.open_entries()] == ["young"]
    assert shelf.killed == []


def test_a_host_of_the_same_name_is_not_taken_for_this_one(shelf: Shelf, ledger: Ledger, gone: dict[str, str]) -> None:
    """A copy of a machine has its name and its id, and other processes; only its start tells them apart."""
    for name, since in (("copy", int(gone["started"]) ^ 1 << 40), ("untold", 0), ("noted", 0)):
        shelf.put(name, gone | {"started": str(since)}, key=f"key-{name}")
    note(ledger, gone | {"started": "0"}, "key-noted", "noted")
    assert ended(shelf, ledger) == {"noted": "killed"}
    assert {one: state for one, (state, _) in states(shelf, ledger).items()} == {
        "copy": "elsewhere",
        "untold": "elsewhere",
    }


def test_another_deployments_machines_are_not_asked_about_here(
    shelf: Shelf, ledger: Ledger, gone: dict[str, str]
) -> None:
    note(ledger, gone, "key1", "id1", address="https://other.example")
    assert ended(shelf, ledger) == {}
    assert len(ledger.open_entries()) == 1


def test_a_machine_of_this_process_alone_in_the_ledger_is_left(shelf: Shelf, ledger: Ledger) -> None:
    ledger.record_order("shelf", Shelf.address, "key1", "now")
    ledger.record_creation("key1", "id1")
    assert ended(shelf, ledger, older_than=0) == {}
    assert shelf.killed == []


def test_what_a_run_of_a_living_process_gave_up_is_ended(shelf: Shelf, ledger: Ledger) -> None:
    """As in a notebook: its process goes on, and the run that could not end its machine is long over."""
    for key in ("key1", "key2"):
        ledger.record_order("shelf", Shelf.address, key, "now")
        ledger.record_creation(key, f"id-{key}")
        shelf.put(f"id-{key}", LIVE, key=key)
    ledger.record_order("shelf", Shelf.address, "key3", "now")
    ledger.record_abandonment("key1")
    ledger.record_abandonment("key3")
    shelf.hidden["key3"] = "id-key3"
    assert ended(shelf, ledger) == {"id-key1": "killed", "key3": "killed"}
    assert [e.key for e in ledger.open_entries()] == ["key2"]
    assert ledger.is_ended("key2") is False


def test_what_cannot_be_ended_is_told_and_stays(shelf: Shelf, ledger: Ledger, gone: dict[str, str]) -> None:
    note(ledger, gone, "key1", "id1")
    shelf.failures = [RefusedError("the key is not allowed to end machines")]
    (left,) = asyncio.run(leftovers(shelf, ledger))
    (done,) = asyncio.run(reap(shelf, ledger, [left]))
    assert (done.fate, done.error) == ("failed", "the key is not allowed to end machines")
    assert len(ledger.open_entries()) == 1
    shelf.failures = [UnreachableError("502"), BusyError("slowly", after=0.05)]
    assert ended(shelf, ledger) == {"id1": "killed"}
