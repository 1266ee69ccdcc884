"""The real `uv`: found, and run so that only the user's own settings reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path

from sandboxes.cache import cache_dir, delete, private_dir
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import child
from sandboxes.packages.holding import unused, using
from sandboxes.packages.reason import cut, of_caller, of_network
from sandboxes.packages.settings import settings

DOWNLOADS = "downloads"

WHEELS = ("--only-binary", ":all:")
"""Nothing is built, so that no package's code runs while it is installed."""

INSTALL = "pip install 'evalcell[process]'"


def find_uv() -> Path:
    """The program. Raises SandboxUnavailableError with the command that installs it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        return Path(import_module("uv").find_uv_bin())
    if found := shutil.which("uv"):
        return Path(found)
    raise SandboxUnavailableError(f"packages need uv, which is not installed; run: {INSTALL}")


def choice() -> str:
    """A hash of the user's settings that decide which versions are found."""
    return settings(os.environ, Path(), Path()).choice


async def run_uv(
    arguments: list[str], *, work: Path, deadline: float, heard: Callable[[str], None] | None = None
) -> child.Finished:
    """
    Runs `uv ARGUMENTS` in the folder `work`, where it finds no project's configuration and leaves its temporary files.

    Raises TimeoutError past the deadline (the loop's time), SandboxUnavailableError when it cannot start.
    """
    program = find_uv()
    async with _downloads(deadline) as cache:
        user = settings(os.environ, cache, work)
        command = [str(program), *user.options, "--quiet", *arguments]
        if heard:
            command.remove("--quiet")
        try:
            return await child.run(command, cwd=work, variables=user.variables, deadline=deadline, heard=heard)
        except TimeoutError:
            raise
        except OSError as e:
            raise SandboxUnavailableError(f"uv does not run ({e}); reinstall it: {INSTALL}") from e


def failure(done: child.Finished, what: str, step: str, connect: str = "connect and run it again") -> Exception:
    """
    The error for a run of uv that failed at `what`: the caller's, or ours when nothing can be known.

    `step` is what the caller can do where the packages are at fault, `connect` where the network is.
    """
    said = cut(done.errors) or f"uv ended with {done.code} and said nothing"
    if of_network(done.errors):
        told = "set SSL_CERT_FILE or UV_SYSTEM_CERTS=1" if "certificate" in done.errors else connect
        return SandboxUnavailableError(f"packages: the package index cannot be reached for {what}: {said}; {told}")
    if of_caller(done.code, done.errors):
        return UnsupportedConfigError(f"packages: {what}: {said}; {step}")
    return SandboxUnavailableError(
        f"packages: uv failed at {what}: {said}; look at uv's own settings, then run it again"
    )


def late(what: str) -> SandboxUnavailableError:
    """The error for a deadline that passed."""
    return SandboxUnavailableError(
        f"packages: {what} took too long; allow more seconds with SandboxConfig(install_timeout=…)"
    )


def downloads_marker(folder: Path) -> Path:
    """The file that says who uses uv's cache, and when it was last wanted."""
    return folder / "used"


@contextlib.asynccontextmanager
async def _downloads(deadline: float) -> AsyncIterator[Path]:
    """uv's cache. Whoever finds it unused clears away what a killed uv left behind, before and after."""
    folder = private_dir(private_dir(cache_dir()) / DOWNLOADS)
    marker = downloads_marker(folder)
    try:
        while True:
            marker.touch(mode=0o600)
            _sweep(folder, marker)
            with using(marker) as ours:
                if ours:
                    yield folder
                    return
            if asyncio.get_running_loop().time() > deadline:  # another evalcell empties it
                raise TimeoutError
            await asyncio.sleep(0.05)
    finally:
        _sweep(folder, marker)


def _sweep(folder: Path, marker: Path) -> None:
    with unused(marker) as free:
        if free:
            for left in (*folder.glob(".tmp*"), *folder.glob("*/.tmp*")):
                delete(left)
