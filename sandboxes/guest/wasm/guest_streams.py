"""What the script prints: one bounded tail for stdout and stderr together."""

from __future__ import annotations

import builtins
import io
import sys

__builtins__ = dict(vars(builtins))  # our own, as a script may change those that it shares with its packages


class Flood(BaseException):
    """Not an Exception, so that `except Exception` in a loop of prints does not catch it."""


class _Tail(io.BufferedIOBase):
    def __init__(self) -> None:
        self.kept = bytearray()
        self.said = 0
        self.limit = 65536
        self.flood = 1 << 24

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # a TextIOWrapper passes bytes
        size = len(data)
        self.said += size
        if self.said > self.flood:
            raise Flood(f"it printed more than {self.flood} bytes")
        kept = self.kept
        kept += data if size <= self.limit else bytes(data)[-self.limit :] if self.limit else b""
        if len(kept) > 2 * self.limit:
            del kept[: len(kept) - self.limit]
        return size


class Output:
    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self.tail = _Tail()
        self.out = self._text()
        self.err = self._text()

    def _text(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(self.tail, encoding="utf-8", errors="surrogatepass", newline="\n", write_through=True)

    def limits(self, kept: int, flood: int) -> None:
        self.tail.limit = kept
        self.tail.flood = flood

    def begin(self) -> None:
        """Set the streams again: an earlier call of the same batch may have closed or replaced them."""
        if self.out.closed or self.err.closed:  # each also if what is below it is
            self._renew()
        self.tail.kept.clear()
        self.tail.said = 0
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        sys.stdin = sys.__stdin__ = io.StringIO("")

    def end(self) -> tuple[str, int]:
        """Return the text kept, and the number of bytes printed in all."""
        if not self.tail.said:
            return "", 0
        kept = bytes(self.tail.kept)
        kept = kept[max(0, len(kept) - self.tail.limit) :]
        while kept and kept[0] & 0xC0 == 0x80:  # the kept part began inside a character
            kept = kept[1:]
        return kept.decode("utf-8", "replace"), self.tail.said
