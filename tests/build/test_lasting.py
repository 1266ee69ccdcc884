"""Only what the guest lists gets a count that is never changed, and only if the list is whole."""

import struct
import zlib
from collections.abc import Callable

import pytest

from sandboxes.wasm.build.errors import GuestAssertionError
from sandboxes.wasm.build.lasting import _MARK, make_lasting

COUNTS = {400: 3, 408: 1, 1000: 7 << 28, 2044: 900}
ADDRESSES = list(COUNTS)


def told(addresses: list[int], number: int | None = None) -> bytes:
    body = struct.pack(f"<{len(addresses)}I", *addresses)
    return _MARK + struct.pack("<II", len(addresses) if number is None else number, zlib.crc32(body)) + body


def image(content: bytes, counts: dict[int, int] = COUNTS) -> bytearray:
    made = bytearray(b"\x11" * 4096)
    made[2500 : 2500 + len(content)] = content
    for address, count in counts.items():
        struct.pack_into("<i", made, address, count)
    return made


def test_the_listed_objects_last() -> None:
    before = image(told(ADDRESSES))
    after = bytearray(before)
    assert make_lasting(after) == len(ADDRESSES)
    for address, count in COUNTS.items():
        (now,) = struct.unpack_from("<i", after, address)
        assert now == (count if count >= 1 << 30 else 5 << 28)
        struct.pack_into("<i", after, address, count)
    assert after == before


def changed(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: image(b""), "no list of its objects, or several"),
        (lambda: image(told(ADDRESSES) * 2), "no list of its objects, or several"),
        (lambda: image(changed(told(ADDRESSES))), "the list is damaged"),
        (lambda: image(told([])), "the list is damaged"),
        (lambda: image(told(ADDRESSES, 900)), "the list is damaged"),
        (lambda: image(told([*ADDRESSES, 4092])), "none of an object"),
        (lambda: image(told([*ADDRESSES, 402])), "none of an object"),
        (lambda: image(told(ADDRESSES), COUNTS | {408: 0}), "has 0 references"),
        (lambda: image(told(ADDRESSES), COUNTS | {408: -1}), "has -1 references"),
        (lambda: image(told(ADDRESSES), COUNTS | {408: 1 << 29}), "has 536870912 references"),
        (lambda: bytearray(_MARK), "no head"),
    ],
)
def test_any_other_list_stops_the_build(made: Callable[[], bytearray], why: str) -> None:
    with pytest.raises(GuestAssertionError, match=f"lasting-objects-are-known failed: .*{why}"):
        make_lasting(made())
