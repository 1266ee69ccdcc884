"""Packages that scripts declare: resolve requirements to a lock, install it in a folder, cache both."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    **dict.fromkeys(("CacheEntry", "PruneResult", "entries", "prune"), "cache"),
    **dict.fromkeys(("is_own_file", "is_unknown", "which_package"), "import_names"),
    "install": "installation",
    "read_lock": "lock",
    "Lock": "lock_text",
    "normalize_requirements": "requirement",
    **dict.fromkeys(("RemotePython", "resolve"), "resolution"),
    "find_uv": "uv",
    **dict.fromkeys(("direct_wheel", "fetch_wheels"), "wheels"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a sandbox without packages needs a part of them alone."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
