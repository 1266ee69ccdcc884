"""Read JSON from a provider's service without trusting its shape."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from sandboxes.remote.http import LARGEST
from sandboxes.remote.provider import UnreachableError


def value_at(data: Any, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def text(data: Any, *path: str) -> str:
    """The text in one line at a path of keys. Raises UnreachableError if there is none or it is empty."""
    if not isinstance(found := value_at(data, *path), str) or not found or not found.isprintable():
        raise UnreachableError(f"the service's reply lacks {'.'.join(path)}")
    return found


def number(data: Any, *path: str) -> int:
    """The integer at a path of keys; 0 if there is none or it is out of range."""
    found = value_at(data, *path)
    return found if isinstance(found, int) and 0 <= found < 1 << 53 else 0


def timestamp(data: Any, *path: str) -> datetime:
    """A time given in milliseconds; now if it is invalid: taking a machine for too young is safer than for too old."""
    try:
        return datetime.fromtimestamp(value_at(data, *path) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def claims(token: str) -> dict[str, Any]:
    """The claims of a JSON web token, not verified; empty if it is not a token."""
    try:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def records(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The objects of a stream, one on each line. Raises UnreachableError for anything else, and for too long a line."""
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
