"""Written pages are found and put back, whether the kernel scans for them or only has a map."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable

import pytest

from sandboxes import Call
from sandboxes.wasm.restore import _REGIONS as REGIONS
from sandboxes.wasm.restore import PAGE, PageMap, restores_pages
from tests.sandboxes.backends import BACKENDS, evaluate

pytestmark = pytest.mark.skipif(not restores_pages(), reason="there is no page map here")

PAGES = 4200


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


@pytest.mark.parametrize("way", WAYS)
def test_written_pages_are_put_back(
    way: Callable[[PageMap], None], memories: tuple[Memory, Memory], content: bytes
) -> None:
    memory, pristine = memories
    page_map = PageMap()
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


def test_other_memories_are_told_apart(memories: tuple[Memory, Memory], content: bytes) -> None:
    """The same pages are written in both, one after the other."""
    page_map = PageMap()
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


@pytest.mark.parametrize("way", [refused, cut_short])
def test_a_call_is_as_fresh_where_the_kernel_does_not_scan(
    way: Callable[[PageMap], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(PageMap):
        def __init__(self) -> None:
            super().__init__()
            way(self)

    monkeypatch.setattr("sandboxes.wasm.fresh.PageMap", Other)
    source = "seen = []\ndef evaluate(x):\n    seen.extend([x] * 5000)\n    return [len(seen), len(set(seen))]\n"
    found = evaluate(BACKENDS[0], source, [Call(id=n, arguments={"x": n}) for n in range(5)])
    assert [e.value for e in found] == [[5000, 1]] * 5


def test_where_the_page_map_tells_nothing_new_instances_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(PageMap):
        def restore(self, address: int, pristine: int, size: int) -> int:
            return 0

    monkeypatch.setattr("sandboxes.wasm.fresh.PageMap", Silent)
    source = "seen = [1]\ndef evaluate():\n    seen.append(2)\n    return seen\n"
    found = evaluate(BACKENDS[0], source, [Call(id=n) for n in range(3)])
    assert [e.value for e in found] == [[1, 2]] * 3
