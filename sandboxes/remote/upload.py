"""Copy the user's files to machines: read once, sent in pieces, checked when all have arrived."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from sandboxes.base import MB
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.tree import digest_of, members
from sandboxes.remote.provider import Command, CommandResult, Machine, Provider, UnreachableError
from sandboxes.remote.retry import Pauses, retry
from sandboxes.words.text import clean
from sandboxes.words.wording import Message, Setting

MOST = 64 * MB
"""Most bytes of all files together: each piece is a command, and each machine gets all of them."""

PIECE = 2 * MB
"""Bytes sent with one command, so that a slow connection sends them before the request times out."""

_REPLY = 16 * 1024

# Runs on the machine: a line of JSON on standard input describes the bytes behind it. The folder gets its name
# only once it is complete; if machines share a file system, another one may have been first, with the same files.
_KEEP = """
import hashlib, json, os, shutil, sys
os.umask(0o022)
given = sys.stdin.buffer
asked = json.loads(given.readline())
base = os.path.abspath("/opt/evalcell" if os.geteuid() == 0 else os.path.expanduser("~/.evalcell"))
work, folder = os.path.join(base, asked["work"]), os.path.join(base, asked["folder"])
told = {}
try:
    os.makedirs(work, 0o700, exist_ok=True)
    for name, start, size in asked["parts"]:
        os.makedirs(os.path.dirname(os.path.join(work, name)), exist_ok=True)
        with open(os.open(os.path.join(work, name), os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:
            file.seek(start)
            while size and (piece := given.read(min(size, 1 << 20))):
                file.write(piece)
                size -= len(piece)
    if asked["names"]:
        for name in asked["names"]:
            os.chmod(os.path.join(work, name), 0o444)
            os.utime(os.path.join(work, name), (0, 0))  # the same on each machine
        os.chmod(work, 0o755)
        try:
            os.rename(work, folder)
        except OSError:
            shutil.rmtree(work)
        seal = hashlib.sha256()
        for name in asked["names"]:
            with open(os.path.join(folder, name), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                seal.update(f"{name} {file.tell()} {digest}\\n".encode())
        told = {"folder": folder, "seal": seal.hexdigest()}
except OSError as error:
    told = {"failed": error.strerror or type(error).__name__}
print(json.dumps(told))
"""


class Files:
    """The files of one sandbox, as they were when it was opened."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        self._names = dict.fromkeys(name.partition("/")[0] for name in contents)
        below = {
            name: [(file.partition("/")[2], digests[file]) for file in contents if file.startswith(f"{name}/")]
            for name in self._names
        }
        self.digests = {name: digest_of(files) if files else digests[name] for name, files in below.items()}
        """SHA-256 by the name of the variable."""
        self._folder = f"files-{secrets.token_hex(8)}"
        lines = (f"{name} {len(contents[name])} {digest}\n" for name, digest in digests.items())
        self._seal = hashlib.sha256("".join(lines).encode()).hexdigest()
        self.places: dict[str, str] = {}
        """Their paths in every machine, by the name of the variable; set once one machine has them."""

    @classmethod
    def read(cls, paths: Mapping[str, str]) -> Files:
        """
        Read the files, and those in folders.

        Raises UnsupportedConfigError if one is not a readable regular file, or all are too large.
        """
        left, contents = MOST, {}
        for name, path in paths.items():
            option = Setting("sandbox.files", f"{name}={path if path.isprintable() else ascii(path)}")
            try:
                for member, file in members(name, path):
                    contents[member] = _content(option, file, left)
                    left -= len(contents[member])
            except OSError as e:
                raise UnsupportedConfigError(
                    Message(option, f" cannot be read ({e.strerror}); check the path")
                ) from None
        return cls(contents)

    async def send(
        self, provider: Provider, machine: Machine, pauses: Pauses, say: Callable[[str], None], deadline: float
    ) -> None:
        """
        Send the files to a machine that does not have them.

        Raises SandboxUnavailableError if it has no room for them or they are not there by `deadline`, in the event
        loop's time, and a ProviderError: UnreachableError if what arrived is not what was sent.
        """
        sizes = {name: len(content) for name, content in self._contents.items()}
        asked: dict[str, Any] = {"folder": self._folder, "work": f"{self._folder}.{secrets.token_hex(4)}"}
        pieces = list(_split(sizes))
        if len(pieces) > 1:
            say(f"{provider.name}: sending {sum(sizes.values()) / MB:.1f} MB of files to a machine")
        reply: dict[str, Any] = {}
        for number, parts in enumerate(pieces, 1):
            asked |= {"parts": parts, "names": list(sizes) if number == len(pieces) else []}
            content = (memoryview(self._contents[name])[start : start + size] for name, start, size in parts)
            piece = b"".join([json.dumps(asked).encode(), b"\n", *content])
            reply = await _send_piece(provider, machine, piece, pauses, deadline)
        folder = reply.get("folder")
        if reply.get("seal") != self._seal or not _is_place(folder, self._folder):
            raise UnreachableError(f"{provider.name}: the files were changed on their way to a machine")
        places = {name: f"{folder}/{name}" for name in self._names}
        if self.places and places != self.places:
            raise UnreachableError(f"{provider.name}: a machine has another folder for files than the others")
        self.places = places


def _content(option: Setting, path: str, most: int) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise UnsupportedConfigError(Message(option, " is not a regular file; choose one"))
            content = file.read(most + 1) if about.st_size <= most else None
    except (OSError, ValueError) as e:
        if isinstance(e, UnsupportedConfigError):
            raise
        why = e.strerror if isinstance(e, OSError) else "a path cannot contain such characters"
        raise UnsupportedConfigError(Message(option, f" cannot be read ({why}); check the path")) from None
    if content is None or len(content) > most:
        raise UnsupportedConfigError(
            Message(
                option,
                f" is too large: all files together may take {MOST // MB} MB on a provider's machines; "
                "make them smaller, or choose ",
                Setting("sandbox.backend", "process"),
                ", which sends none",
            )
        )
    return content


def _split(sizes: Mapping[str, int]) -> Iterator[list[tuple[str, int, int]]]:
    """The parts for each command: file name, offset and size. Empty files are parts too."""
    parts: list[tuple[str, int, int]] = []
    room = PIECE
    for name, size in sizes.items():
        start = 0
        while True:
            taken = min(size - start, room)
            parts.append((name, start, taken))
            start, room = start + taken, room - taken
            if not room:
                yield parts
                parts, room = [], PIECE
            if start == size:
                break
    yield parts


async def _send_piece(
    provider: Provider, machine: Machine, piece: bytes, pauses: Pauses, deadline: float
) -> dict[str, Any]:
    """Send a piece; the machine's reply. Raises as `Files.send` does."""
    said = bytearray()

    def on_output(heard: bytes) -> None:
        said.extend(heard)
        if len(said) > _REPLY:
            raise UnreachableError(f"{provider.name}: a machine's reply about its files is too long")

    left = max(1.0, deadline - asyncio.get_running_loop().time())
    command = Command(argv=("python3", "-I", "-S", "-c", _KEEP), input=piece, timeout=left)
    late = SandboxUnavailableError(
        Message(
            f"{provider.name}: sending the files took too long; send less, or allow more seconds with ",
            Setting("sandbox.install_timeout"),
        )
    )
    try:
        async with asyncio.timeout(left + 5):
            ended = await retry(lambda: provider.execute(machine, command, on_output), pauses, unsent=True)
    except TimeoutError:
        raise late from None
    if ended.code is None:
        raise late
    return _read(provider.name, ended, bytes(said))


def _read(name: str, ended: CommandResult, said: bytes) -> dict[str, Any]:
    reply = None
    with suppress(ValueError, RecursionError):
        reply = json.loads(said)
    if ended.code != 0 or not isinstance(reply, dict):
        raise UnreachableError(f"{name}: the machine was lost while files were being sent")
    if "failed" in reply:
        why = clean(" ".join(ascii(reply["failed"])[1:-1].split()), 200)
        raise SandboxUnavailableError(
            f"{name}: a machine cannot store the files ({why}); send less, or choose an image with more room"
        )
    return reply


def _is_place(folder: Any, name: str) -> bool:
    whole = isinstance(folder, str) and folder.startswith("/") and folder.isprintable()
    return whole and os.path.normpath(folder) == folder and os.path.basename(folder) == name
