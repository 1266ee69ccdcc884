"""Install a lock in a plain folder: built under another name, then renamed, so that it is never there in part."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from pathlib import Path

from pydantic import ValidationError

from sandboxes.base import MB, Model
from sandboxes.cache import UNUSED_SECONDS, cache_dir, delete, disk_errors, is_ours, private_dir
from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages import tool_process
from sandboxes.packages.contents import Contents, contents_of
from sandboxes.packages.lock_text import Lock
from sandboxes.packages.locking import UNFINISHED_PREFIX, Say, age, exclusive, use, work_folder
from sandboxes.packages.resolution import Interpreter, RemotePython, interpreter, name_packages
from sandboxes.packages.settings import python_variables
from sandboxes.packages.uv import WHEELS, failure, run_uv, timeout_error
from sandboxes.packages.wheels import kept_wheels

PACKAGES = "packages"
SITE = "site"
MARKER = "complete.json"

COMPILERS = 4
"""Most processes that compile at once."""

COMPILE_MEMORY = 2 << 30
"""Address space of each, in bytes: source code from a registry may try to exhaust memory."""

_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \(([^)]+)\)")


class InstallationRecord(Model):
    """The file that describes an installation and is written last."""

    lock: str
    """The lock's digest."""
    packages: tuple[tuple[str, str], ...]
    contents: Contents


async def install(lock: Lock, python: Path | RemotePython, *, say: Say, deadline: float) -> Path:
    """
    Return the folder with the locked packages; install them first if it is missing.

    It is byte-compiled, if `python` is on this machine, readable by everyone, writable by its owner alone, and not
    deleted while this process lives. No code of the packages runs.

    Args:
        lock: The packages.
        python: The Python of the scripts, on this machine or another.
        say: As in `resolve`.
        deadline: As in `resolve`.

    Raises:
        UnsupportedConfigError: The lock does not fit `python` or the index's files.
        SandboxUnavailableError: Installing fails for another reason.
    """
    folder = private_dir(private_dir(cache_dir()) / PACKAGES)
    try:
        target = await interpreter(python, deadline)
        key = target.key(lock.text)
        final = folder / key
        if ready(final, lock):
            return final / SITE
        with disk_errors(folder):
            async with work_folder(folder, key, say=say, deadline=deadline) as work:
                if not ready(final, lock):
                    delete(final)  # damaged, or not ours
                    delete_old(folder)
                    await _build(lock, target, work, final, say, deadline)
                    if not ready(final, lock):
                        raise OSError(f"{final} was changed while it was being written")
        return final / SITE
    except TimeoutError:
        raise timeout_error("installing") from None


def read_marker(place: Path) -> InstallationRecord | None:
    """Return the description of a complete installation; None if it is incomplete or not ours."""
    try:
        fd = os.open(place / MARKER, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(fd, "rb") as file:
            return InstallationRecord.model_validate_json(file.read(MB))
    except (OSError, ValidationError):
        return None


def ready(final: Path, lock: Lock) -> bool:
    """Say whether a complete installation of the lock is there, and use it if so."""
    if not (_is_our_folder(final) and _is_our_folder(final / SITE)) or not use(final / MARKER):
        return False
    found = read_marker(final)
    return found is not None and found.lock == lock.digest and found.contents.are_in(final / SITE)


def _is_our_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return is_ours(found) and stat.S_ISDIR(found.st_mode)


async def _build(lock: Lock, target: Interpreter, work: Path, final: Path, say: Say, deadline: float) -> None:
    start = time.monotonic()
    whole, temporary = work / "whole", work / "temporary"
    site = whole / SITE
    for folder in (whole, site, temporary):
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask
    if lock.packages:
        say(f"packages: installing {name_packages(lock.packages, most=2)}, once (kept in {final.parent})")
        await _unpack(lock, target, site, temporary, say, deadline)
    sources = _set_modes(site)
    if target.remote is None:
        await _compile(sources, site, target, temporary, deadline)
    contents = contents_of(site)
    marker = InstallationRecord(lock=lock.digest, packages=lock.packages, contents=contents)
    write_file(whole / MARKER, marker.model_dump_json().encode())
    whole.rename(final)
    if lock.packages:
        say(f"packages: installed {contents.bytes / MB:.0f} MB in {time.monotonic() - start:.1f} s")


async def _unpack(lock: Lock, target: Interpreter, site: Path, work: Path, say: Say, deadline: float) -> None:
    (work / "lock.txt").write_text(lock.text, encoding="utf-8")
    command = [
        *("pip", "install", "--requirements", "lock.txt", *target.options, "--target", str(site)),
        *("--no-deps", "--require-hashes", *WHEELS, "--link-mode", "copy", "--no-compile-bytecode", "--no-sources"),
    ]
    wheels = kept_wheels(lock.text)
    done = await run_uv(
        [*command, "--offline"], work=work, deadline=deadline, wheels=wheels
    )  # files in uv's cache need no network
    if done.code != 0:
        done = await run_uv(
            command, work=work, deadline=deadline, on_line=lambda line: _report(line, say), wheels=wheels
        )
    if done.code != 0:
        step = "to resolve again, leave the lock out or run 'evalcell cache prune --all'"
        raise failure(done, f"installing the locked packages for {target.name}", step)


def _report(line: str, say: Say) -> None:
    if found := _DOWNLOADING.match(line):
        say(f"packages: downloading {found[1]}, {found[2]}")


def _set_modes(site: Path) -> list[Path]:
    """Set the modes of all files; return the Python sources. Links are refused, as they could point anywhere."""
    (site / ".lock").unlink(missing_ok=True)  # uv's own
    sources = []
    for folder, folders, files in os.walk(site):
        os.chmod(folder, 0o755)
        for name in (*folders, *files):
            path = Path(folder, name)
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                raise UnsupportedConfigError(
                    f"packages: {path.relative_to(site)} is a link, which packages may not contain; use another package"
                )
            if stat.S_ISREG(found.st_mode):
                path.chmod(0o755 if found.st_mode & 0o100 else 0o644)
                if name.endswith(".py") and path.as_posix().isprintable():
                    sources.append(path)
    return sources


async def _compile(sources: list[Path], site: Path, target: Interpreter, work: Path, deadline: float) -> None:
    """
    Byte-compile with the base Python, which runs nothing of the packages: uv's own way would run their `.pth` files.

    What does not compile stays as source. The compiled files are not checked against the sources, and contain
    a neutral path instead of this user's.
    """
    # Tests are half of the files, and no script imports them.
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


def write_file(path: Path, content: bytes) -> None:
    """Write a new file that everybody may read."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def delete_old(folder: Path) -> None:
    """Delete installations that no run has used for `UNUSED` seconds."""
    for place in folder.iterdir():
        if not place.is_dir() or place.is_symlink():
            continue
        marker = place / MARKER
        try:
            old = age(marker if marker.exists() else place) > UNUSED_SECONDS
        except OSError:
            continue  # another process was faster
        if old and not place.name.startswith(UNFINISHED_PREFIX):
            with exclusive(marker) as free:
                if free:
                    delete(place)
