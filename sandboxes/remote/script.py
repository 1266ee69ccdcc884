"""Commands for machines that take a line of text for a shell, and files: no input, and no bytes out but a file's."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from sandboxes.remote.provider import ERRORS, Command, Ended, Hear, ProviderError, UnreachableError

INLINE = 1 << 20
"""Bytes of output that come with the end of a command; of more the file is read."""

_PIECE = 1 << 20
_LOOKS = (2.0, 5.0)  # seconds between two looks at what a command has said: at first, and at most


class Shell(Protocol):
    """What a provider can do with a machine. Each method raises a ProviderError."""

    async def upload(self, files: Mapping[str, bytes]) -> None:
        """Writes the files, by their paths, and makes their folders."""

    async def run(self, line: str, command: Command) -> str | None:
        """What the line of a shell says, with the command's variables and timeout. None: it was ended by that."""

    async def read(self, path: str, since: int, most: int) -> bytes:
        """Some `most` bytes of a file from one on, none at its end; its last ones where `since` is negative."""

    async def remove(self, folder: str) -> None:
        """With all that is in it."""


async def execute(shell: Shell, command: Command, hear: Hear) -> Ended:
    """As `Provider.execute`. What the command has said so far is looked for every few seconds."""
    return await _Running(shell, command, hear).ended()


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
        text = await self._run()
        told = read(text, self._mark) if text is not None else None
        if told and told.output is not None:
            self._tell(told.output[self._heard :])
            return Ended(told.code, _text(told.errors))
        while piece := await self._more():
            self._tell(piece)
        errors = told.errors if told else await self._shell.read(self._path("err"), -ERRORS, ERRORS)
        with suppress(ProviderError):
            await self._shell.remove(self._folder)
        return Ended(told.code if told else None, _text(errors))

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


# The input is nowhere to be found once it is open, and the folder is of no use to other users of the machine.
_SCRIPT = """\
cd {folder} && chmod 700 . && exec 3<in 4>out 5>err && rm -f in run && cd "$OLDPWD" || exit 125
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
then out=+$(base64 <out | tr -d '\\n'); rm -rf {folder}
else out=-
fi
printf '\\n{mark} %s %s +%s\\n' "$code" "$out" "$err"
"""


class Told(NamedTuple):
    """What a script told of its command."""

    code: int
    output: bytes | None
    """None: it is in the folder, which is still there. Else there is no folder any more."""
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
