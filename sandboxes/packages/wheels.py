"""Wheels that a requirement names by a path or an address, with their hash: kept in the cache by it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from sandboxes.cache import cache_dir, delete, disk_errors, private_dir
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.regular import open_regular
from sandboxes.packages.locking import Say, work_folder

WHEELS = "wheels"

MAX_BYTES = 2 << 30
"""Of a wheel; the largest models of spaCy take 600 MB."""

_DIRECT = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<extras>\[[\w., -]*\])?\s*@\s*"
    r"(?P<place>(?:file:|https?://)[^\s#]+\.whl)#sha256=(?P<digest>[0-9a-f]{64})"
)
_PIECE = 1 << 20


class DirectWheel(NamedTuple):
    """A wheel by its place."""

    name: str
    extras: str
    place: str
    digest: str

    @property
    def file(self) -> str:
        """The file's name."""
        return unquote(self.place.rpartition("/")[2].removeprefix("file:"))

    @property
    def version(self) -> str:
        """The version that its file's name has."""
        return str(parse_wheel_filename(self.file)[1])

    @property
    def pinned(self) -> str:
        """The requirement by its version."""
        return f"{self.name}{self.extras}=={self.version}"

    @property
    def text(self) -> str:
        """The requirement in its normal form."""
        return f"{self.name}{self.extras} @ {self.place}#sha256={self.digest}"


def direct_wheel(text: str) -> DirectWheel | None:
    """Return the wheel of a requirement; None if it names none in this way, by a path or an address with a hash."""
    found = _DIRECT.fullmatch(text.strip())
    if found is None:
        return None
    extras = "".join(found["extras"].split()) if found["extras"] else ""
    wheel = DirectWheel(canonicalize_name(found["name"]), extras, found["place"], found["digest"])
    try:
        name = parse_wheel_filename(wheel.file)[0]
        Requirement(f"{wheel.name}{extras}")
    except (InvalidWheelFilename, ValueError):
        return None
    return wheel if name == wheel.name else None


def with_path(text: str, folder: Path) -> str:
    """Return a requirement whose wheel lies relative to `folder` with its whole path; any other as it is."""
    wheel = direct_wheel(text)
    if wheel is None or not wheel.place.startswith("file:") or wheel.place.startswith("file:/"):
        return text
    path = (folder / unquote(wheel.place.removeprefix("file:"))).absolute()
    return wheel._replace(place=path.as_uri()).text


async def fetch_wheels(requirements: Iterable[str], *, say: Say, deadline: float) -> dict[str, Path]:
    """
    Return the folder of each wheel that a requirement names by its place, by that requirement.

    Raises:
        UnsupportedConfigError: It is not there, or is another file than its hash says.
        SandboxUnavailableError: Its address cannot be reached.
    """
    return {
        one: await _fetched(wheel, say, deadline) for one in requirements if (wheel := direct_wheel(one)) is not None
    }


def kept_wheels(lock: str) -> list[Path]:
    """Return the folders of the cache with wheels whose hashes a lock has."""
    folder = cache_dir() / WHEELS
    return [
        folder / digest for digest in re.findall(r"--hash=sha256:([0-9a-f]{64})", lock) if (folder / digest).is_dir()
    ]


async def _fetched(wheel: DirectWheel, say: Say, deadline: float) -> Path:
    folder = private_dir(private_dir(cache_dir()) / WHEELS)
    final = folder / wheel.digest
    with disk_errors(folder):
        if (final / wheel.file).is_file():
            return final  # uv checks the hash once more
        async with work_folder(folder, wheel.digest, say=say, deadline=deadline) as work:
            async with asyncio.timeout_at(deadline):
                await asyncio.to_thread(_copy, wheel, work / wheel.file)
            if not await asyncio.to_thread(_is_whole, work / wheel.file, wheel.digest):
                raise _unusable(wheel)
            delete(final)
            fresh = work / "whole"
            fresh.mkdir(0o700)
            (work / wheel.file).rename(fresh / wheel.file)
            fresh.rename(final)
    return final


def _copy(wheel: DirectWheel, target: Path) -> None:
    try:
        if wheel.place.startswith("file:"):
            source = open_regular(unquote(urlsplit(wheel.place).path))
        else:
            source = urllib.request.urlopen(wheel.place, timeout=30)
        with source, target.open("xb") as file:
            left = MAX_BYTES
            while left > 0 and (piece := source.read(_PIECE)):
                file.write(piece)
                left -= len(piece)
    except (OSError, ValueError) as e:
        if wheel.place.startswith("file:"):
            raise _unusable(wheel) from None
        raise SandboxUnavailableError(
            f"packages: the wheel of {wheel.name} cannot be fetched ({type(e).__name__}); check its address, or fetch "
            "it yourself and name the file"
        ) from None


def _is_whole(path: Path, digest: str) -> bool:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def _unusable(wheel: DirectWheel) -> UnsupportedConfigError:
    # One message for both: who sends a script need not learn which files there are.
    return UnsupportedConfigError(
        f"packages: {wheel.file} is not there, or not the file whose hash the requirement has; to see the hash of one, "
        "run: sha256sum FILE"
    )
