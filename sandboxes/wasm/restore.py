"""
Find the written pages of an instance's memory and restore them. Linux only.

`/proc/self/pagemap` shows for each page whether it is still the mapped image's own (bit 61) or a private copy that a
write has made. Source: the kernel's Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from array import array
from ctypes import c_int, c_long, c_size_t, c_ulong, c_void_p
from typing import Any, NamedTuple

PAGE = 4096
_ENTRY = 8  # bytes a page
_PRESENT, _SWAPPED, _OF_FILE = 0x80, 0x40, 0x20  # in an entry's highest byte
_WRITTEN = bytes(bool(b & _SWAPPED or (b & _PRESENT and not b & _OF_FILE)) for b in range(256))
_STRETCH = re.compile(rb"\x01+")
_AT_ONCE = 1024  # most stretches of one call: the kernel's UIO_MAXIOV


class _Vector(NamedTuple):
    """What one call copies: addresses and lengths, as in `struct iovec`."""

    to: array[int]
    of: array[int]
    pieces: int
    size: int


class PageMap:
    """The kernel's page map of this process. Raises OSError if there is none."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux") or os.sysconf("SC_PAGE_SIZE") != PAGE:
            raise OSError("there is no page map on this platform")
        self._fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        # Not ctypes.memmove: it releases the GIL, which costs more than a copy of one page.
        library = ctypes.PyDLL(None)
        self._move = library.memmove
        self._move.argtypes = (c_void_p, c_void_p, c_size_t)
        self._move.restype = None
        self._gather: Any = getattr(library, "process_vm_readv", None)
        if self._gather is not None:
            self._gather.argtypes = (c_int, c_void_p, c_ulong, c_void_p, c_ulong, c_ulong)
            self._gather.restype = c_long
        self._planned: tuple[int, int, bytes] | None = None
        self._vectors: list[_Vector] = []

    def restore(self, address: int, pristine: int, size: int) -> int:
        """Copy every written page of `size` bytes at `address` back from `pristine`; the number of pages."""
        pages = size // PAGE
        entries = os.pread(self._fd, pages * _ENTRY, address // PAGE * _ENTRY)
        if len(entries) != pages * _ENTRY:
            raise OSError("the page map is shorter than the memory")
        written = entries[_ENTRY - 1 :: _ENTRY].translate(_WRITTEN)
        if self._planned != (address, pristine, written):  # most calls write the same pages
            self._vectors = _vectors(address, pristine, written)
            self._planned = address, pristine, written
        for vector in self._vectors:
            self._copy(vector)
        return sum(vector.size for vector in self._vectors) // PAGE

    def _copy(self, vector: _Vector) -> None:
        """Copy one stretch at a time if the kernel, or a container's filter, does not copy all at once."""
        if self._gather is not None:
            to, of = vector.to.buffer_info()[0], vector.of.buffer_info()[0]
            if self._gather(os.getpid(), to, vector.pieces, of, vector.pieces, 0) == vector.size:
                return
            self._gather = None
        for place in range(0, 2 * vector.pieces, 2):
            self._move(vector.to[place], vector.of[place], vector.of[place + 1])

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _vectors(address: int, pristine: int, written: bytes) -> list[_Vector]:
    """The copies for the pages whose byte in `written` is 1."""
    vectors = []
    stretches = [found.span() for found in _STRETCH.finditer(written)]
    for at in range(0, len(stretches), _AT_ONCE):
        to, of, size = array("L"), array("L"), 0
        for start, end in stretches[at : at + _AT_ONCE]:
            length = (end - start) * PAGE
            to.extend((address + start * PAGE, length))
            of.extend((pristine + start * PAGE, length))
            size += length
        vectors.append(_Vector(to, of, len(to) // 2, size))
    return vectors


def restores_pages() -> bool:
    """Whether this platform has a page map at all; each program still tests it for itself."""
    try:
        PageMap().close()
    except OSError:
        return False
    return True
