"""Prepare a machine for scripts: find out what it is, and install packages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sandboxes.base import Language
from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import Lock
from sandboxes.remote import agent_protocol
from sandboxes.remote.provider import Command, CommandResult, Machine, Provider, RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses, retry
from sandboxes.words.wording import Message, Setting

Say = Callable[[str], None]

OLDEST = (3, 9)
"""The oldest Python that the harness runs with."""

_OFFLINE = ("network", "seccomp")
"""Words of a greeting each of which means that scripts are kept off the network; as in the agent."""

STRAYS = "processes that a script leaves behind run until the machine ends: its kernel does not find orphaned processes"
"""The warning for machines with neither `pids` nor `orphans` among the words."""

_REPLY = 64 * 1024

# Runs on the machine, with the lock as standard input. The folder is not one of those hidden from scripts.
_INSTALL = """
import os, subprocess, sys, tempfile
os.umask(0o022)
root = os.geteuid() == 0
folder = "/opt/evalcell/packages" if root else os.path.expanduser("~/.evalcell/packages")
with tempfile.TemporaryDirectory() as work:
    with open(work + "/lock", "wb") as file:
        file.write(sys.stdin.buffer.read())
    pip = [sys.executable, "-P", "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "install"]
    pip += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-cache-dir", "--target", folder]
    for _ in range(2):  # a download that breaks off is other bytes to pip
        done = subprocess.run(
            [*pip, "--requirement", work + "/lock"], stdout=2, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        if not done.returncode or b"DO NOT MATCH THE HASHES" not in done.stderr:
            break
sys.stderr.buffer.write(done.stderr)
if done.returncode:
    sys.exit(1)
print(ascii(folder)[1:-1])
"""


class _Reply:
    """The stdout of a command with a short reply."""

    def __init__(self) -> None:
        self.output = b""

    def add(self, piece: bytes) -> None:
        self.output += piece
        if len(self.output) > _REPLY:
            raise RefusedError("a machine's reply is too long; choose another image")


async def greet(
    provider: Provider,
    machine: Machine,
    pauses: Pauses,
    language: Language = "python",
    packages: str | None = None,
) -> agent_protocol.Greeting:
    """
    Ask the machine who it is, and what it can keep scripts of the language from. Deno must be among the packages.

    Raises SandboxUnavailableError if the machine has no usable Python, else a ProviderError.
    """
    command, listener = agent_protocol.hello(language, packages)

    def on_output(piece: bytes) -> None:
        listener.feed(piece)

    try:
        ended = await retry(lambda: provider.execute(machine, command, on_output), pauses, unsent=True)
    except agent_protocol.UnclearError as e:
        raise UnreachableError(f"{provider.name}: the machine's answer is invalid: {e}") from e
    found, why = listener.greeting, _last_line(ended)
    if not listener.finished and (ended.code is None or ended.code in (0, *range(128, 256))):
        raise UnreachableError(f"{provider.name}: the machine was lost during the greeting")
    if found is None:
        raise SandboxUnavailableError(
            f"{provider.name}: python3 does not run in the machine ({why or 'no error output'}); "
            "choose an image with Python 3.9 or newer"
        )
    if tuple(int(part) for part in found.python.split(".")[:2]) < OLDEST:
        raise SandboxUnavailableError(
            f"{provider.name}: the machine has Python {found.python}; choose an image with 3.9 or newer"
        )
    return found


async def cut_network(provider: Provider, machine: Machine, pauses: Pauses) -> str:
    """Cut the machine's network; return the reason if the provider refuses. Raises a ProviderError."""
    try:
        await retry(lambda: provider.cut_network(machine), pauses)
    except RefusedError as e:
        return str(e)
    return ""


def offline_warning(name: str, why: str, greeting: agent_protocol.Greeting) -> str:
    """
    Return the warning that the provider leaves machines a network, which they themselves keep scripts off.

    Raises:
        SandboxUnavailableError: If they cannot.
    """
    walls = [word for word in greeting.protects if word in _OFFLINE]
    if not walls:
        raise SandboxUnavailableError(
            Message(
                f"{name}: {why}, and nothing on its machines keeps scripts off the network: choose an image with more "
                "rights, or allow the network with ",
                Setting("sandbox.network", True),
            )
        )
    return f"{name}: {why}; the machines themselves keep scripts off the network, by {', '.join(walls)}"


async def lock_for(packages: tuple[str, ...], python: str, machine: str, say: Say, deadline: float) -> Lock:
    """Return the lock for a machine's Python; `machine` as `uname -m` prints it. Raises as `resolve` does."""
    from sandboxes.packages import RemotePython, resolve

    return await resolve(packages, RemotePython(python, machine), say=say, deadline=deadline)


async def install_lock(provider: Provider, machine: Machine, lock: Lock, say: Say, deadline: float) -> str:
    """
    Install the lock in the machine; return the folder.

    Raises:
        SandboxUnavailableError: If that fails or is not done by `deadline`, in the event loop's time.
    """
    left = deadline - asyncio.get_running_loop().time()
    reply = _Reply()
    command = Command(argv=("python3", "-I", "-S", "-c", _INSTALL), input=lock.text.encode(), timeout=max(1.0, left))
    say(f"{provider.name}: installing {len(lock.packages)} package{'s' * (len(lock.packages) != 1)} in a machine")
    late = SandboxUnavailableError(
        Message(
            f"{provider.name}: installing packages took too long; allow more seconds with ",
            Setting("sandbox.install_timeout"),
        )
    )
    try:
        async with asyncio.timeout(max(1.0, left) + 5):
            ended = await provider.execute(machine, command, reply.add)
    except TimeoutError:
        raise late from None
    if ended.code is None:
        raise late
    folder = reply.output.decode("ascii", "replace").strip()
    if ended.code != 0 or not folder.startswith("/") or not folder.isprintable():
        raise SandboxUnavailableError(
            f"{provider.name}: the packages could not be installed: {_last_line(ended) or 'no error output'}; "
            "check that the machine has pip and can reach a package index"
        )
    return folder


def _last_line(ended: CommandResult) -> str:
    """The last line of stderr, where the reason usually is."""
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    told = [line for line in lines if line.lower().startswith("error") and not line.endswith("Exception:")] or lines
    return told[-1][:300] if told else ""
