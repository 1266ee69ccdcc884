"""A locked set as a plain folder: built beside its place, then renamed, so that it is there whole or not at all."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from pathlib import Path

from pydantic import ValidationError

from sandboxes.base import MB, Model
from sandboxes.cache import UNUSED, cache_dir, delete, disk_errors, is_ours, private_dir
from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages import tool_process
from sandboxes.packages.contents import Contents, contents_of
from sandboxes.packages.lock import Lock
from sandboxes.packages.locking import UNFINISHED, Say, age, alone, unused, use
from sandboxes.packages.resolution import Interpreter, held, interpreter
from sandboxes.packages.settings import python_variables
from sandboxes.packages.uv import WHEELS, failure, late, run_uv

PACKAGES = "packages"
SITE = "site"
MARKER = "complete.json"

COMPILERS = 4
"""Processes at most that compile at once."""

COMPILE_MEMORY = 2 << 30
"""Address space of one, in bytes: source from a registry may be written to exhaust it."""

_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \(([^)]+)\)")


class Complete(Model):
    """Written last, beside the packages: what they are."""

    lock: str
    """The lock's digest."""
    packages: tuple[tuple[str, str], ...]
    contents: Contents


async def install(lock: Lock, python: Path, *, say: Say, deadline: float) -> Path:
    """
    The folder that holds the locked packages for `python`, installed first where it is missing.

    It is byte-compiled, readable by all and writable by its owner alone, and stays as long as this process lives. None
    of the packages' code has run. `say` and `deadline` as in `resolve`. Raises UnsupportedConfigError when the lock
    does not fit `python` or the index's files, SandboxUnavailableError when installing fails for another reason.
    """
    folder = private_dir(private_dir(cache_dir()) / PACKAGES)
    try:
        target = await interpreter(python, deadline)
        key = target.key(lock.text)
        final = folder / key
        if _ready(final, lock):
            return final / SITE
        with disk_errors(folder):
            async with alone(folder, key, say=say, deadline=deadline) as work:
                if not _ready(final, lock):
                    delete(final)  # damaged, or not ours
                    _forget_unused(folder)
                    await _build(lock, target, work, final, say, deadline)
                    if not _ready(final, lock):
                        raise OSError(f"{final} was changed while it was made")
        return final / SITE
    except TimeoutError:
        raise late("installing") from None


def read_marker(place: Path) -> Complete | None:
    """What the finished folder says it holds; None: it is not finished, or not one of ours."""
    try:
        fd = os.open(place / MARKER, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(fd, "rb") as file:
            return Complete.model_validate_json(file.read(MB))
    except (OSError, ValidationError):
        return None


def _ready(final: Path, lock: Lock) -> bool:
    if not (_ours(final) and _ours(final / SITE)) or not use(final / MARKER):
        return False
    found = read_marker(final)
    return found is not None and found.lock == lock.digest and found.contents.are_in(final / SITE)


def _ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return is_ours(found) and stat.S_ISDIR(found.st_mode)


async def _build(lock: Lock, target: Interpreter, work: Path, final: Path, say: Say, deadline: float) -> None:
    begun = time.monotonic()
    whole, temporary = work / "whole", work / "temporary"
    site = whole / SITE
    for folder in (whole, site, temporary):
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask
    if lock.packages:
        say(f"packages: installing {held(lock.packages, most=2)}, once (kept in {final.parent})")
        await _unpack(lock, target, site, temporary, say, deadline)
    sources = _settle(site)
    await _compile(sources, site, target, temporary, deadline)
    contents = contents_of(site)
    marker = Complete(lock=lock.digest, packages=lock.packages, contents=contents)
    _write(whole / MARKER, marker.model_dump_json().encode())
    whole.rename(final)
    if lock.packages:
        say(f"packages: installed {contents.bytes / MB:.0f} MB in {time.monotonic() - begun:.1f} s")


async def _unpack(lock: Lock, target: Interpreter, site: Path, work: Path, say: Say, deadline: float) -> None:
    (work / "lock.txt").write_text(lock.text, encoding="utf-8")
    command = [
        *("pip", "install", "--requirements", "lock.txt", "--python", str(target.path), "--target", str(site)),
        *("--no-deps", "--require-hashes", *WHEELS, "--link-mode", "copy", "--no-compile-bytecode", "--no-sources"),
    ]
    done = await run_uv([*command, "--offline"], work=work, deadline=deadline)  # what uv has kept needs no network
    if done.code != 0:
        done = await run_uv(command, work=work, deadline=deadline, heard=lambda line: _hear(line, say))
    if done.code != 0:
        step = "to resolve anew, leave the lock out or run 'evalcell cache prune --all'"
        raise failure(done, f"installing the locked packages for {target.name}", step)


def _hear(line: str, say: Say) -> None:
    if found := _DOWNLOADING.match(line):
        say(f"packages: downloading {found[1]}, {found[2]}")


def _settle(site: Path) -> list[Path]:
    """Gives everything the modes it must have; the Python sources in it. Refuses links, which could point anywhere."""
    (site / ".lock").unlink(missing_ok=True)  # uv's own
    sources = []
    for folder, folders, files in os.walk(site):
        os.chmod(folder, 0o755)
        for name in (*folders, *files):
            path = Path(folder, name)
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                raise UnsupportedConfigError(f"packages: {path.relative_to(site)} is a link; use another package")
            if stat.S_ISREG(found.st_mode):
                path.chmod(0o755 if found.st_mode & 0o100 else 0o644)
                if name.endswith(".py") and path.as_posix().isprintable():
                    sources.append(path)
    return sources


async def _compile(sources: list[Path], site: Path, target: Interpreter, work: Path, deadline: float) -> None:
    """
    Byte-compiles by the base Python, which reads the packages and runs none: uv's own way would run their `.pth` files.

    What does not compile stays as source. The compiled files are right as long as nobody changes the sources, and
    carry a path of no meaning outside, not this user's.
    """
    # Tests are half of it all, and no script imports them.
    sources = [path for path in sources if "tests" not in path.relative_to(site).parts]
    sources.sort(key=lambda path: path.stat().st_size, reverse=True)
    parts = min(COMPILERS, os.cpu_count() or 1)
    options = ["-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(site), "-p", "/packages"]
    runs = []
    for part in range(min(parts, len(sources))):
        files = work / f"sources-{part}"
        files.write_text("".join(f"{path}\n" for path in sources[part::parts]), encoding="utf-8")
        command = [str(target.path), "-I", "-S", "-W", "ignore", "-m", "compileall", *options, "-i", str(files)]
        runs.append(
            tool_process.run(command, cwd=work, variables=python_variables(), deadline=deadline, memory=COMPILE_MEMORY)
        )
    try:
        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(run)
    except ExceptionGroup as e:
        raise e.exceptions[0] from None


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def _forget_unused(folder: Path) -> None:
    """Deletes what no run has wanted for a while, and what was never finished then."""
    for place in folder.iterdir():
        if not place.is_dir() or place.is_symlink():
            continue
        marker = place / MARKER
        try:
            old = age(marker if marker.exists() else place) > UNUSED
        except OSError:
            continue  # another process was faster
        if old and not place.name.startswith(UNFINISHED):
            with unused(marker) as free:
                if free:
                    delete(place)
