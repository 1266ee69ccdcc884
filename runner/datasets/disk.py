"""Tell files on a disk of this machine, which is read without waiting, from those that may hang, as over a network."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

_LOCAL = frozenset({b"btrfs", b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"ramfs", b"tmpfs", b"xfs", b"zfs"})
_MOST = 1 << 20  # bytes of the list of mounts; in a longer one nothing is found


def is_at_hand(descriptor: int) -> bool:
    """True for a regular file on a disk of this machine; False wherever that is not certain."""
    with suppress(OSError, ValueError):
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return False
        device = b"%d:%d" % (os.major(about.st_dev), os.minor(about.st_dev))
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = file.read(_MOST).splitlines()
        kinds = {fields[fields.index(b"-") + 1] for line in mounts if (fields := line.split())[2] == device}
        return bool(kinds) and kinds <= _LOCAL
    return False
