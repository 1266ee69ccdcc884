"""Requests, replies, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from runner.core.errors import ServerError
from sandboxes.base import Model

MB = 1 << 20
LARGEST = 16 * MB
"""Most bytes of a reply that is read whole."""
PATIENCE = 60.0
"""Seconds without a byte from the server, after which a request has failed."""

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Ask:
    """One request, whose reply is read whole. It may be sent again: its method, path and key make it safe."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    """What is None is left out."""
    body: Any = None
    """Sent as JSON."""
    file: Path | None = None
    """Sent as it is, in the body's place."""
    headers: Mapping[str, str] = field(default_factory=dict)
    most: int = LARGEST
    within: float = PATIENCE


@dataclass(frozen=True)
class Reply:
    """A reply with a status below 300."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def as_model(model: type[M], data: bytes | str) -> M:
    """Return a reply as a model. Raises ServerError for what is none of it."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:6])[:120] or "the reply"
        raise ServerError(
            f"the server's reply is no {model.__name__}: {where}: {first['msg'][:200]}; "
            "install the same version of evalcell on both sides"
        ) from None


def as_object(data: bytes) -> dict[str, Any]:
    """Return a reply as a JSON object; an empty one if it is none."""
    try:
        found = from_json(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def encode_body(body: Any) -> bytes:
    """Return a request's body as JSON."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
