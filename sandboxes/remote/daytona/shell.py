"""
Run commands on machines that offer only files and a shell line, without input or binary output.

One request starts a command and waits for its end; if it breaks off, the command goes on and its end is looked for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from sandboxes.remote.provider import (
    ERRORS,
    Command,
    CommandResult,
    GoneError,
    OnOutput,
    ProviderError,
    UnreachableError,
)
from sandboxes.remote.retry import Pauses, retry

INLINE = 1 << 20
"""Most bytes of output that come with the end of a command; of longer output the file is read."""

_PIECE = 1 << 20
_LOOKS = (2.0, 5.0)  # seconds between two looks at a command's output: at first, and at most
_GRACE = 10.0  # seconds after a command's timeout in which its end may still be reported
_LATEST = 180.0  # seconds besides a command's own to send its files and read its output
_PATIENCE = 5  # failed looks in a row


class Shell(Protocol):
    """What a provider can do with a machine. Each method raises a ProviderError."""

    async def upload(self, files: Mapping[str, bytes]) -> None:
        """Write the files, by path, and make their folders."""

    async def run(self, line: str, command: Command) -> str | None:
        """Run a shell line with the command's variables and timeout; its output, or None if the timeout ended it."""

    async def read(self, path: str, since: int, most: int) -> bytes:
        """
        Read at most `most` bytes of a file from `since` on, empty at its end; its last bytes if `since` is negative.

        Raises:
            GoneError: If the file does not exist.
        """

    async def remove(self, folder: str) -> None:
        """Remove a folder and all that it holds."""


async def execute(shell: Shell, command: Command, on_output: OnOutput) -> CommandResult:
    """Run a command as `Provider.execute` does; look for new output every few seconds."""
    try:
        async with asyncio.timeout(command.timeout + _LATEST) as deadline:
            return await _ShellCommand(shell, command, on_output).run()
    except TimeoutError:
        if not deadline.expired():  # raised by on_output
            raise
        raise UnreachableError("the command did not end in time, and the service did not end it") from None


class _ShellCommand:
    def __init__(self, shell: Shell, command: Command, on_output: OnOutput) -> None:
        self._shell = shell
        self._command = command
        self._hear = on_output
        self._heard = 0
        self._folder = f"/tmp/.evalcell-{secrets.token_hex(12)}"
        self._mark = secrets.token_hex(12)

    async def run(self) -> CommandResult:
        script = wrap_command(self._command, self._folder, self._mark).encode()
        files = {"in": self._command.input, "out": b"", "err": b"", "run": script}
        try:
            await self._shell.upload({self._path(name): content for name, content in files.items()})
        except UnreachableError as e:
            raise UnreachableError(str(e), sent=False, after=e.after) from None
        report = await self._run_reported()
        if report and report.output is not None:
            self._pass_on(report.output[self._heard :])
            return CommandResult(report.code, _text(report.errors))
        while piece := await self._read_surely(self._next_output):
            self._pass_on(piece)
        rest = partial(self._shell.read, self._path("err"), -ERRORS, ERRORS)
        errors = report.errors if report else await self._read_surely(rest)
        with suppress(ProviderError):
            await self._shell.remove(self._folder)
        return CommandResult(report.code if report else None, _text(errors))

    async def _read_surely(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read, with retries. Any failure is an UnreachableError, since the command has run and must not run again."""
        try:
            return await retry(read, Pauses())
        except ProviderError as e:
            raise UnreachableError(f"the command's output cannot be read ({e})") from None

    async def _run_reported(self) -> ShellReport | None:
        """Run the script; its report, or None if it took too long and was ended."""
        deadline: float | None = asyncio.get_running_loop().time() + self._command.timeout + _GRACE
        try:
            text = await self._run()
            deadline = None  # it has ended
            return parse_report(text, self._mark) if text is not None else None
        except UnreachableError as e:
            if not e.sent:
                raise
            broken = e
        if await self._prevent_start():
            raise UnreachableError(str(broken), sent=False, after=broken.after) from None
        return await self._find_report(broken, deadline)

    async def _find_report(self, broken: UnreachableError, deadline: float | None) -> ShellReport | None:
        """Look for the report until `deadline`, in the loop's time, or once. Raises `broken` if it is not found."""
        pause, failed = _LOOKS[0] / 10, 0
        while True:
            piece = b""
            try:
                piece = await self._next_output()
                with suppress(GoneError):  # the machine exists, so the command has not ended
                    return parse_report(_text(await self._shell.read(self._path("end"), 0, 4 * INLINE)), self._mark)
                failed = 0
            except ProviderError as e:
                failed += 1
                if failed > _PATIENCE or isinstance(e, GoneError):
                    raise broken from None
            self._pass_on(piece)
            if deadline is None:
                raise broken
            if asyncio.get_running_loop().time() > deadline:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, _LOOKS[1])

    async def _prevent_start(self) -> bool:
        """
        Prevent the command from starting; whether that succeeded. It and the command both remove the script; only one
        can.
        """
        with suppress(ProviderError):
            line = f"rm {self._path('run')} && echo {self._mark}"
            return self._mark in (await self._shell.run(line, Command((), timeout=_GRACE)) or "")
        return False

    async def _run(self) -> str | None:
        running = asyncio.create_task(self._shell.run(f"sh {self._path('run')}", self._command))
        pause, longest = _LOOKS
        try:
            while not (await asyncio.wait({running}, timeout=pause))[0]:
                pause, piece = min(pause * 1.3, longest), b""
                with suppress(ProviderError):  # the command's own request reports what is wrong
                    piece = await self._next_output()
                self._pass_on(piece)
            return await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    async def _next_output(self) -> bytes:
        """The next piece of output."""
        since = max(self._heard - 1, 0)  # few services accept a range that begins at a file's end
        return (await self._shell.read(self._path("out"), since, _PIECE))[self._heard - since :]

    def _pass_on(self, piece: bytes) -> None:
        self._heard += len(piece)
        if piece:
            self._hear(piece)


