"""Find and run `uv`, with only the user's own settings, and explain its failures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable
from importlib import import_module
from pathlib import Path

from sandboxes.cache import VARIABLE, cache_dir, delete, private_dir
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.programs import find_program
from sandboxes.packages import tool_process
from sandboxes.packages.locking import exclusive, share_lock
from sandboxes.packages.settings import UvSettings, settings
from sandboxes.packages.uv_config import config_files
from sandboxes.words.text import clean
from sandboxes.words.wording import Message, Setting

DOWNLOADS = "downloads"

WHEELS = ("--only-binary", ":all:")
"""Build nothing, so that no package's code runs while it is installed."""

CONFIG = "settings.toml"
"""The file that uv reads in place of the user's."""

INSTALL = "pip install 'evalcell[process]'"

MAX_REASON = 420
"""Most characters of uv's reason without its hint."""

MAX_HINT = 220

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
_HEARD = re.compile(r"Python\s+at\s+`([^`]+)`\s+returned\s+an\s+invalid\s+response")
_REFUSED_LOGIN = re.compile(r"\b(401 Unauthorized|403 Forbidden|407 Proxy Authentication Required)")
_REFUSING = re.compile(r"index(?: URL)? \((\S+)\)(?=.{0,120}?\b(?:401|403)\b)|Failed to fetch: `?(\S+?)`?(?:\s|$)")
_LONG = re.compile(r"(?<=/)(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w~-]{16,}(?=/|$)")
"""A part of a path that may be a token, as some indexes have them there."""
_UNUSABLE = re.compile(rf"{CONFIG}`?\s.*?^\s*\d+ \| \"?([\w-]+).*?\|[ ^-]*\n\s*(.+?)$", re.DOTALL | re.MULTILINE)
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_PARSE = re.compile(r"Couldn't parse|Failed to parse", re.IGNORECASE)


def find_uv() -> Path:
    """Return the path of uv. Raises SandboxUnavailableError with the command that installs it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        return Path(import_module("uv").find_uv_bin())
    if found := find_program("uv"):
        return Path(found)
    raise SandboxUnavailableError(f"packages need uv, which is not installed; run: {INSTALL}")


def user_settings() -> UvSettings:
    """Return the user's settings for resolving. Raises UnsupportedConfigError for those that cannot be honoured."""
    return settings(os.environ, Path(), Path())


async def run_uv(
    arguments: list[str],
    *,
    work: Path,
    deadline: float,
    resolving: bool = False,
    on_line: Callable[[str], None] | None = None,
    wheels: Iterable[Path] = (),
) -> tool_process.ToolResult:
    """
    Run `uv ARGUMENTS` in the folder `work`, with no configuration but what `settings` takes of the user's.

    `wheels` are folders with wheels that it may take, too.

    Raises TimeoutError past the deadline, in the event loop's time, SandboxUnavailableError if it does not run, and
    UnsupportedConfigError for settings that cannot be honoured.
    """
    program = find_uv()
    async with _downloads(deadline) as cache:
        user = settings(os.environ, cache, work, resolving=resolving)
        if places := [str(place) for place in wheels]:  # beside the user's own
            links = [one for one in (user.variables.get("UV_FIND_LINKS"),) if one]
            user.variables["UV_FIND_LINKS"] = ",".join([*links, *places])
        config = work / CONFIG
        config.unlink(missing_ok=True)
        config.touch(mode=0o600)  # an index may have a login
        config.write_text(user.config, encoding="utf-8")
        command = [str(program), "--config-file", str(config), "--quiet", *arguments, *user.options]
        if on_line:
            command.remove("--quiet")
        try:
            return await tool_process.run(
                command, cwd=work, variables=user.variables, deadline=deadline, on_line=on_line
            )
        except TimeoutError:
            raise
        except OSError as e:
            raise SandboxUnavailableError(f"uv does not run ({e}); reinstall it: {INSTALL}") from e


def failure(
    result: tool_process.ToolResult, what: str, step: str, connect: str = "connect and run it again"
) -> Exception:
    """
    Return the error for a run of uv that failed at `what`.

    The next step is `step` if the packages are at fault, `connect` if the network is.
    """
    if unusable := _UNUSABLE.search(result.errors):
        files = " or ".join(clean(str(file), 200) for file in config_files(os.environ)) or "your settings of pip"
        return UnsupportedConfigError(
            f"packages: uv cannot use `{unusable[1]}` of {files}: {_truncate(_plain(unusable[2]), MAX_REASON)}; mend it"
        )
    why = reason(result.errors) or f"uv exited with {result.code} and printed no reason"
    if _FULL.search(result.errors):
        room = f"make room, run 'evalcell cache prune', or set {VARIABLE} to a folder on another disk"
        return SandboxUnavailableError(f"packages: the disk of {cache_dir()} is full at {what}; {room}")
    if heard := _HEARD.search(result.errors):
        return SandboxUnavailableError(
            f"packages: uv cannot ask {heard[1]} what it is, as something that runs when it starts prints to standard "
            "output: look for a .pth file or a sitecustomize.py beside its packages, and let it print to standard error"
        )
    if refused := _REFUSED_LOGIN.search(" ".join(_DRAWING.sub(" ", result.errors).split())):
        return SandboxUnavailableError(_login_error(result.errors, refused[1], what))
    if is_network_error(result.errors):
        connect = "set SSL_CERT_FILE or UV_SYSTEM_CERTS=1" if "certificate" in result.errors else connect
        return SandboxUnavailableError(f"packages: the package index cannot be reached for {what}: {why}; {connect}")
    if is_user_error(result.code, result.errors):
        return UnsupportedConfigError(f"packages: {what}: {why}; {step}")
    return SandboxUnavailableError(f"packages: uv failed at {what}: {why}; check uv's own settings, then run it again")


