"""Refuse a text that is not UTF-8, with its likely encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

from runner.core.errors import DatasetError
from runner.core.text import describe
from sandboxes.words.wording import Setting

_UNREAD = re.compile("[\udc80-\udcff]")
_AROUND = 30  # characters around the first that is not UTF-8
_LOOKED_AT = 1 << 16
_WIDE = re.compile(b"[\x80-\xff]{2,}")
_HALF = 0.5
"""Of the bytes that are not ASCII, so many stand beside another: more in scripts other than the Latin."""
_ALPHABETS = ("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "mac_roman")
"""Encodings with a byte for each letter; the first of those that fit alike."""


def refuse_encoded(parts: Iterable[bytes], name: str) -> None:
    """
    Raise DatasetError, with a likely encoding, for a text in which more bytes are not UTF-8 than are and not ASCII.

    Of any other text, rows that are not UTF-8 fail by themselves.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    good = bad = lines = 0
    told = ""
    for part in parts:
        if part.isascii() and not decoder.getstate()[0]:
            lines += part.count(b"\n")
            continue
        text = decoder.decode(part)
        good += len(part) - len(text)
        if wrong := _UNREAD.search(text):
            bad += len(_UNREAD.findall(text))
            told = told or _likely_step(part, text, wrong.start(), lines)
        lines += text.count("\n")
    if bad > good:
        raise DatasetError(f"{name} is not UTF-8: {told}")


def _likely_step(part: bytes, text: str, at: int, lines: int) -> str:
    """The likely encoding of a text, of which `at` is the first character that is not UTF-8."""
    first = next(place for place, byte in enumerate(part) if byte > 127)
    begin = part.rfind(b"\n", 0, first) + 1
    end = part.rfind(b"\n", 0, begin + _LOOKED_AT)
    guess = likely_encoding(part[begin : end if end > first else begin + _LOOKED_AT])
    start, stop = max(text.rfind("\n", 0, at) + 1, at - _AROUND), text.find("\n", at)
    some = text[start : min(at + _AROUND, stop if stop >= 0 else len(text))]
    line = lines + text.count("\n", 0, at) + 1
    read = some.encode(errors="surrogateescape").decode(guess, "replace").strip()
    return (
        f"in {guess}, line {line:,} has {describe(read, 80)}; save the file as UTF-8, or give its encoding, "
        f"such as {Setting('encoding', guess)}"
    )


def likely_encoding(data: bytes) -> str:
    """Return the likely encoding of a text that is not UTF-8: by what its letters are in each that can be."""
    high = sum(byte > 127 for byte in data)
    if sum(map(len, _WIDE.findall(data))) >= _HALF * high:
        kana = {one: _share(text, "\u3040", "\u30ff") for one in ("shift_jis", "euc_jp") if (text := _read(data, one))}
        half = _share(_read(data, "shift_jis") or "", "\uff61", "\uff9f")
        for encoding, share in kana.items():
            if share > 0.2 and (encoding == "euc_jp" or half < 0.1):
                return encoding
        if _share(_read(data, "euc_kr") or "", "\uac00", "\ud7a3") > 0.8:
            return "euc_kr"
        for encoding in ("gb2312", "big5", "shift_jis", "gb18030"):
            # Letters of one byte each would have to stand in pairs throughout.
            if (text := _read(data, encoding)) and _share(text, "\u4e00", "\u9fff") > 0.6:
                return "gb18030" if encoding == "gb2312" else encoding
    return min(_ALPHABETS, key=lambda one: _oddity(data.decode(one, "replace")))


def _read(data: bytes, encoding: str) -> str | None:
    """The text, if it can be in this encoding, and seldom has its letters beside those of ASCII."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data)  # the last character may go on behind these bytes
    except UnicodeDecodeError:
        return None
    return text if _oddity(text) <= _HALF * sum(one > "\x7f" for one in text) else None


def _share(text: str, first: str, last: str) -> float:
    """Of the characters that are not ASCII, how many are in this range."""
    others = [one for one in text if one > "\x7f"]
    return sum(first <= one <= last for one in others) / max(1, len(others))


def _oddity(text: str) -> int:
    """How many characters are not as words have them: symbols within, capitals behind small letters, mixed scripts."""
    found = 0
    for before, one, after in zip(f" {text[:-1]}", text, f"{text[1:]} ", strict=True):
        if one < "\x80":
            continue
        if one == "\ufffd" or "\x80" <= one < "\xa0":
            found += 3
        elif not one.isalpha():
            found += 2 * (before.isalpha() and after.isalpha())
        elif one < "\u0250":
            found += before > "\x7f" and before.isalpha()  # accents seldom follow each other
        else:
            found += 2 * ((before < "\x80" and before.isalpha()) or (after < "\x80" and after.isalpha()))
        found += one.isupper() and before.islower()
    return found
