"""What a lock is, whatever it is of, and how long it may be."""

from __future__ import annotations

from sandboxes.base import Model

MAX_CHARS = 8 << 20
"""Longest lock. A hundred packages with the hashes of all their wheels are under 1 MB."""

MAX_PACKAGES = 2_000


class Lock(Model):
    """Exact versions with the hashes of their files."""

    text: str
    """A requirements file as pip and uv read it, or Deno's lock; sorted, without comments or addresses."""
    digest: str
    """SHA-256 of `text`, in hex."""
    packages: tuple[tuple[str, str], ...]
    """Name and version of each."""
