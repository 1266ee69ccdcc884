"""A lock: exact versions of packages with hashes, as text that can be saved and read again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages.lock_text import MAX_CHARS, MAX_PACKAGES, Lock
from sandboxes.packages.npm.lock import is_npm_lock, read_npm_lock

_STEP = "use a lock file as evalcell saved it, unchanged"

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LINE = re.compile(r"(?P<head>[^\s-][^\\#$]*?)(?P<hashes>(\s+--hash=\S+)*)\s*")
_VERSION = re.compile(r"[0-9A-Za-z.!+_-]+")


class _Pin(NamedTuple):
    name: str
    version: str
    head: str
    hashes: tuple[str, ...]


def read_lock(text: str, where: str) -> Lock:
    """
    Parse a lock; comments, order and layout do not matter.

    Raises UnsupportedConfigError, which names `where` and the line, for anything but
    `name==version --hash=sha256:…`: with addresses, options or packages without hashes the file would decide where
    code comes from.
    """
    if is_npm_lock(text):
        return read_npm_lock(text, where)
    if len(text) > MAX_CHARS:
        raise UnsupportedConfigError(f"{where}: too large for a lock (over {MAX_CHARS >> 20} MB); {_STEP}")
    pins: dict[str, _Pin] = {}
    for number, line in _logical_lines(text):
        pin = _pin(line, f"{where}, line {number}")
        if pins.setdefault(pin.name, pin) is not pin:
            raise UnsupportedConfigError(f"{where}, line {number}: {pin.name} is listed twice; keep one version of it")
        if len(pins) > MAX_PACKAGES:
            raise UnsupportedConfigError(f"{where}: more than {MAX_PACKAGES} packages; use fewer")
    return _lock([pins[name] for name in sorted(pins)])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines and their numbers, continued lines joined; without comments and empty lines."""
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if not parts:
            start = number
        if line.lstrip().startswith("#"):
            line = ""
        more = line.endswith("\\")
        parts.append(line.removesuffix("\\").partition(" #")[0].strip(" \t"))
        if not more:
            if whole := " ".join(part for part in parts if part):
                yield start, whole
            parts = []
    if whole := " ".join(part for part in parts if part):
        yield start, whole


def _pin(line: str, where: str) -> _Pin:
    match = _LINE.fullmatch(line)
    if not match or " -" in match["head"] or not line.isprintable():
        raise _not_locked(where, "is not 'name==version --hash=sha256:…'")
    hashes = match["hashes"].split()
    if not hashes:
        raise _not_locked(where, "has no --hash=sha256:…")
    if not all(_HASH.fullmatch(one) for one in hashes):
        raise _not_locked(where, "has a hash that is not sha256 and 64 hex digits")
    try:
        parsed = Requirement(match["head"])
    except (InvalidRequirement, RecursionError):
        raise _not_locked(where, "is not a requirement") from None
    versions = list(parsed.specifier)
    if parsed.url or len(versions) != 1 or versions[0].operator != "==" or not _VERSION.fullmatch(versions[0].version):
        raise _not_locked(where, "does not name one exact version ('==')")
    name = canonicalize_name(parsed.name)
    marker = f" ; {parsed.marker}" if parsed.marker else ""
    head = f"{name}=={versions[0].version}{marker}"
    return _Pin(name, versions[0].version, head, tuple(sorted(set(hashes))))


def _not_locked(where: str, why: str) -> UnsupportedConfigError:
    # Without the line: a file that is no lock may hold anything, such as a password.
    return UnsupportedConfigError(f"{where}: it {why}; {_STEP}")


def _lock(pins: list[_Pin]) -> Lock:
    text = "".join(" \\\n    ".join((pin.head, *pin.hashes)) + "\n" for pin in pins)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Lock(text=text, digest=digest, packages=tuple((pin.name, pin.version) for pin in pins))
