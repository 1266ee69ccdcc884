"""
Write WebAssembly: for the build, and for the snapshots of loaded scripts.

It imports nothing of the project, since the build loads it before there is one. Source: WebAssembly Core Specification
2.0, chapter 5.
"""

PREAMBLE = b"\0asm\x01\0\0\0"
PAGE = 65536

GRAIN = 4096
"""Runs of zeros shorter than a page of the host do not justify a data segment of their own."""

SEGMENTS = 50_000
"""Most segments; wasmtime accepts no module with more than twice as many."""

_MEMORY, _EXPORT, _DATA = 5, 7, 11


def encode_unsigned(value: int) -> bytes:
    """LEB128 of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_signed(value: int) -> bytes:
    """LEB128 of a number of either sign."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def name(text: str) -> bytes:
    raw = text.encode()
    return encode_unsigned(len(raw)) + raw


def section(section_id: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return bytes([section_id]) + encode_unsigned(len(body)) + body


def memory_module(image: bytes | memoryview) -> bytes:
    """Return a module that only exports a memory with this content; runs of zeros take no space in it."""
    runs = _runs(image)
    data: list[bytes | memoryview] = [encode_unsigned(len(runs))]
    for start, end in runs:
        data += [b"\x00\x41" + encode_signed(start) + b"\x0b" + encode_unsigned(end - start), image[start:end]]
    front = (
        PREAMBLE,
        section(_MEMORY, b"\x01\x00", encode_unsigned(len(image) // PAGE)),
        section(_EXPORT, encode_unsigned(1), name("memory"), b"\x02\x00"),
        bytes([_DATA]) + encode_unsigned(sum(map(len, data))),
    )
    return b"".join((*front, *data))  # one copy, as this may be most of the host's memory


def _runs(image: bytes | memoryview) -> list[tuple[int, int]]:
    """The parts that are not all zero, in steps of GRAIN, or of more if there would be too many."""
    grain = GRAIN
    while len(runs := _stretches(image, grain)) > SEGMENTS:
        grain *= 4
    return runs


def _stretches(image: bytes | memoryview, grain: int) -> list[tuple[int, int]]:
    zeros = bytes(grain)
    runs: list[tuple[int, int]] = []
    for start in range(0, len(image), grain):
        end = min(start + grain, len(image))
        if image[start:end] == zeros[: end - start]:
            continue
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs
