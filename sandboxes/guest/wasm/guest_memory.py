"""
What the image's memory looks like, so that a call writes few of its pages: each of them is put back after the call.

Importing and compiling leave free pieces all over the memory, and the C library's allocator takes those first: they are
taken here, for good. And CPython counts references in the objects themselves: those that are there before any script
get a count that says that they live for ever, which is never changed. The build writes it, as nothing in here could.
"""

from __future__ import annotations

import builtins
import gc
import struct
import sys
import types
import zlib

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from typing import Any

__builtins__ = dict(vars(builtins))  # our own, as a script may change those that it shares with its packages

MARK = "evalcell: these live as long as their memory"
"""In front of the list for the build: a number of addresses, their checksum, the addresses."""

_HEAD = 21  # bytes of an empty `bytes`, and of the allocator's own in front of it
_LEAST, _SMALL, _LARGE = 32, 1 << 14, 1 << 19  # bytes of free pieces
_ROOM = 1 << 20

_members = type.__dict__["__dict__"].__get__

_taken: list[bytes] = []
_lasting: list[Any] = []


def fill(most: int) -> None:
    """
    Take small free pieces, `most` bytes in sum. What a call allocates then lies together, in a large piece.

    A fresh call that makes the memory grow is costly, so that there is some room at its end afterwards.
    """
    held = []  # large pieces: free again at the end
    try:
        end, size = id(bytes(_ROOM)), _LARGE
        while size >= _LEAST and most > 0:
            piece = bytes(size - _HEAD)
            if id(piece) >= end:  # there is none of this size left
                size -= max(16, size // 8 & ~15)
            elif size >= _SMALL:
                held.append(piece)
            else:
                _taken.append(piece)
                most -= size
    except MemoryError:  # of a script that has loaded as much as it may
        pass


def tell() -> None:
    """Keep a list of all objects for the build to find, until a script is loaded."""
    objects = _reachable()
    addresses = struct.pack(f"<{len(objects)}I", *map(id, objects))
    head = struct.pack("<II", len(objects), zlib.crc32(addresses))
    _lasting[:] = [objects, MARK.encode("utf-16-le") + head + addresses]  # its own text is in the memory too


def report() -> None:
    _lasting.clear()


_PASSING = (
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    BaseException,
    bytearray,  # app's spare one is freed
    memoryview,
)


def _reachable() -> list[Any]:
    """All objects that modules and classes hold, and that the build may make live for ever."""
    found: list[Any] = []
    seen = {id(found), id(_taken), id(_lasting)}
    left: list[Any] = [sys.modules, object]
    while left:
        o = left.pop()
        if id(o) in seen or isinstance(o, _PASSING):
            continue
        seen.add(id(o))
        found.append(o)
        left += gc.get_referents(o)
        if isinstance(o, type):
            left += (*o.__mro__, *gc.get_referents(_members(o)), *type.__subclasses__(o))
        elif isinstance(o, types.CodeType):
            left += (o.co_consts, o.co_names, o.co_name, o.co_qualname, o.co_filename)
    return found
