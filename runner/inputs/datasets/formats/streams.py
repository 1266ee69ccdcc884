"""A file's bytes as UTF-8 text: unpacked, and out of another encoding."""

from __future__ import annotations

import codecs
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast

from runner.core.errors import DatasetError
from runner.inputs.datasets.formats.column_values import UNDECODED_BYTE
from runner.inputs.datasets.work import ask
from sandboxes.words.wording import Message, Setting

BUFFER = 1 << 16
COMPRESSION_SUFFIXES = (".gz", ".zst")
"""Suffixes of files that are unpacked while they are read."""

FREE = 256 << 20
"""Bytes that a file may be unpacked to, whatever its size."""
RATIO = 200
"""How many times its size a larger one may be unpacked to. Text becomes 3 to 50 times as large."""

_WINDOW = 27  # the binary logarithm of the bytes that zstd may look back
_BAD = "evalcell.bad"
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
_LOOK = 4096
_SOON = 64 << 20
_RARE = 100
"""Of the bytes of UTF-16, one of so many at least is 0: line ends, and what separates columns, have one each."""
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""Byte order marks; the longer one counts where another begins alike."""

# The character that becomes this byte, which is not UTF-8: the row that it is in is refused, and no other.
codecs.register_error(_BAD, lambda error: (chr(0xDC00 + UNDECODED_BYTE), getattr(error, "end", 0)))


def as_utf8(file: BufferedReader, name: str, encoding: str | None) -> tuple[BufferedReader, str | None]:
    """
    Return the file as UTF-8 without a byte order mark, and its encoding if that was found out.

    Raises:
        DatasetError: The dataset cannot be read.
    """
    found = None
    if encoding is None:
        start = file.peek(_LOOK)[:_LOOK]
        found = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
        if found is None and (guess := _without_mark(start)):
            step = "; give its encoding, such as "
            raise DatasetError(Message(f"{name} seems to be {guess[:6].upper()}", step, Setting("encoding", guess)))
    if (wanted := encoding or found) and codecs.lookup(wanted).name != "utf-8":
        file = BufferedReader(_Recoded(file, wanted), BUFFER)
    if file.peek(3).startswith(MARK):
        file.read(len(MARK))
    return file, found


def beginning(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the first bytes of a file, as many as are soon read."""
    left = _SOON
    with open(path, "rb", buffering=0) as file:
        while left > 0 and (part := file.read(min(1 << 20, left))):
            left -= len(part)
            yield part


def with_line_feeds(file: BufferedReader) -> BufferedReader | None:
    """Return the text with line feeds, if its lines end in carriage returns alone, as on old Macs; else None."""
    start = file.peek(BUFFER)[:BUFFER]
    return BufferedReader(_LineFeeds(file), BUFFER) if b"\r" in start[:-1] and b"\n" not in start else None


def with_first_line(file: BufferedReader) -> BufferedReader:
    """Return the same file, whose first line that is not blank can be peeked at, unless it is long."""
    start = b""
    if len(file.peek(1)) < BUFFER:
        while len(start) < BUFFER and b"\n" not in start.lstrip() and (more := file.read1(BUFFER)):
            start += more
    return BufferedReader(_Joined(start, file), 2 * BUFFER) if start else file


def unpack(file: BufferedReader, name: str, suffix: str) -> BufferedReader:
    """Return the content of a compressed file. Raises DatasetError if nothing here can unpack it."""
    counted = _Counted(file)
    if suffix == ".gz":
        from gzip import GzipFile

        return BufferedReader(_Unpacked(counted, GzipFile(fileobj=cast(BinaryIO, counted), mode="rb")), BUFFER)
    return BufferedReader(_Unpacked(counted, _zstd(counted, name)), BUFFER)


def refuse_encoding(encoding: str) -> str | None:
    """Return why text cannot be read in this encoding; None if it can."""
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError):
        return "is not an encoding that Python knows; write for example cp1252, latin-1, utf-16 or shift_jis"
    if not getattr(info, "_is_text_encoding", True) or info.incrementaldecoder is None:
        return "is not an encoding of text; write for example cp1252"
    return None


