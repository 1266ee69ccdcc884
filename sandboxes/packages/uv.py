"""The real `uv`: found, and run so that only the user's own settings reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path

from sandboxes.cache import cache_dir, delete, private_dir
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.packages import tool_process
from sandboxes.packages.locking import unused, using
from sandboxes.packages.settings import settings

DOWNLOADS = "downloads"

WHEELS = ("--only-binary", ":all:")
"""Nothing is built, so that no package's code runs while it is installed."""

INSTALL = "pip install 'evalcell[process]'"

LONGEST_REASON = 420
"""Characters of uv's reason itself."""

LONGEST_HINT = 220

_URL = re.compile(r"\b(?:[a-z][a-z+]*)://[^\s`'\")]+", re.IGNORECASE)
_HOST = re.compile(r"://(?:[^/@\s]*@)?([^/:\s`'\")]+)")
_DRAWING = re.compile("[\u2500-\u257f\u25b6\u00d7]+")
_PREFIX = re.compile(r"^\s*(?:error|cause|warning)\s*:\s*", re.IGNORECASE | re.MULTILINE)
_SOLUTION = re.compile(r"No solution found when resolving dependencies:? ?")
_GENERAL = re.compile(
    r"Request failed after.*|Failed to fetch: the package index|"
    r"error sending request for url.*|client error.*|tcp connect error"
)
_END = re.compile(r",? we can conclude that your requirements are unsatisfiable\.?")
_NETWORK = re.compile(
    r"network was disabled|error sending request|Failed to fetch|Request failed|Could not connect|dns error|"
    r"tcp connect|timed out|tunnel error|peer certificate",
    re.IGNORECASE,
)
_PARSE = re.compile(r"Couldn't parse|Failed to parse", re.IGNORECASE)


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
) -> tool_process.Finished:
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
            return await tool_process.run(command, cwd=work, variables=user.variables, deadline=deadline, heard=heard)
        except TimeoutError:
            raise
        except OSError as e:
            raise SandboxUnavailableError(f"uv does not run ({e}); reinstall it: {INSTALL}") from e


def failure(done: tool_process.Finished, what: str, step: str, connect: str = "connect and run it again") -> Exception:
    """
    The error for a run of uv that failed at `what`: the caller's, or ours when nothing can be known.

    `step` is what the caller can do where the packages are at fault, `connect` where the network is.
    """
    said = reason(done.errors) or f"uv ended with {done.code} and said nothing"
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


def of_network(errors: str) -> bool:
    """Whether the index could not be reached, so that nothing is known about the packages."""
    return bool(_NETWORK.search(errors))


def of_caller(code: int, errors: str) -> bool:
    """Whether what was asked for is at fault: uv's exit code 1, or a line that it cannot read."""
    return code == 1 or bool(_PARSE.search(errors))


def reason(errors: str) -> str:
    """uv's reason in one line, without addresses and drawings. It may be empty."""
    body, *hints = re.split(r"(?m)^\s*hint:", _plain(errors))
    causes = [_SOLUTION.sub("", " ".join(part.split())).rstrip(".") for part in re.split(_PREFIX, body)]
    causes = list(dict.fromkeys(_END.sub("", one) for one in causes if one))  # each once
    causes = [one for one in causes if not _GENERAL.fullmatch(one)] or causes[-1:]
    useful = [" ".join(hint.split()) for hint in hints]
    # That wheels are required is our doing; that none of the existing ones fits is news.
    unfit = next((hint for hint in useful if "we only found wheels" in hint), "")
    text = _shorter("; ".join(causes), last_only=bool(unfit))
    said = unfit or next(iter(useful), "")
    return f"{text} ({_cut(said, LONGEST_HINT)})" if said else text


def _plain(errors: str) -> str:
    hosts = {host for host in _HOST.findall(errors) if "." in host}
    text = _DRAWING.sub(" ", _URL.sub("the package index", errors))
    for host in hosts:
        text = text.replace(host, "the package index")
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _shorter(text: str, *, last_only: bool) -> str:
    """A chain of reasons: the first and the last say most."""
    if len(text) <= LONGEST_REASON:
        return text
    parts = re.split(r"(?<=\.) And because ", text)
    if len(parts) == 1:
        return _cut(text, LONGEST_REASON)
    last = f"because {parts[-1]}"
    return (
        _cut(last, LONGEST_REASON)
        if last_only
        else f"{_cut(parts[0], LONGEST_REASON // 2)} {_cut(last, LONGEST_REASON // 2)}"
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" .…") + " …"
