"""Packages for sandboxes that run real Python: requirements to a lock, a lock to a folder, and what is kept of them."""

from sandboxes.packages.installing import install
from sandboxes.packages.known import which_package
from sandboxes.packages.lock import Lock, read_lock
from sandboxes.packages.requirement import checked
from sandboxes.packages.resolving import Elsewhere, resolve
from sandboxes.packages.stored import Entry, Pruned, entries, prune
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
