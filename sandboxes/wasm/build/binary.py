"""Read the integers, names and sections of WebAssembly files."""

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import WasmFormatError

COMPONENT_PREAMBLE = b"\0asm\x0d\0\x01\0"


class Reader:
    """A position in a byte string; reading past `end` raises WasmFormatError."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = start
        self.end = len(data) if end is None else end

    @property
    def at_end(self) -> bool:
        return self.position >= self.end

    def byte(self) -> int:
        if self.at_end:
            raise WasmFormatError(f"unexpected end of WebAssembly at byte {self.position}")
        value = self.data[self.position]
        self.position += 1
        return value

    def skip(self, size: int) -> int:
        """Step over `size` bytes; the position where they start."""
        start = self.position
        if start + size > self.end:
            raise WasmFormatError(f"unexpected end of WebAssembly: {size} more bytes promised at byte {start}")
        self.position += size
        return start

    def unsigned(self) -> int:
        """Return a LEB128 integer, unsigned."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        """Return a LEB128 integer, signed."""
        start = self.position
        value = self.unsigned()
        bits = 7 * (self.position - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def name(self) -> str:
        size = self.unsigned()
        start = self.skip(size)
        return self.data[start : start + size].decode()


@dataclass(frozen=True)
class Section:
    """One section of a module or component: its content is `data[start:end]`."""

    id: int
    start: int
    end: int


def sections(data: bytes, preamble: bytes) -> Iterator[Section]:
    """Yield the sections in file order; raises WasmFormatError when `data` doesn't start with `preamble`."""
    if not data.startswith(preamble):
        raise WasmFormatError(f"not the expected kind of WebAssembly: it starts with {data[:8].hex()}")
    reader = Reader(data, len(preamble))
    while not reader.at_end:
        section_id = reader.byte()
        size = reader.unsigned()
        start = reader.skip(size)
        yield Section(section_id, start, start + size)
