"""What the cache folder holds, and making room in it without taking anything away from a run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from sandboxes.base import Model
from sandboxes.cache import cache_dir, delete
from sandboxes.packages.installation import MARKER, PACKAGES, read_marker
from sandboxes.packages.lock import read_lock
from sandboxes.packages.locking import UNFINISHED, key_of, unused
from sandboxes.packages.resolution import LOCKS, Remembered, held
from sandboxes.packages.uv import DOWNLOADS, downloads_marker

RECENT = 600.0
"""Seconds that a file half written is left to whoever may be at it."""

_BUILT = {"wasm": "the compiled sandbox", "process": "what a Python needs of this machine"}


class Entry(Model):
    """One thing in the cache."""

    kind: str
    """The folder of the cache that it stands in: `packages`, `locks`, `downloads`, `wasm` or another's."""
    name: str
    path: Path
    bytes: int
    used: float
    """When a run last wanted it, in seconds since the epoch."""
    holds: str
    """In words for the user."""


class Pruned(Model):
    """What `prune` did."""

    removed: tuple[Entry, ...]
    skipped: tuple[tuple[Entry, str], ...]
    """With the reason, in words."""


def entries() -> list[Entry]:
    """All that the cache holds, the biggest first. Files that only serve as locks are left out."""
    try:
        folders = [place for place in cache_dir().iterdir() if place.is_dir() and not place.is_symlink()]
    except OSError:
        return []
    found = [entry for folder in folders for entry in _of(folder)]
    found = [entry for entry in found if entry.bytes or entry.kind != DOWNLOADS]
    return sorted(found, key=lambda entry: (-entry.bytes, entry.kind, entry.name))


def prune(unused_for: float = 0.0, kinds: tuple[str, ...] = ()) -> Pruned:
    """
    Deletes what no run has wanted for `unused_for` seconds, of these kinds (none named: of all).

    What another process uses or builds stays, and is told.
    """
    removed: list[Entry] = []
    skipped: list[tuple[Entry, str]] = []
    for entry in entries():
        if (kinds and entry.kind not in kinds) or time.time() - entry.used < unused_for:
            continue
        if why := _remove(entry):
            skipped.append((entry, why))
        else:
            removed.append(entry)
    return Pruned(removed=tuple(removed), skipped=tuple(skipped))


def _of(folder: Path) -> Iterator[Entry]:
    if folder.name == DOWNLOADS:
        yield _entry(folder, folder, downloads_marker(folder), "files that uv has downloaded")
        return
    for place in folder.iterdir():
        if place.suffix == ".lock":
            continue
        with contextlib.suppress(OSError):  # another process was faster
            yield _entry(folder, place, _dated(folder, place), _holds(folder, place))


def _entry(folder: Path, place: Path, dated: Path, holds: str) -> Entry:
    used = (dated if dated.exists() else place).lstat().st_mtime
    name = place.name if place != folder else "all"
    return Entry(kind=folder.name, name=name, path=place, bytes=_bytes(folder, place), used=used, holds=holds)


def _dated(folder: Path, place: Path) -> Path:
    return place / MARKER if folder.name == PACKAGES else place


def _holds(folder: Path, place: Path) -> str:
    if place.name.startswith(UNFINISHED):
        return "unfinished work"
    if folder.name == PACKAGES:
        found = read_marker(place)
        return held(found.packages, most=6) if found else "damaged packages"
    if folder.name == LOCKS:
        try:
            kept = Remembered.model_validate_json(place.read_bytes())
            packages = read_lock(kept.text, place.name).packages
        except (ValidationError, ValueError):
            return "a damaged lock"
        return f"{held(packages, kept.requirements)}, resolved on {kept.resolved}"
    return _BUILT.get(folder.name, "built files")


def _bytes(folder: Path, place: Path) -> int:
    if folder.name == PACKAGES and (found := read_marker(place)):
        return found.contents.bytes
    return _size(place)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what vanishes meanwhile counts as nothing."""
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


def _remove(entry: Entry) -> str | None:
    """Why it stays; None: it is gone."""
    if entry.kind == DOWNLOADS:
        marker = downloads_marker(entry.path)
        with unused(marker) as free:
            if not free:
                return "another evalcell is downloading"
            for inside in entry.path.iterdir():
                if inside != marker:
                    delete(inside)
            delete(marker)
    elif _unkeyed(entry.path.name) and time.time() - entry.used < RECENT:
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
            with unused(entry.path / MARKER) as free:
                if not free:
                    return "a run uses it"
                delete(entry.path)
        finally:
            lock.release()
    left = any(entry.path.iterdir()) if entry.kind == DOWNLOADS else os.path.lexists(entry.path)
    return "it cannot be deleted" if left else None


def _unkeyed(name: str) -> bool:
    """Whether it is a file half written, whose name does not tell under which lock."""
    return name.startswith(UNFINISHED) and "-" not in name.removeprefix(UNFINISHED)
