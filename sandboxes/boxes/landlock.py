"""What the kernel's Landlock can do. Linux alone; other systems cannot even import what asks the kernel."""

from __future__ import annotations


def abi() -> int:
    """Its version; 0: there is none."""
    from sandboxes.guest.box import confine

    return confine.landlock_abi()


def has_scopes() -> bool:
    """Whether it keeps signals and abstract sockets in."""
    from sandboxes.guest.box import confine

    return abi() >= confine.SCOPES
