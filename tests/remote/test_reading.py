"""What a provider's service says may be anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandboxes.remote.http import LARGEST, claims, number, records, text, timestamp, value_at
from sandboxes.remote.provider import UnreachableError


def read(*pieces: bytes) -> list[dict[str, Any]]:
    async def said() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def main() -> list[dict[str, Any]]:
        return [record async for record in records(said())]

    return asyncio.run(main())


def test_lines_wherever_the_pieces_are_cut() -> None:
    objects = [{"a": 1}, {"b": "é\n"}, {"c": [None]}]
    whole = "\n".join(json.dumps(o, ensure_ascii=False) for o in objects).encode() + b"\n\r\n"
    for size in (1, 2, 7, len(whole)):
        assert read(*(whole[n : n + size] for n in range(0, len(whole), size))) == objects
    assert read(whole.rstrip()) == objects
    assert read() == []


@pytest.mark.parametrize(
    "pieces",
    [
        (b'{"a": 1}\n{"a": ',),
        (b"[]\n",),
        (b"\xff\n",),
        (b"[" * 200_000 + b"\n",),
        (b" " * (1 << 20),) * ((LARGEST >> 20) + 1),
    ],
)
def test_a_stream_that_is_none(pieces: Sequence[bytes]) -> None:
    with pytest.raises(UnreachableError):
        read(*pieces)


def test_fields() -> None:
    data = {"a": {"b": "c", "n": 5, "empty": ""}}
    assert (
        value_at(data, "a", "b"),
        value_at(data, "a", "x", "y"),
        value_at([], "a"),
        value_at(data, "a", "b", "c"),
    ) == (
        "c",
        None,
        None,
        None,
    )
    assert text(data, "a", "b") == "c"
    data["a"] |= {"lines": "c\r\nd", "half": "\ud800"}
    for path in (("a",), ("a", "n"), ("a", "empty"), ("a", "lines"), ("a", "half"), ("x",)):
        with pytest.raises(UnreachableError, match=r"lacks a|lacks x"):
            text(data, *path)


def test_numbers() -> None:
    assert number({"n": 5}, "n") == 5
    nothing: tuple[object, ...] = ("5", None, 5.5, [], -5, 10**400)
    assert [number({"n": value}, "n") for value in nothing] == [0] * 6


def test_moments() -> None:
    assert timestamp({"at": 1_000}, "at") == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    for nonsense in (None, "yesterday", 10**400, float("nan")):
        assert datetime.now(UTC) - timestamp({"at": nonsense}, "at") < timedelta(seconds=60)


def test_claims() -> None:
    assert claims("e30.eyJhIjoxfQ.x") == {"a": 1}
    for token in ("", "a", "a.b", "a.W10.c", "a.\xff.c"):
        assert claims(token) == {}
