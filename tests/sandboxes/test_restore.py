"""Written pages are found and put back, with any of the ways in which the kernel tells of them."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sandboxes import Call, Limits
from sandboxes.protocol import call_request, load_request
from sandboxes.wasm.engine import Engine
from sandboxes.wasm.frames import Request
from sandboxes.wasm.fresh import Fresh, NewInstances, RestoredPages
from sandboxes.wasm.guests import Guests
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.restore import _REGIONS as REGIONS
from sandboxes.wasm.restore import PAGE, PageMap, restores_pages
from sandboxes.wasm.sandbox import bounds
from tests.scripts import python

pytestmark = pytest.mark.skipif(not restores_pages(), reason="there is no page map here")

PAGES = 4200


def values(source: str, count: int, look: Callable[[Fresh], None] = lambda _: None) -> list[Any]:
    """What calls from fresh states return, with `x` from 0; `look` is shown what gave them these."""
    limits = Limits()
    with Engine(*compile_guest(print)) as engine:
        guests = Guests(engine, "auto")
        assert guests.load(1, load_request(python(source), limits), bounds(limits, loading=True)).how == "reply"
        asked = [call_request(Call(id=n, arguments={"x": n}), limits) for n in range(count)]
        requests = [Request(n, None, text) for n, text in enumerate(asked) if isinstance(text, bytes)]
        found = [json.loads(raw.payload)["value"] for raw in guests.run(1, requests, bounds(limits), shared=False)]
        look(guests._programs[1])
        guests.close()
    return found


class Memory(mmap.mmap):
    """A private mapping of a file, as an instance's memory is."""

    @property
    def address(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


@pytest.fixture
def content() -> bytes:
    return b"".join(bytes([n % 251 + 1]) * PAGE for n in range(PAGES))


@pytest.fixture
def memories(content: bytes) -> tuple[Memory, Memory]:
    """One to write to, and one that is never written to."""
    fd = os.memfd_create("image")
    os.write(fd, content)
    made = [Memory(fd, len(content), flags=mmap.MAP_PRIVATE) for _ in range(2)]
    os.close(fd)
    return made[0], made[1]


def scanned(page_map: PageMap) -> None:
    pass


def read(page_map: PageMap) -> None:
    """As before Linux 6.7."""
    page_map._scan = None


def refused(page_map: PageMap) -> None:
    """As EPERM and ENOTTY are told."""
    page_map._scan = lambda *_: -1


def cut_short(page_map: PageMap) -> None:
    """There is room for few regions: more than one are told in part."""
    page_map._asked[6] = 1


WAYS = [scanned, read, refused, cut_short]
PATTERNS = {
    "none": [],
    "one": [7],
    "first and last": [0, PAGES - 1],
    "stretches": [*range(5, 90), *range(100, 103)],
    "more pieces than one scan tells": list(range(0, 2 * REGIONS + 8, 2)),
    "all": list(range(PAGES)),
}


@pytest.mark.parametrize("trusts", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_written_pages_are_put_back(
    way: Callable[[PageMap], None], trusts: bool, memories: tuple[Memory, Memory], content: bytes
) -> None:
    memory, pristine = memories
    page_map = PageMap()
    page_map.trusts_faults = trusts
    way(page_map)
    seen: set[int] = set()
    for written in (*PATTERNS.values(), *reversed(PATTERNS.values())):
        seen |= set(written)
        for round in range(2):  # the second time the same pages are known to be written
            for page in written:
                memory[page * PAGE + 100 : page * PAGE + 108] = bytes([round + 1] * 8)
            restored = page_map.restore(memory.address, pristine.address, len(content))
            assert restored == len(seen)
            assert memory[:] == content
    page_map.close()


@pytest.mark.parametrize("trusts", [False, True])
def test_other_memories_are_told_apart(trusts: bool, memories: tuple[Memory, Memory], content: bytes) -> None:
    """The same pages are written in both, one after the other."""
    page_map = PageMap()
    page_map.trusts_faults = trusts
    first, pristine = memories
    fd = os.memfd_create("image")
    os.write(fd, content)
    second = Memory(fd, len(content), flags=mmap.MAP_PRIVATE)
    os.close(fd)
    for memory in (first, second):
        memory[PAGE : PAGE + 4] = b"\0\0\0\0"
        assert page_map.restore(memory.address, pristine.address, len(content)) == 1
        assert memory[:] == content
    page_map.close()


def test_the_map_is_read_only_after_a_fault(
    memories: tuple[Memory, Memory], content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, pristine = memories
    page_map = PageMap()
    page_map.trusts_faults = True
    looked: list[int] = []
    restored = [0]
    counts = [5, 5, 6, 6, 5]
    plan = page_map._plan

    def noted(*memories: int) -> None:
        looked.append(restored[0])
        plan(*memories)

    monkeypatch.setattr(page_map, "_plan", noted)
    monkeypatch.setattr(page_map, "faults", lambda: counts[restored[0]])
    for _ in counts:
        memory[PAGE : PAGE + 4] = b"\0\0\0\0"
        assert page_map.restore(memory.address, pristine.address, len(content)) == 1
        assert memory[:] == content
        restored[0] += 1
    assert looked == [0, 2, 4]
    page_map.close()


def test_each_thread_has_faults_of_its_own(
    memories: tuple[Memory, Memory], content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many, by chance."""
    memory, pristine = memories
    page_map = PageMap()
    page_map.trusts_faults = True
    monkeypatch.setattr(page_map, "faults", lambda: 7)
    steps: list[tuple[int, bool]] = []

    def step(page: int) -> None:
        memory[page * PAGE : page * PAGE + 4] = b"\0\0\0\0"
        restored = page_map.restore(memory.address, pristine.address, len(content))
        steps.append((restored, memory[:] == content))

    for page in range(0, 8, 2):
        step(page)
        thread = threading.Thread(target=step, args=(page + 1,))
        thread.start()
        thread.join()
    assert steps == [(pages, True) for pages in range(1, 9)]
    page_map.close()


KEEPS = "seen = []\ndef evaluate(x):\n    seen.extend([x] * 5000)\n    return [len(seen), len(set(seen))]\n"


@pytest.mark.parametrize("way", [refused, cut_short])
def test_a_call_is_as_fresh_where_the_kernel_does_not_scan(
    way: Callable[[PageMap], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(PageMap):
        def __init__(self) -> None:
            super().__init__()
            way(self)

    monkeypatch.setattr("sandboxes.wasm.fresh.PageMap", Other)
    assert values(KEEPS, 5) == [[5000, 1]] * 5


@pytest.mark.parametrize("told", [0, 7])
def test_faults_that_the_kernel_does_not_count_are_not_trusted(told: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageMap, "faults", lambda self: told)
    trusted: list[bool] = []

    def look(states: Fresh) -> None:
        assert isinstance(states, RestoredPages)
        trusted.append(states._pages.trusts_faults)

    grows = "seen = []\ndef evaluate(x):\n    seen.extend([x] * 5000 * x)\n    return [len(seen), len(set(seen))]\n"
    assert values(grows, 4, look) == [[0, 0], *([5000 * n, 1] for n in (1, 2, 3))]
    assert trusted == [False]


def test_where_the_page_map_tells_nothing_new_instances_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(PageMap):
        def restore(self, address: int, pristine: int, size: int) -> int:
            return 0

    def look(states: Fresh) -> None:
        assert isinstance(states, NewInstances)

    monkeypatch.setattr("sandboxes.wasm.fresh.PageMap", Silent)
    assert values(KEEPS, 3, look) == [[5000, 1]] * 3
