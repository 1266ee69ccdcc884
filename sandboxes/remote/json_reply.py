"""JSON that a provider's service said, read without trust in its shape."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from sandboxes.remote.http import LARGEST
from sandboxes.remote.provider import UnreachableError


def at(data: Any, *path: str) -> Any:
    """What is found by these keys, one in the other; None where one is missing."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def text(data: Any, *path: str) -> str:
    """The text of one line found by these keys. Raises UnreachableError where there is none, or an empty one."""
    if not isinstance(found := at(data, *path), str) or not found or not found.isprintable():
        raise UnreachableError(f"the service's reply lacks {'.'.join(path)}")
    return found


def number(data: Any, *path: str) -> int:
    """0 where there is no whole number, or none that is of use."""
    found = at(data, *path)
    return found if isinstance(found, int) and 0 <= found < 1 << 53 else 0


def moment(data: Any, *path: str) -> datetime:
    """A time told in milliseconds; now, where it makes no sense: for a machine, too young is safer than too old."""
    try:
        return datetime.fromtimestamp(at(data, *path) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def claims(token: str) -> dict[str, Any]:
    """What a JSON web token says of its bearer, not verified; nothing for what is no such token."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def records(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The objects of a stream with one a line. Raises UnreachableError for anything else, and too long a line."""
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line.strip():
                    yield _record(line)
        if len(rest) > LARGEST:
            raise UnreachableError("a line of the service's stream is too long")
    if rest.strip():
        yield _record(rest)


def _record(line: bytearray) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreachableError("the service's stream is broken: a line is not a JSON object")
    return found
