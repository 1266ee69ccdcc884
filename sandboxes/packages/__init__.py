"""Packages for sandboxes that run real Python: requirements to a lock, a lock to a folder, and what is kept of them."""

from sandboxes.packages.cache import Entry, Pruned, entries, prune
from sandboxes.packages.import_names import which_package
from sandboxes.packages.installation import install
from sandboxes.packages.lock import Lock, read_lock
from sandboxes.packages.requirement import checked
from sandboxes.packages.resolution import Elsewhere, resolve
from sandboxes.packages.uv import find_uv

__all__ = [
    "Elsewhere",
    "Entry",
    "Lock",
    "Pruned",
    "checked",
    "entries",
    "find_uv",
    "install",
    "prune",
    "read_lock",
    "resolve",
    "which_package",
]
