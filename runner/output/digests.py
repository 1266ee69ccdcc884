"""What a run read, by content: its dataset, and the files that its script may read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import NamedTuple


class Digests(NamedTuple):
    """SHA-256 in hex. None of what is no regular file, such as standard input or a pipe."""

    dataset: str | None = None
    files: Mapping[str, str | None] = {}
    """By the name of the variable."""


def digests(dataset: str | None, files: Mapping[str, str]) -> Digests:
    """Read them all, once, in bounded memory."""
    return Digests(
        None if dataset is None or dataset == "-" else _digest(dataset),
        {name: _digest(path) for name, path in files.items()},
    )


def _digest(path: str) -> str | None:
    try:
        # What is opened to be read must not be waited for, as a pipe would be.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
