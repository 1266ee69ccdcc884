"""Make the objects that are in the image live for ever, so that no call writes to them only to count references."""

import struct
import zlib

from .errors import Assertion, require

_MARK = "evalcell: these live as long as their memory".encode("utf-16-le")  # guest_memory.MARK
_HEAD = struct.Struct("<II")

# Include/refcount.h of CPython 3.14, where pointers have 32 bits: a count of at least _LEAST is never changed.
_LEAST, _FOR_EVER = 1 << 30, 5 << 28

_MOST = 1 << 20  # references to one object that are plausible


def make_lasting(image: bytearray) -> int:
    """
    Write the count into all objects that the guest lists; how many there are.

    A count is an object's first word.

    Raises:
        GuestAssertionError: If anything is not as it should be.
    """
    addresses = _listed(image)
    for address in addresses:
        (count,) = struct.unpack_from("<i", image, address)
        _check(0 < count < _MOST or count >= _LEAST, f"an object at {address} has {count} references")
        if count < _LEAST:
            struct.pack_into("<i", image, address, _FOR_EVER)
    return len(addresses)


def _listed(image: bytearray) -> tuple[int, ...]:
    at = image.find(_MARK)
    _check(at >= 0 and image.find(_MARK, at + 1) < 0, "the guest's memory has no list of its objects, or several")
    start = at + len(_MARK) + _HEAD.size
    _check(start < len(image), "the list has no head")
    number, checksum = _HEAD.unpack_from(image, start - _HEAD.size)
    body = bytes(image[start : start + 4 * number])
    _check(number > 0 and len(body) == 4 * number and zlib.crc32(body) == checksum, "the list is damaged")
    addresses = struct.unpack(f"<{number}I", body)
    _check(max(addresses) < len(image) - 8 and not any(a % 4 for a in addresses), "an address is none of an object")
    return addresses


def _check(condition: bool, why: str) -> None:
    require(condition, Assertion.LASTING_OBJECTS_ARE_KNOWN, why)
