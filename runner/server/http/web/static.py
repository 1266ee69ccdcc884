"""The page's scripts and styles as the build left them, held in memory: few, small, and named by their content."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from runner.core.errors import InputError

_FOLDER = Path(__file__).parent / "_static"
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_NONE = re.compile(r"q\s*=\s*0(?:\.0*)?")


class StaticFile(NamedTuple):
    """One file; it never changes under its name."""

    content_type: str
    content: bytes
    compressed: bytes
    """The same by gzip."""


@cache
def names() -> dict[str, str]:
    """
    Return what pages call a file, and its name with the hash.

    Raises:
        InputError: If this clone has not built the page.
    """
    try:
        found: dict[str, str] = json.loads((_FOLDER / "manifest.json").read_bytes())["files"]
        return found
    except (OSError, ValueError, KeyError):
        raise InputError("the page's files are not built; in a clone: make ready") from None


def find(name: str) -> StaticFile | None:
    """Return the file of this name; None if the bundle has none such, whatever the name is."""
    return _files().get(name)


def takes_gzip(headers: Iterable[str]) -> bool:
    """Say whether a client takes gzip, by its `Accept-Encoding` (RFC 9110): a weight of 0 says that it does not."""
    weights = {}
    for part in ",".join(headers).lower().split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        weights[name] = not any(_NONE.fullmatch(word) for word in parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


@cache
def _files() -> dict[str, StaticFile]:
    made = {}
    for name in names().values():
        packed = _FOLDER / f"{name}.gz"  # a wheel has scripts and styles as these alone
        compressed = (
            packed.read_bytes() if packed.exists() else gzip.compress((_FOLDER / name).read_bytes(), 9, mtime=0)
        )
        made[name] = StaticFile(_TYPES[Path(name).suffix], gzip.decompress(compressed), compressed)
    return made
