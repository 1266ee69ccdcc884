"""A server's place in the folder of its store, and nothing in its environment that it does not need."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from runner.core.errors import InputError
from runner.core.text import printable
from runner.results.store.limits import RUN, STORE
from runner.runs.pool.pool import local_variables

_SECRET = re.compile(r"PASSWORD|TOKEN|SECRET|KEY|USERNAME|INDEX|URL|PROXY|NETRC", re.IGNORECASE)


class ServerPlace(NamedTuple):
    """A server's place in a store's folder: the same one again when it begins again."""

    server: str
    """Its name, by which it claims runs."""
    incoming: Path
    """The folder for files that are not accepted yet."""


@contextmanager
def hold_place(folder: Path, most: int) -> Iterator[ServerPlace]:
    """Hold a place in this folder, which has so many. Raises InputError if others have them all."""
    for number in range(1, most + 1):
        lock = FileLock(folder / (f"serve-{number}.lock" if number > 1 else "serve.lock"), mode=0o600)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        try:
            own = f"-{number}" if number > 1 else ""
            yield ServerPlace(_name(folder) + own, folder / f"incoming{own}")
        finally:
            lock.release()
        return
    raise InputError(
        f"another evalcell serve uses {printable(str(folder))}; stop it, or set EVALCELL_STATE_DIR to another one"
    )


def _name(folder: Path) -> str:
    """The name that all servers of this folder begin with."""
    path, made = folder / "server", folder / f"server.{os.getpid()}"
    try:
        if not path.exists():
            made.write_text(secrets.token_hex(12), "ascii")
            with suppress(FileExistsError):
                os.link(made, path)
            made.unlink()
        name = path.read_text("ascii", "replace")[:48].strip()
    except OSError as error:
        raise InputError(f"{printable(str(path))} cannot be used ({error.strerror}); free it") from None
    if not name.isalnum():
        raise InputError(f"{printable(str(path))} holds no name; delete it, and a new one is made")
    return name


def scrub_environment() -> dict[str, str]:
    """Return the environment, of which this process keeps no credential: only the workers that need one get it."""
    every = dict(os.environ)
    kept = {*local_variables(every), RUN.variable, STORE.variable}
    for name in every:
        if name not in kept or _SECRET.search(name):
            del os.environ[name]
    if sys.platform == "linux":
        _hide(set(os.environ))
    return every


def close_to_others() -> None:
    """Keep other processes of this user from looking into this one, where its token and credentials are."""
    if sys.platform == "linux":
        from sandboxes.guest.box.confine import closed_to_others  # here: it needs a Unix

        closed_to_others()


def _hide(kept: set[str]) -> None:
    """Wipe what this process was started with, which /proc shows to its user."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    if start:
        place = start
        for entry in ctypes.string_at(start, end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if value and os.fsdecode(name) not in kept:
                ctypes.memset(place + len(name) + 1, 0, len(value))
            place += len(entry) + 1
