"""The kernel's Landlock. The imports are late, since they only work on Linux."""

from __future__ import annotations


def abi() -> int:
    """Return the version of Landlock; 0 if there is none."""
    from sandboxes.guest.box import confine

    return confine.landlock_abi()


def has_scopes() -> bool:
    """Say whether Landlock keeps signals and abstract sockets in."""
    from sandboxes.guest.box import confine

    return abi() >= confine.SCOPES
