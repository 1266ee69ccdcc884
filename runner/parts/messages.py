"""Replies of a worker's process: lines of JSON, bounded."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from runner.parts.types import Begun, Count, Look, PartFigures

KINDS: dict[str, type[Look] | type[Count] | type[Begun]] = {"Look": Look, "Count": Count, "Begun": Begun}
LINE = 16 << 20
"""Bytes of a line. Figures stay in their file: they may be long."""


def packed(reply: BaseModel) -> bytes:
    """A reply as a line."""
    if isinstance(reply, PartFigures):
        return line({"figures": True})
    return line({"reply": type(reply).__name__, "value": reply.model_dump(mode="json")})


def line(value: dict[str, Any]) -> bytes:
    """One line."""
    return json.dumps(value).encode() + b"\n"
