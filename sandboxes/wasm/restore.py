"""
Which pages of an instance's memory were written, and putting them back. Linux only.

`/proc/self/pagemap` tells for each page whether it is still the mapped image's own (bit 61) or a private copy that a
write has made. Source: the kernel's Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import c_size_t, c_void_p

PAGE = 4096
_ENTRY = 8  # bytes a page
_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20  # in an entry's highest byte
_WRITTEN = bytes(bool(b & _SWAPPED or (b & _PRESENT and not b & _OF_FILE)) for b in range(256))


class PageMap:
    """Raises OSError where the kernel does not give the page map."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux") or os.sysconf("SC_PAGE_SIZE") != PAGE:
            raise OSError("there is no page map on this platform")
        self._fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        # Not ctypes.memmove: it lets the GIL go, which costs more than a copy of one page.
        self._move = ctypes.PyDLL(None).memmove
        self._move.argtypes = (c_void_p, c_void_p, c_size_t)
        self._move.restype = None

    def restore(self, address: int, pristine: int, size: int) -> int:
        """Copies every written page of `size` bytes at `address` back from `pristine`; returns how many there were."""
        pages = size // PAGE
        entries = os.pread(self._fd, pages * _ENTRY, address // PAGE * _ENTRY)
        if len(entries) != pages * _ENTRY:
            raise OSError("the page map is shorter than the memory")
        written = entries[_ENTRY - 1 :: _ENTRY].translate(_WRITTEN)
        start, total = written.find(1), 0
        while start >= 0:
            end = written.find(0, start)
            if end < 0:
                end = pages
            self._move(address + start * PAGE, pristine + start * PAGE, (end - start) * PAGE)
            total += end - start
            start = written.find(1, end)
        return total

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def restores_pages() -> bool:
    """Whether this platform gives a page map at all; each program still proves it for itself."""
    try:
        PageMap().close()
    except OSError:
        return False
    return True
