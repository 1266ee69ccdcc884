"""List what the cache folder holds, and delete what no run uses."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from sandboxes.base import Model
from sandboxes.cache import SCORES, SCORES_IN_USE, cache_dir, delete
from sandboxes.packages.installation import MARKER, PACKAGES, read_marker
from sandboxes.packages.lock import read_lock
from sandboxes.packages.locking import UNFINISHED_PREFIX, exclusive, key_of
from sandboxes.packages.resolution import LOCKS, CachedResolution, name_packages
from sandboxes.packages.uv import DOWNLOADS, downloads_marker

RECENT = 600.0
"""Seconds after which nobody can still be writing an unfinished file."""

_BUILT = {
    "wasm": "the compiled sandbox",
    "process": "what a Python needs of this machine",
    "wheels": "wheels that requirements name by their places",
    "bundles": "what a script imports of packages of npm",
}


class CacheEntry(Model):
    """One file or folder in the cache."""

    kind: str
    """The folder of the cache that holds it: `packages`, `locks`, `downloads`, `wasm` or another one."""
    name: str
    path: Path
    bytes: int
    used: float
    """When a run last used it, in seconds since the epoch."""
    holds: str
    """A description for the user."""


class PruneResult(Model):
    """What `prune` deleted and what it kept."""

    removed: tuple[CacheEntry, ...]
    skipped: tuple[tuple[CacheEntry, str], ...]
    """Each with the reason."""


def entries() -> list[CacheEntry]:
    """Return all entries of the cache, the largest first. Lock files are left out."""
    try:
        folders = [place for place in cache_dir().iterdir() if place.is_dir() and not place.is_symlink()]
    except OSError:
        return []
    found = [entry for folder in folders for entry in _of(folder)]
    found = [entry for entry in found if entry.bytes or entry.kind not in (DOWNLOADS, SCORES)]
    return sorted(found, key=lambda entry: (-entry.bytes, entry.kind, entry.name))


def prune(unused_for: float = 0.0) -> PruneResult:
    """Delete what no run has used for `unused_for` seconds, but nothing that another process uses or builds now."""
    removed: list[CacheEntry] = []
    skipped: list[tuple[CacheEntry, str]] = []
    for entry in entries():
        if time.time() - entry.used < unused_for:
            continue
        if why := _remove(entry):
            skipped.append((entry, why))
        else:
            removed.append(entry)
    return PruneResult(removed=tuple(removed), skipped=tuple(skipped))


def _of(folder: Path) -> Iterator[CacheEntry]:
    if folder.name == SCORES:
        yield _entry(folder, folder, folder / SCORES_IN_USE, "scores of earlier runs")
        return
    if folder.name == DOWNLOADS:
        yield _entry(folder, folder, downloads_marker(folder), "files that uv downloaded")
        return
    for place in folder.iterdir():
        if place.suffix == ".lock":
            continue
        with contextlib.suppress(OSError):  # another process was faster
            marker = place / MARKER if folder.name == PACKAGES else place
            yield _entry(folder, place, marker, _description(folder, place))


def _entry(folder: Path, place: Path, marker: Path, holds: str) -> CacheEntry:
    used = (marker if marker.exists() else place).lstat().st_mtime
    name = place.name if place != folder else "all"
    return CacheEntry(kind=folder.name, name=name, path=place, bytes=_bytes(folder, place), used=used, holds=holds)


def _description(folder: Path, place: Path) -> str:
    if place.name.startswith(UNFINISHED_PREFIX):
        return "unfinished work"
    if folder.name == PACKAGES:
        found = read_marker(place)
        return name_packages(found.packages, most=6) if found else "damaged packages"
    if folder.name == LOCKS:
        try:
            kept = CachedResolution.model_validate_json(place.read_bytes())
            packages = read_lock(kept.text, place.name).packages
        except (ValidationError, ValueError):
            return "a damaged lock"
        return f"{name_packages(packages, kept.requirements)}, resolved on {kept.resolved}"
    return _BUILT.get(folder.name, "built files")


def _bytes(folder: Path, place: Path) -> int:
    if folder.name == PACKAGES and (found := read_marker(place)):
        return found.contents.bytes
    return _size(place)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what is deleted meanwhile counts as 0."""
    try:
        with os.scandir(path) as inside:
            return sum(
                _size(Path(one.path)) if one.is_dir(follow_symlinks=False) else _file_size(one) for one in inside
            )
    except NotADirectoryError:
        return path.lstat().st_size
    except OSError:
        return 0


def _file_size(one: os.DirEntry[str]) -> int:
    try:
        return one.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _remove(entry: CacheEntry) -> str | None:
    """Delete it; the reason why it stays, if it does."""
    whole = entry.kind in (DOWNLOADS, SCORES)
    if whole:
        marker = downloads_marker(entry.path) if entry.kind == DOWNLOADS else entry.path / SCORES_IN_USE
        with exclusive(marker) as free:
            if not free:
                return "another evalcell is downloading" if entry.kind == DOWNLOADS else "a run is using it"
            for inside in entry.path.iterdir():
                if inside != marker:
                    delete(inside)
            delete(marker)
    elif _has_no_key(entry.path.name) and time.time() - entry.used < RECENT:
        return "another evalcell may be writing it"
    else:
        lock = FileLock(entry.path.parent / f"{key_of(entry.path.name)}.lock", mode=0o600)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return "another evalcell is building it"
        except OSError:
            return "it cannot be deleted"
        try:
            with exclusive(entry.path / MARKER) as free:
                if not free:
                    return "a run is using it"
                delete(entry.path)
        finally:
            lock.release()
    left = any(entry.path.iterdir()) if whole else os.path.lexists(entry.path)
    return "it cannot be deleted" if left else None


def _has_no_key(name: str) -> bool:
    """Whether it is an unfinished file whose name does not say which lock protects it."""
    return name.startswith(UNFINISHED_PREFIX) and "-" not in name.removeprefix(UNFINISHED_PREFIX)
