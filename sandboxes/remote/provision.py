"""What a machine needs before it runs scripts: to be known, and to have the packages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sandboxes.base import Language
from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import Lock
from sandboxes.remote import agent_protocol
from sandboxes.remote.provider import Command, Ended, Machine, Provider, RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses, again

Say = Callable[[str], None]

OLDEST = (3, 11)
"""Of the Pythons that scripts can run under."""

_OFFLINE = ("network", "seccomp")
"""Words of a greeting that each say that scripts are kept off the network; as the agent has them."""

STRAYS = "its kernel finds no process whose parent has ended: what a script leaves behind runs until its machine ends"
"""Where neither `pids` nor `orphans` is among the words."""

_REPLY = 64 * 1024

# Runs on the machine, with the lock as its standard input. The folder is none of those that are hidden from scripts.
_INSTALL = """
import os, subprocess, sys, tempfile
os.umask(0o022)
root = os.geteuid() == 0
folder = "/opt/evalcell/packages" if root else os.path.expanduser("~/.evalcell/packages")
with tempfile.TemporaryDirectory() as work:
    with open(work + "/lock", "wb") as file:
        file.write(sys.stdin.buffer.read())
    pip = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "install"]
    pip += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-cache-dir", "--target", folder]
    done = subprocess.run([*pip, "--requirement", work + "/lock"], stdout=2, stdin=subprocess.DEVNULL)
if done.returncode:
    sys.exit(1)
print(ascii(folder)[1:-1])
"""


class _Reply:
    """The stdout of a command that says little."""

    def __init__(self) -> None:
        self.said = b""

    def hear(self, piece: bytes) -> None:
        self.said += piece
        if len(self.said) > _REPLY:
            raise RefusedError("a machine says more than it was asked; choose another image")


async def greeted(
    provider: Provider,
    machine: Machine,
    pauses: Pauses,
    language: Language = "python",
    packages: str | None = None,
) -> agent_protocol.Greeting:
    """
    Who is there, and what would keep a script of the language in. Deno must be among the packages, where that is it.

    Raises SandboxUnavailableError for a machine without a usable Python, else a ProviderError.
    """
    command, listener = agent_protocol.hello(language, packages)

    def hear(piece: bytes) -> None:
        listener.feed(piece)

    try:
        ended = await again(lambda: provider.execute(machine, command, hear), pauses, unsent=True)
    except agent_protocol.UnclearError as e:
        raise UnreachableError(f"{provider.name}: what the machine said is unclear: {e}") from e
    found, why = listener.greeting, _last(ended)
    if not listener.finished and (ended.code is None or ended.code in (0, *range(128, 256))):
        raise UnreachableError(f"{provider.name}: the machine was lost while it said who it is")
    if found is None:
        raise SandboxUnavailableError(
            f"{provider.name}: no python3 answers in the machine ({why or 'it says nothing'}); "
            "choose an image with Python 3.11 or newer"
        )
    if tuple(int(part) for part in found.python.split(".")[:2]) < OLDEST:
        raise SandboxUnavailableError(
            f"{provider.name}: the machine has Python {found.python}; choose an image with 3.11 or newer"
        )
    return found


async def uncut(provider: Provider, machine: Machine, pauses: Pauses) -> str:
    """Has the provider cut the machine's network; why it will not, where that is so. Raises a ProviderError."""
    try:
        await again(lambda: provider.cut_network(machine), pauses)
    except RefusedError as e:
        return str(e)
    return ""


def offline(name: str, why: str, greeting: agent_protocol.Greeting) -> str:
    """
    What to tell where the provider leaves machines a network, and they keep scripts off it by themselves.

    Raises SandboxUnavailableError where they cannot.
    """
    walls = [word for word in greeting.protects if word in _OFFLINE]
    if not walls:
        raise SandboxUnavailableError(
            f"{name}: {why}; and nothing on its machines keeps scripts off the network: choose an image with more "
            "rights, or let scripts use the network with SandboxConfig(network=True)"
        )
    return f"{name}: {why}; scripts are kept off the network on the machines themselves, by {', '.join(walls)}"


async def locked(packages: tuple[str, ...], python: str, machine: str, say: Say, deadline: float) -> Lock:
    """The hash-locked set for a machine's Python; `machine` as `uname -m` names it. Raises as `resolve` does."""
    from sandboxes.packages import Elsewhere, resolve

    return await resolve(packages, Elsewhere(python, machine), say=say, deadline=deadline)


async def installed(provider: Provider, machine: Machine, lock: Lock, say: Say, deadline: float) -> str:
    """
    Installs the lock in the machine; the folder where it is.

    Raises SandboxUnavailableError when that fails or takes longer than until the loop's time `deadline`.
    """
    left = deadline - asyncio.get_running_loop().time()
    reply = _Reply()
    command = Command(argv=("python3", "-I", "-c", _INSTALL), input=lock.text.encode(), timeout=max(1.0, left))
    say(f"{provider.name}: installing {len(lock.packages)} package{'s' * (len(lock.packages) != 1)} in a machine")
    late = SandboxUnavailableError(
        f"{provider.name}: installing packages took too long; allow more seconds with SandboxConfig(install_timeout=…)"
    )
    try:
        async with asyncio.timeout(max(1.0, left) + 5):
            ended = await provider.execute(machine, command, reply.hear)
    except TimeoutError:
        raise late from None
    if ended.code is None:
        raise late
    folder = reply.said.decode("ascii", "replace").strip()
    if ended.code != 0 or not folder.startswith("/") or not folder.isprintable():
        raise SandboxUnavailableError(
            f"{provider.name}: the packages could not be installed: {_last(ended) or 'pip said nothing'}; "
            "see that the machine has pip and reaches a package index"
        )
    return folder


def _last(ended: Ended) -> str:
    """The end of what it said, where the reason usually stands."""
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    told = [line for line in lines if line.lower().startswith("error") and not line.endswith("Exception:")] or lines
    return told[-1][:300] if told else ""
