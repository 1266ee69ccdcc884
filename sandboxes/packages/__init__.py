"""Packages for sandboxes that run real Python: resolve requirements to a lock, install it in a folder, cache both."""

from sandboxes.packages.cache import CacheEntry, PruneResult, entries, prune
from sandboxes.packages.import_names import is_own_file, is_unknown, which_package
from sandboxes.packages.installation import install
from sandboxes.packages.lock import read_lock
from sandboxes.packages.lock_text import Lock
from sandboxes.packages.requirement import normalize_requirements
from sandboxes.packages.resolution import RemotePython, resolve
from sandboxes.packages.uv import find_uv
from sandboxes.packages.wheels import direct_wheel, fetch_wheels

__all__ = [
    "CacheEntry",
    "Lock",
    "PruneResult",
    "RemotePython",
    "direct_wheel",
    "entries",
    "fetch_wheels",
    "find_uv",
    "install",
    "is_own_file",
    "is_unknown",
    "normalize_requirements",
    "prune",
    "read_lock",
    "resolve",
    "which_package",
]
