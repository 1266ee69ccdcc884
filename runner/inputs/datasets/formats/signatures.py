"""What a file's first bytes say that it is, whatever its name says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from runner.core.errors import DatasetError
from runner.core.text import describe, printable, whole
from runner.inputs.datasets.formats.conversions import spreadsheet

SAMPLE = 1 << 16
"""Bytes that are looked at."""

_TABLES = ((re.compile(rb"PAR1[^\t -~\r\n]"), "Parquet", ".parquet"), (re.compile(rb"ARROW1\0\0"), "Arrow", ".arrow"))
_PACKED = ((b"\x1f\x8b", ".gz"), (b"\x28\xb5\x2f\xfd", ".zst"))
_ARCHIVES = (
    (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2", "bunzip2 -c"),
    (re.compile(rb"\xfd7zXZ\0"), "xz", "unxz -c"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "7z", "7z x"),
    (re.compile(rb"PK\x03\x04"), "zip", "unzip"),
)
_OTHERS = (
    (re.compile(rb"%PDF-"), "a PDF"),
    (re.compile(rb"SQLite format 3\0"), "an SQLite database"),
    (re.compile(rb"\xff\xd8\xff|\x89PNG\r\n"), "an image"),
    (re.compile(rb"\x80[\x02-\x05][\x95}\]c(]"), "a pickle of Python"),
)
_TEXT = re.compile(rb"[\t -~\x80-\xff]*\r?\n[\t\r\n -~\x80-\xff]*\Z")
_POINTER = b"version https://git-lfs.github.com/spec/"
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s|html[\s>]|head[\s>]|\?xml\s)", re.IGNORECASE)
_OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ROWS = re.compile(r"\[\s*(?:\{|\]\s*$)|\[\s*\n")
_OBJECT = re.compile(r"\{\s*(?:[\"}]|$)")
_HEADER = re.compile(r"[^\W\d][^{}\[\]:]*[,;\t|]")


def packing(start: bytes, named: str | None = None) -> str | None:
    """
    Return the suffix of compressed files that begin so, `.gz` or `.zst`; None for text.

    What is neither is what it is `named`.
    """
    found = next((suffix for mark, suffix in _PACKED if start.startswith(mark)), None)
    return found if found or named is None or _TEXT.match(start) else named


def refuse_foreign(start: bytes, place: str, name: str, *, table: str | None = None) -> None:
    """
    Raise DatasetError, with the step, for a file that begins so and is no text; with `table`, for one that is neither
    Parquet nor Arrow, as its suffix `table` says.
    """
    path = Path(place)
    quoted = shlex.quote(whole(place))
    if start.startswith(_POINTER):
        raise DatasetError(
            f"{name} is a pointer of Git LFS, and not the data; run: git lfs pull --include {printable(quoted, 300)}"
        )
    for pattern, kind, suffix in _TABLES:
        if pattern.match(start) and table != suffix:
            raise DatasetError(f"{name} is {kind}, whatever its name says; {_rename(path, suffix)}")
    if start.startswith(_OLD_EXCEL) or (start.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in start):
        raise DatasetError(f"{name} {spreadsheet(path)}")
    for pattern, kind, command in _ARCHIVES:
        if pattern.match(start):
            raise DatasetError(f"{name} is compressed ({kind}); unpack it first: {command} {printable(quoted, 300)}")
    for pattern, kind in _OTHERS:
        if pattern.match(start):
            raise DatasetError(f"{name} is {kind}, and no dataset; write its rows as JSON Lines or CSV")
    if _PAGE.match(start):
        raise DatasetError(
            f"{name} is a page of HTML or XML, such as of an error or a login, and not the data; download it again"
        )
    if table is None:
        return
    if packing(start):
        raise DatasetError(f"{name} is compressed; unpack it first: zcat {printable(quoted, 300)}")
    if start.lstrip()[:1] in (b"{", b"["):
        suffix = ".jsonl" if start.lstrip()[:1] == b"{" else ".json"
        raise DatasetError(f"{name} is JSON, whatever its name says; {_rename(path, suffix)}")
    if _TEXT.match(start):
        raise DatasetError(f"{name} is text, whatever its name says; if it is CSV, {_rename(path, '.csv')}")


def refuse_json(start: str, place: str, name: str) -> None:
    """Raise DatasetError for a text that begins so and is JSON, where a table was expected."""
    if re.match(r"\s*(?:\{\s*\"|\[\s*\{)", start):
        suffix = ".jsonl" if start.lstrip()[0] == "{" else ".json"
        raise DatasetError(f"{name} is JSON, whatever its name says; {_rename(Path(place), suffix)}")


def json_kind(start: str, name: str) -> str:
    """
    Return what a text that begins so is, where JSON Lines are expected: `lines`; `array`, of rows; or `objects`, of
    several lines each.

    Raises:
        DatasetError: For rows with commas between them, and for what is no JSON, but seems to be CSV.
    """
    text = start.lstrip()
    line, end, after = text.partition("\n")
    if _ROWS.match(text) or (end and line.strip() == "["):
        return "array"
    if text.startswith("{"):
        bare = line.rstrip()
        if end and bare.endswith(",") and _is_json(bare[:-1]):
            raise DatasetError(
                f"{name} has a comma after each row, which JSON Lines have not; leave them out, or put `[` before the "
                "first row and `]` after the last, and name it .json"
            )
        # After a row that was cut, another one begins.
        several = end and not after.startswith("{") and _OBJECT.match(line) and _goes_on(line)
        return "objects" if several else "lines"
    if _HEADER.match(line) and not _is_json(line):
        raise DatasetError(
            f"{name} is no JSON: it begins with {describe(line.strip(), 60)}; if it is CSV, {_csv(name)}"
        )
    return "lines"


def _csv(name: str) -> str:
    return "save it as a file, such as rows.csv" if name == "stdin" else f"name it as such: {Path(name).stem}.csv"


def _goes_on(line: str) -> bool:
    """Whether the object of this line ends in another one: all of the line is JSON as far as it goes."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos >= len(line.rstrip())
    except (ValueError, RecursionError):
        return False
    return False


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _rename(path: Path, suffix: str) -> str:
    if str(path) in ("-", "stdin"):
        return f"name a file that ends with {suffix}"
    stem = path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path
    return f"name it so: mv {printable(shlex.join([whole(str(path)), whole(str(stem.with_suffix(suffix)))]), 400)}"
