"""
Commands for machines that take a line of text for a shell, and files: no input, and no bytes out but a file's.

One request starts a command and waits for its end; if that one breaks off, the command goes on and its end is found.
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

from sandboxes.remote.provider import ERRORS, Command, Ended, GoneError, Hear, ProviderError, UnreachableError
from sandboxes.remote.retry import Pauses, again

INLINE = 1 << 20
"""Bytes of output that come with the end of a command; of more the file is read."""

_PIECE = 1 << 20
_LOOKS = (2.0, 5.0)  # seconds between two looks at what a command has said: at first, and at most
_GRACE = 10.0  # seconds after a command's timeout in which its end may still be told
_LATEST = 180.0  # seconds besides a command's own for its files to go there, and for what it said to come back
_PATIENCE = 5  # looks in a row that may fail


class Shell(Protocol):
    """What a provider can do with a machine. Each method raises a ProviderError."""

    async def upload(self, files: Mapping[str, bytes]) -> None:
        """Writes the files, by their paths, and makes their folders."""

    async def run(self, line: str, command: Command) -> str | None:
        """What the line of a shell says, with the command's variables and timeout. None: it was ended by that."""

    async def read(self, path: str, since: int, most: int) -> bytes:
        """
        Some `most` bytes of a file from one on, none at its end; its last ones where `since` is negative.

        Raises GoneError where there is none.
        """

    async def remove(self, folder: str) -> None:
        """With all that is in it."""


async def execute(shell: Shell, command: Command, hear: Hear) -> Ended:
    """As `Provider.execute`. What the command has said so far is looked for every few seconds."""
    try:
        async with asyncio.timeout(command.timeout + _LATEST) as deadline:
            return await _Running(shell, command, hear).ended()
    except TimeoutError:
        if not deadline.expired():  # it is of whoever hears
            raise
        raise UnreachableError("the command did not end in its time, nor was it ended") from None


class _Running:
    def __init__(self, shell: Shell, command: Command, hear: Hear) -> None:
        self._shell = shell
        self._command = command
        self._hear = hear
        self._heard = 0
        self._folder = f"/tmp/.evalcell-{secrets.token_hex(12)}"
        self._mark = secrets.token_hex(12)

    async def ended(self) -> Ended:
        script = written(self._command, self._folder, self._mark).encode()
        files = {"in": self._command.input, "out": b"", "err": b"", "run": script}
        try:
            await self._shell.upload({self._path(name): content for name, content in files.items()})
        except UnreachableError as e:
            raise UnreachableError(str(e), sent=False, after=e.after) from None
        told = await self._told()
        if told and told.output is not None:
            self._tell(told.output[self._heard :])
            return Ended(told.code, _text(told.errors))
        while piece := await self._surely(self._more):
            self._tell(piece)
        rest = partial(self._shell.read, self._path("err"), -ERRORS, ERRORS)
        errors = told.errors if told else await self._surely(rest)
        with suppress(ProviderError):
            await self._shell.remove(self._folder)
        return Ended(told.code if told else None, _text(errors))

    async def _surely(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Whatever becomes of the reading: the command was run, which nobody may be asked to do once more."""
        try:
            return await again(read, Pauses())
        except ProviderError as e:
            raise UnreachableError(f"what the command said cannot be read ({e})") from None

    async def _told(self) -> Told | None:
        """None: it took too long, and was ended."""
        deadline: float | None = asyncio.get_running_loop().time() + self._command.timeout + _GRACE
        try:
            text = await self._run()
            deadline = None  # it has ended
            return read(text, self._mark) if text is not None else None
        except UnreachableError as e:
            if not e.sent:
                raise
            broken = e
        if await self._fenced():
            raise UnreachableError(str(broken), sent=False, after=broken.after) from None
        return await self._found(broken, deadline)

    async def _found(self, broken: UnreachableError, deadline: float | None) -> Told | None:
        """As `_told`: looked for until the loop's time `deadline`, or once. Raises `broken` where it is not found."""
        pause, failed = _LOOKS[0] / 10, 0
        while True:
            piece = b""
            try:
                piece = await self._more()
                with suppress(GoneError):  # of a machine that is there: it has not ended
                    return read(_text(await self._shell.read(self._path("end"), 0, 4 * INLINE)), self._mark)
                failed = 0
            except ProviderError as e:
                failed += 1
                if failed > _PATIENCE or isinstance(e, GoneError):
                    raise broken from None
            self._tell(piece)
            if deadline is None:
                raise broken
            if asyncio.get_running_loop().time() > deadline:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, _LOOKS[1])

    async def _fenced(self) -> bool:
        """Whether it was not begun; then it never will be. One of the two removes the script, and only one can."""
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
                with suppress(ProviderError):  # the command's own request tells what is wrong
                    piece = await self._more()
                self._tell(piece)
            return await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    async def _more(self) -> bytes:
        """Of its output what was not heard yet, not all at once."""
        since = max(self._heard - 1, 0)  # few services know a part that begins at a file's end
        return (await self._shell.read(self._path("out"), since, _PIECE))[self._heard - since :]

    def _tell(self, piece: bytes) -> None:
        self._heard += len(piece)
        if piece:
            self._hear(piece)


# Its input is nowhere to be found once it is open, and its folder is of no use to other users of the machine. The
# folder stays until the next command begins, for the end may have to be asked for again.
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


class Told(NamedTuple):
    """What a script told of its command."""

    code: int
    output: bytes | None
    """None: it is too much, and in the folder."""
    errors: bytes


def written(command: Command, folder: str, mark: str) -> str:
    """
    A script that runs the command, as root where `sudo` lets it, and tells how it ended.

    It needs the folder's files `in`, `out` and `err`, the last two empty; `mark` is a word that nobody can guess.
    """
    names = ",".join(command.env)  # of the shell's own environment, where the values are
    keep = f" {shlex.quote(f'--preserve-env={names}')}" if names else ""
    argv = " ".join(map(shlex.quote, command.argv))
    return _SCRIPT.format(folder=shlex.quote(folder), argv=argv, keep=keep, errors=ERRORS, inline=INLINE, mark=mark)


def read(text: str, mark: str) -> Told:
    """Raises UnreachableError where the script, or who ran it, came to no good end."""
    words = text.rpartition(f"\n{mark} ")[2].split()
    try:
        code, out, err = words
        output = base64.b64decode(out[1:], validate=True) if out != "-" else None
        return Told(int(code), output, base64.b64decode(err[1:], validate=True))
    except (ValueError, binascii.Error):
        raise UnreachableError("the shell that ran the command broke off, or its end is unclear") from None


def _text(errors: bytes) -> str:
    return errors.decode("utf-8", "replace")


async def part(pieces: AsyncIterator[bytes], since: int, most: int, *, whole: bool) -> bytes:
    """What `Shell.read` gives, of a stream with the part from `since` on, or with the whole file."""
    found, skip = bytearray(), max(since, 0) if whole else 0
    async for piece in pieces:
        found += piece[skip:]
        skip = max(0, skip - len(piece))
        if since < 0:
            del found[:since]
        elif len(found) >= most:
            break
    return bytes(found)
