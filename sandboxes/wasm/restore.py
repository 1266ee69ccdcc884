"""
Find the written pages of an instance's memory and restore them. Linux only.

`/proc/self/pagemap` shows for each page whether it is still the mapped image's own or a private copy that a write has
made. A page becomes a private copy only in a page fault of the thread that writes to it, and the kernel counts those.
As long as that count stands still, the written pages are those found last. Sources: getrusage(2), and the kernel's
Documentation/admin-guide/mm/pagemap.rst, include/uapi/linux/fs.h and mm/memory.c (mm_account_fault).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
from ctypes import c_int, c_uint64, c_ulong, c_void_p
from functools import partial
from typing import Any

_PATH = "/proc/self/pagemap"
PAGE = 4096
_ENTRY = 8  # bytes a page
_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20  # in an entry's highest byte
_WRITTEN = bytes(bool(b & _SWAPPED or (b & _PRESENT and not b & _OF_FILE)) for b in range(256))
_STRETCH = re.compile(rb"\x01+")

_SCAN = 0xC0606610  # PAGEMAP_SCAN, since Linux 6.7
_IS_FILE, _IS_PRESENT, _IS_SWAPPED = 1 << 2, 1 << 3, 1 << 4
_REGION = 24  # bytes: start, end, categories
_REGIONS = 2048  # most stretches that one scan tells


_kept: int | None = None


def keep_page_map() -> None:
    """Open it, if it is there, for all that is to come: this process will not be able to open anything."""
    global _kept
    with contextlib.suppress(OSError):
        _kept = _kept if _kept is not None else os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)


class PageMap:
    """
    The kernel's page map of this process. Raises OSError if there is none.

    `trusts_faults`: whether to read it only after a page fault. To be set by who has seen that the kernel counts those.
    """

    def __init__(self) -> None:
        if not sys.platform.startswith("linux") or os.sysconf("SC_PAGE_SIZE") != PAGE:
            raise OSError("there is no page map on this platform")
        import resource  # here: not every platform has it

        self._usage = partial(resource.getrusage, resource.RUSAGE_THREAD)
        self._fd = _kept if _kept is not None else os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)
        # It keeps the GIL: to release and take it again may cost more than the scan.
        self._scan: Any = ctypes.PyDLL(None).ioctl
        self._scan.argtypes = (c_int, c_ulong, c_void_p)
        self._scan.restype = c_int
        self._regions = (c_uint64 * (3 * _REGIONS))()
        self._told = ctypes.addressof(self._regions)
        # struct pm_scan_arg: size, flags, start, end, where it stopped, regions and how many, most pages; categories:
        # told inverted, all of, one of, returned
        self._asked = (c_uint64 * 12)()
        self._asked[0], self._asked[5], self._asked[6] = ctypes.sizeof(self._asked), self._told, _REGIONS
        self._asked[8:12] = [_IS_FILE, _IS_FILE, _IS_PRESENT | _IS_SWAPPED, _IS_FILE]
        self.trusts_faults = False
        self._known: tuple[int, ...] = ()
        """The memories that were looked at last, by which thread, and its faults before that."""
        self._planned: tuple[int, int, bytes | None, bytes] | None = None
        self._copies: list[tuple[memoryview, memoryview]] = []
        self._pages = 0

    def faults(self) -> int:
        """Return the page faults of this thread so far."""
        used = self._usage()
        return used.ru_minflt + used.ru_majflt

    def restore(self, address: int, pristine: int, size: int) -> int:
        """
        Copy every written page back; return the number of pages.

        Nobody but the calling thread may have written to them since the call before it.

        Args:
            address: Where the memory begins.
            pristine: Where its copy begins.
            size: In bytes.
        """
        known = (address, pristine, size, threading.get_ident(), self.faults()) if self.trusts_faults else ()
        if not known or known != self._known:
            self._plan(address, pristine, size)
            self._known = known  # with the faults before the look: one during it is seen the next time
        for to, of in self._copies:  # it takes half as long as process_vm_readv, or a call of memmove for each
            to[:] = of
        return self._pages

    def _plan(self, address: int, pristine: int, size: int) -> None:
        regions = self._scanned(address, size)
        written = self._read(address, size) if regions is None else b""
        found = address, pristine, regions, written
        if self._planned != found:  # most calls write the same pages
            stretches = _of_pages(written) if regions is None else _of_regions(regions, address)
            self._copies = [(_view(address + at, length), _view(pristine + at, length)) for at, length in stretches]
            self._pages = sum(length for _, length in stretches) // PAGE
            self._planned = found

    def _scanned(self, address: int, size: int) -> bytes | None:
        """The regions of written pages, as the kernel tells them; None if it cannot."""
        if self._scan is None:
            return None
        end = address + size
        self._asked[2], self._asked[3], self._asked[4] = address, end, 0
        found = self._scan(self._fd, _SCAN, ctypes.addressof(self._asked))
        if found < 0:  # an older kernel, or a container's filter
            self._scan = None
            return None
        if self._asked[4] != end:
            return None
        return ctypes.string_at(self._told, found * _REGION)

    def _read(self, address: int, size: int) -> bytes:
        """A byte for each page: 1 if it was written."""
        pages = size // PAGE
        entries = os.pread(self._fd, pages * _ENTRY, address // PAGE * _ENTRY)
        if len(entries) != pages * _ENTRY:
            raise OSError("the page map is shorter than the memory")
        return entries[_ENTRY - 1 :: _ENTRY].translate(_WRITTEN)

    def close(self) -> None:
        if self._fd >= 0 and self._fd != _kept:
            os.close(self._fd)
        self._fd = -1


def _of_regions(told: bytes, address: int) -> list[tuple[int, int]]:
    """Where the stretches begin, from `address`, and their lengths."""
    numbers = memoryview(told).cast("Q")
    return [(numbers[at] - address, numbers[at + 1] - numbers[at]) for at in range(0, len(numbers), 3)]


def _of_pages(written: bytes) -> list[tuple[int, int]]:
    stretches = [found.span() for found in _STRETCH.finditer(written)]
    return [(start * PAGE, (end - start) * PAGE) for start, end in stretches]


def _view(address: int, length: int) -> memoryview:
    """Of memory that nothing here keeps: not to be used once its mapping has ended."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def restores_pages() -> bool:
    """Say whether this platform has a page map at all; each program still tests it for itself."""
    try:
        PageMap().close()
    except OSError:
        return False
    return True