def _login_error(errors: str, refused: str, what: str) -> str:
    """Who refused the login, without what could be a credential, and what may be wrong."""
    if refused.startswith("407"):
        return f"packages: the proxy refuses the login ({refused}) for {what}; set HTTPS_PROXY with user and password"
    found = _REFUSING.findall(" ".join(_DRAWING.sub(" ", errors).split()))
    places = dict.fromkeys(_place(one or other) for one, other in found)
    index = f"the package index {', '.join(places)}" if places else "the package index"
    unless = ", or does not show the package to you" if refused.startswith("403") else ""
    return (
        f"packages: {index} refuses the login{unless} ({refused}) for {what}; "
        "check its user and password (UV_INDEX_NAME_USERNAME and _PASSWORD, ~/.netrc, or UV_KEYRING_PROVIDER and what "
        "your keyring logs in with), then run it again"
    )


def _place(url: str) -> str:
    """An index's address without user, query, and what looks like a token."""
    scheme, _, rest = url.partition("://")
    plain = re.split(r"[?#]", rest)[0].rpartition("@")[2].rstrip("/")
    return _truncate(_LONG.sub("…", f"{scheme}://{plain}"), 120)


def timeout_error(what: str) -> SandboxUnavailableError:
    """Return the error for a deadline that passed."""
    return SandboxUnavailableError(
        Message(f"packages: {what} took too long; allow more seconds with ", Setting("sandbox.install_timeout"))
    )


def downloads_marker(folder: Path) -> Path:
    """Return the file whose locks show who uses uv's cache, and whose time, when it was last used."""
    return folder / "used"


@contextlib.asynccontextmanager
async def _downloads(deadline: float) -> AsyncIterator[Path]:
    """uv's cache. If nobody else uses it, files of killed uv processes are deleted before and after."""
    folder = private_dir(private_dir(cache_dir()) / DOWNLOADS)
    marker = downloads_marker(folder)
    try:
        while True:
            marker.touch(mode=0o600)
            _sweep(folder, marker)
            with share_lock(marker) as ours:
                if ours:
                    yield folder
                    return
            if asyncio.get_running_loop().time() > deadline:  # another evalcell empties it
                raise TimeoutError
            await asyncio.sleep(0.05)
    finally:
        _sweep(folder, marker)


def _sweep(folder: Path, marker: Path) -> None:
    with exclusive(marker) as free:
        if free:
            for left in (*folder.glob(".tmp*"), *folder.glob("*/.tmp*")):
                delete(left)


def is_network_error(errors: str) -> bool:
    """Say whether the index could not be reached, so that nothing is known about the packages."""
    return bool(_NETWORK.search(errors))


def is_user_error(code: int, errors: str) -> bool:
    """Say whether the requirements are at fault: uv exited with 1 or cannot parse a line."""
    return code == 1 or bool(_PARSE.search(errors))


def reason(errors: str) -> str:
    """Return uv's reason in one line, without addresses and line drawings; it may be empty."""
    body, *hints = re.split(r"(?m)^\s*hint:", _plain(errors))
    causes = [_SOLUTION.sub("", " ".join(part.split())).rstrip(".") for part in re.split(_PREFIX, body)]
    causes = list(dict.fromkeys(_END.sub("", one) for one in causes if one))  # each once
    causes = [one for one in causes if not _GENERAL.fullmatch(one)] or causes[-1:]
    hints = [" ".join(hint.split()) for hint in hints]
    # The user need not know that wheels are required, which we ask for, but that none of the existing ones fits.
    unfit = next((hint for hint in hints if "we only found wheels" in hint), "")
    text = _shorten("; ".join(causes), last_only=bool(unfit))
    hint = unfit or next(iter(hints), "")
    return f"{text} ({_truncate(hint, MAX_HINT)})" if hint else text


def _plain(errors: str) -> str:
    hosts = {host for host in _HOST.findall(errors) if "." in host}
    text = _DRAWING.sub(" ", _URL.sub("the package index", errors))
    for host in hosts:
        text = text.replace(host, "the package index")
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _shorten(text: str, *, last_only: bool) -> str:
    """Shorten a chain of reasons to the first and the last, which say most."""
    first, *more = re.split(r"(?<=\.) And because ", text)
    if len(text) <= MAX_REASON or not more:
        return _truncate(text, MAX_REASON)
    last = f"because {more[-1]}"
    if last_only:
        return _truncate(last, MAX_REASON)
    return f"{_truncate(first, MAX_REASON // 2)} {_truncate(last, MAX_REASON // 2)}"


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" .…") + " …"