# Once open, the input has no name, and other users of the machine cannot enter the folder. The
# folder stays until the next command begins, since the report may have to be read again.
_SCRIPT = """\
for old in /tmp/.evalcell-*/end; do rm -rf "${{old%/end}}"; done
cd {folder} && rm run && chmod 700 . && exec 3<in 4>out 5>err && rm in && cd "$OLDPWD" || exit 125
set -- {argv}
program=$(command -v "$1") || program=$1
shift
if [ "$(id -u)" -ne 0 ] && sudo -n{keep} -- true </dev/null >/dev/null 2>&1
then set -- sudo -n{keep} -- "$program" "$@"
else set -- "$program" "$@"
fi
"$@" <&3 >&4 2>&5 3<&- 4>&- 5>&-
code=$?
exec 3<&- 4>&- 5>&-
cd {folder} || exit 125
err=$(tail -c {errors} err | base64 | tr -d '\\n')
if [ "$(wc -c <out)" -le {inline} ]
then out=+$(base64 <out | tr -d '\\n')
else out=-
fi
printf '\\n{mark} %s %s +%s\\n' "$code" "$out" "$err" >told && mv told end && cat end
"""


class ShellReport(NamedTuple):
    """The report of a script about its command."""

    code: int
    output: bytes | None
    """None: it is too long, and in the folder."""
    errors: bytes


def wrap_command(command: Command, folder: str, mark: str) -> str:
    """
    Return a script that runs the command, as root if `sudo` allows it, and reports how it ended.

    It needs the files `in`, `out` and `err` in the folder, the last two empty; `mark` must not be guessable.
    """
    names = ",".join(command.env)  # the values are in the shell's own environment
    keep = f" {shlex.quote(f'--preserve-env={names}')}" if names else ""
    argv = " ".join(map(shlex.quote, command.argv))
    return _SCRIPT.format(folder=shlex.quote(folder), argv=argv, keep=keep, errors=ERRORS, inline=INLINE, mark=mark)


def parse_report(text: str, mark: str) -> ShellReport:
    """Parse a report. Raises UnreachableError if the script or its shell broke off."""
    words = text.rpartition(f"\n{mark} ")[2].split()
    try:
        code, out, err = words
        output = base64.b64decode(out[1:], validate=True) if out != "-" else None
        return ShellReport(int(code), output, base64.b64decode(err[1:], validate=True))
    except (ValueError, binascii.Error):
        raise UnreachableError("the shell that ran the command broke off or gave no valid report") from None


def _text(errors: bytes) -> str:
    return errors.decode("utf-8", "replace")


async def read_range(pieces: AsyncIterator[bytes], since: int, most: int, *, whole: bool) -> bytes:
    """Return what `Shell.read` returns, from a stream that begins at `since`, or from the `whole` file."""
    found, skip = bytearray(), max(since, 0) if whole else 0
    async for piece in pieces:
        found += piece[skip:]
        skip = max(0, skip - len(piece))
        if since < 0:
            del found[:since]
        elif len(found) >= most:
            break
    return bytes(found)