class _Counted:
    """Counts the bytes that are read from a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        return data

    def close(self) -> None:
        self._file.close()


class Filter(RawIOBase, ABC):
    """What is read of a file on its way; it closes the file."""

    def __init__(self, file: Any) -> None:
        self._file = file

    @abstractmethod
    def some(self, size: int) -> bytes:
        """Return at most so many bytes; none at the end. Raises OSError."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Called by BufferedReader. Raises OSError."""
        data = self.some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Unpacked(Filter):
    """Reads what a decompressor gives, up to a bounded multiple of what it took."""

    def __init__(self, packed: _Counted, reader: Any) -> None:
        super().__init__(packed)
        self._reader = reader
        self._size = 0

    def some(self, size: int) -> bytes:
        """Return the next bytes. Raises OSError for data that is damaged, or expands too far."""
        ask()  # a little file may become large
        try:
            data: bytes = self._reader.read(size)
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"its compressed data is damaged: {error}") from None
        self._size += len(data)
        if self._size > FREE and self._size > RATIO * self._file.size:
            raise OSError(f"it expands to more than {RATIO} times its size; if you trust it, unpack it yourself")
        return data


class _Joined(Filter):
    """Reads what was read already, and then the rest of a file."""

    def __init__(self, start: bytes, file: BufferedReader) -> None:
        super().__init__(file)
        self._start = start

    def some(self, size: int) -> bytes:
        if not self._start:
            return cast(bytes, self._file.read1(size))
        data, self._start = self._start[:size], self._start[size:]
        return data


class _LineFeeds(Filter):
    """Reads each carriage return as a line feed."""

    def some(self, size: int) -> bytes:
        return cast(bytes, self._file.read1(size).replace(b"\r", b"\n"))


class _Recoded(Filter):
    """Reads a file's text as UTF-8."""

    def __init__(self, file: BufferedReader, encoding: str) -> None:
        super().__init__(file)
        self._decoder = codecs.getincrementaldecoder(encoding)(_BAD)
        self._ready = b""
        self._ended = False

    def some(self, size: int) -> bytes:
        while not self._ready and not self._ended:
            data = self._file.read1(BUFFER)
            self._ended = not data
            try:
                text = self._decoder.decode(data, final=self._ended)
            except ValueError as error:
                raise OSError(f"its text cannot be decoded: {error}") from None
            self._ready = text.encode("utf-8", "surrogateescape")
        part, self._ready = self._ready[:size], self._ready[size:]
        return part


def _without_mark(start: bytes) -> str | None:
    """The encoding of a text that begins so, if it is UTF-16 or UTF-32 without a byte order mark."""
    if b"\0" not in start:
        return None
    if len(start) >= 8 and start[1:4] == start[5:8] == b"\0\0\0":
        return "utf-32-le"
    even, odd = start[::2].count(0), start[1::2].count(0)
    if min(even, odd) or max(even, odd) * _RARE < len(start):
        return None
    return "utf-16-le" if odd else "utf-16-be"


def _zstd(file: _Counted, name: str) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        pass
    else:
        return zstd.ZstdFile(cast(BinaryIO, file), options={zstd.DecompressionParameter.window_log_max: _WINDOW})
    try:
        import zstandard
    except ImportError:
        raise DatasetError(f'{name}: zstd needs a package: pip install "evalcell[zstd]"') from None
    return _Zstd(cast(BinaryIO, file), zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW))


class _Zstd:
    """Reads zstd frames, one after another. (The reader of zstandard takes a file that was cut for a whole one.)"""

    _STEP = 512  # bytes: a block of 4 may become 128 KB, so these become 16 MB at most

    def __init__(self, file: BinaryIO, unpacker: Any) -> None:
        self._file = file
        self._unpacker = unpacker
        self._frame: Any = None
        self._packed = memoryview(b"")
        self._ready = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. Raises EOFError if the file was cut."""
        while not self._ready:
            if not self._packed:
                self._packed = memoryview(self._file.read(BUFFER))
                if not self._packed:
                    if self._frame is not None:
                        raise EOFError("it ends within a frame")
                    return b""
            part, self._packed = self._packed[: self._STEP], self._packed[self._STEP :]
            self._frame = self._frame or self._unpacker.decompressobj()
            self._ready = self._frame.decompress(part)
            if self._frame.eof:
                self._packed = memoryview(self._frame.unused_data + bytes(self._packed))
                self._frame = None
        part, self._ready = memoryview(self._ready)[:size], self._ready[size:]
        return bytes(part)
