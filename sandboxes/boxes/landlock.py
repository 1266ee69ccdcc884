"""The kernel's Landlock, and what the filter of system calls does where it lacks something."""

from __future__ import annotations

import errno

from sandboxes.boxes import bubblewrap

_SINCE = {
    2: "links and renames between folders",
    3: "truncating files",
    4: "TCP",
    5: "ioctls of devices",
    6: "signals to others and their sockets",
}
"""What versions of Landlock have brought: Linux 5.19, 6.2, 6.7, 6.10 and 6.12. The first is of 5.13."""


def abi() -> int:
    """Return the version of Landlock; 0 if there is none."""
    from sandboxes.guest.box import confine  # late, since it only works on Linux

    return confine.landlock_abi()


def has_scopes() -> bool:
    """Say whether Landlock keeps signals and abstract sockets in."""
    from sandboxes.guest.box import confine

    return abi() >= confine.SCOPES


def by_the_filter() -> list[str]:
    """Name what the filter refuses in place of this Landlock."""
    return [words for since, words in _SINCE.items() if since > abi()]


def describe() -> str:
    """Name the version, and what is done in its place."""
    rest = by_the_filter()
    return f"Landlock {abi()}" + (f", and by the filter of system calls {', '.join(rest)}" if rest else "")


def why_none() -> str:
    """Say why there is no Landlock here, with the step that may help."""
    from sandboxes.guest.box import confine

    if bubblewrap.in_gvisor():
        return "it needs Landlock, which gVisor does not have"
    return {
        errno.ENOSYS: "it needs Landlock (Linux 5.13 or newer), which this kernel does not have",
        errno.EOPNOTSUPP: "it needs Landlock, which is switched off here: add landlock to the kernel's option lsm=",
        errno.EPERM: "it needs Landlock, which the filter of system calls of this container or service refuses",
    }.get(confine.landlock_error(), "it needs Landlock (Linux 5.13 or newer)")
