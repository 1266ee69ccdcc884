"""
The interface of a provider of machines: from one such class the rest of this folder makes a sandbox.

    create -> (execute, extend, cut_network ...) -> kill        and find and list, for machines that were left behind

A provider only talks to the service: a method asks one thing of it, and raises one of the errors below. Who owns a
machine, what is retried, how long to wait and what to do about a lost machine is decided elsewhere.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from sandboxes.errors import SandboxError

OWNER = "evalcell"
"""The value of the tag `owner` on every machine."""

ERRORS = 64 * 1024
"""Bytes kept of a command's stderr, from its end."""


class ProviderError(SandboxError):
    """
    The provider or the connection to it failed; this says nothing about the script.

        ProviderError
          RefusedError      it refuses, and will again: a wrong key, a wrong request
          UnreachableError  no answer, or an unusable one: it may or may not have done what was asked
          BusyError         too many requests; `after` says when to ask again
          FullError         as many machines run as the account may have
          GoneError         the machine no longer exists
    """


class RefusedError(ProviderError):
    """The service refuses, and would again. The message names the next step."""


class UnreachableError(ProviderError):
    """
    No answer, or a failure that may pass: status 500, 502, 503 or 504, a connection that failed or broke off.

    `sent` is False if the request certainly did not arrive.
    """

    def __init__(self, message: str, *, sent: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.after = after
        """Seconds after which the service wants to be asked again. None: it did not say."""


class BusyError(ProviderError):
    """Too many requests in too short a time; nothing was done."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class FullError(ProviderError):
    """The account has reached its number of machines; nothing was done. Waiting helps only if others end."""


class GoneError(ProviderError):
    """The machine does not exist or no longer runs."""


RETRY_ERRORS = (UnreachableError, BusyError, FullError, GoneError)
"""Errors after which another machine or a later attempt may succeed."""


@dataclass(frozen=True)
class Order:
    """A machine to be created."""

    key: str
    """Its permanent name, known before its id: 1 to 40 of a-z, 0-9 and -. Ordering it twice creates one machine."""
    tags: Mapping[str, str]
    """`owner`, `key`, `run`, `host` and more; values of at most 63 of A-Z, a-z, 0-9, `-`, `_` and `.`."""
    lifetime: int
    """Seconds after which the provider shall end it by itself."""
    network: bool
    """Whether it may use the network from the start. Once packages are installed, the network can be cut."""
    memory: int
    """Bytes that the scripts may use; the machine needs some more for itself."""
    lock: str | None = None
    """Hash-locked packages for providers that build them into an image; see `Provider.bakes`."""


@dataclass(frozen=True)
class Machine:
    """A running machine. `data` belongs to the provider: addresses, tokens. It is never shown or written to disk."""

    id: str
    key: str
    data: Any = field(default=None, repr=False)
    why_online: str = ""
    """Why the machine has a network though its order says none. Empty: the service did as ordered."""


@dataclass(frozen=True)
class ListedMachine:
    """A machine in the provider's list."""

    id: str
    key: str
    """Empty if it has none."""
    since: datetime
    """With a time zone."""
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A program to run in a machine."""

    argv: tuple[str, ...]
    """The program and its arguments, together below 32 KB, without secrets."""
    input: bytes = field(default=b"", repr=False)
    """All of its standard input, up to about 20 MB."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for this program alone. They are secret."""
    timeout: float = 60.0
    """Seconds after which the provider shall end it."""
    begun: int = 0
    """
    Bytes at the start of `input` that a running program has read if an equal command began it; it takes the rest, and
    answers, as a new one would. 0: it ends with its answer.
    """


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    code: int | None
    """The exit code; 128 + n for signal n. None: ended by the timeout."""
    errors: str = ""
    """The end of its stderr."""


OnOutput = Callable[[bytes], None]
"""Called with each piece of a command's stdout as it arrives. Raises to stop reading."""


def account_address(url: str, key: str) -> str:
    """
    Return a deployment and the account there, for `Provider.address`: 8 hex digits of the key's SHA-256.

    With another account's key a running machine looks like one that has ended.
    """
    return f"{url}/key-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


class Provider(ABC):
    """
    One account at one provider. Every method may be called while others wait; all but `open` need `open` first.

    Each raises only ProviderErrors; the exceptions of httpx or an SDK are mapped in one place. Each may be cancelled at
    any await: what it began at the provider is then found by the order's key.
    """

    name: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    """The variables that hold the credentials, for messages and for masking."""
    settings: ClassVar[tuple[str, ...]] = ()
    """
    Variables that do not decide where the credentials go. An env-file may set these alone where a credential is of the
    environment.
    """
    pace: ClassVar[float] = 1.0
    """Most machines created in a second."""
    cap: ClassVar[int] = 10
    """Most machines of a run that does not say how many; below the limit of the smallest plan."""
    longest: ClassVar[int] = 3600
    """Most seconds that a machine can live on the smallest plan, extended or not; it is replaced before."""
    local: ClassVar[bool] = False
    """Whether it is a service of this machine, which need not be there."""
    extends: ClassVar[bool] = True
    """Whether `extend` works. If not, a machine is ordered with the lifetime `longest`."""
    bakes: ClassVar[bool] = False
    """Whether `create` makes a machine with the order's packages; otherwise they are installed in it."""
    keeps: ClassVar[bool] = False
    """Whether `execute` lets a command go on for the next one; see `Command.begun`."""
    baked: ClassVar[str] = "site"
    """Where these are, if it `bakes`: a folder, or `site` for what the machine's Python has installed."""

    address: str
    """The deployment and the account there, for the ledger; not secret. See `account_address`."""
    python: str | None = None
    """The Python version, such as `3.13`, if it is chosen here rather than by the image; set if `bakes`."""
    machine: str = "x86_64"
    """The processor kind, as `uname -m` prints it, that packages are for if it `bakes`."""

    def __init__(self, values: Mapping[str, str]) -> None:  # noqa: B027  (for one that has no settings)
        """
        Read the settings from `values`, the environment with the env-file over it. Does no I/O.

        Raises SandboxUnavailableError, which names the missing or unusable variable and how to set it. `values` itself
        raises UnsupportedConfigError for what would send a key of the environment to an address of the env-file.
        """

    async def open(self) -> None:  # noqa: B027  (most need nothing)
        """Open connections without asking anything."""

    async def close(self) -> None:  # noqa: B027
        """Close connections. Safe twice."""

    @abstractmethod
    async def create(self, order: Order) -> Machine:
        """Create a machine in which commands can be run, or return the one of an equal earlier order."""

    @abstractmethod
    async def find(self, key: str) -> Machine | None:
        """Return the running machine that was ordered with the key, ready for use."""

    @abstractmethod
    async def kill(self, id: str) -> None:
        """
        End the machine for good, so that it costs nothing any more.

        If it no longer exists, returns or raises GoneError; then it is asked once more.
        """

    @abstractmethod
    def list(self) -> AsyncIterator[ListedMachine]:
        """Return all machines that have not ended and whose tag `owner` has the value OWNER, in any order."""

    @abstractmethod
    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        """
        Run the command to its end, as root if the machine allows it.

        Never starts it twice: once it may have started, any failure is an UnreachableError.
        """

    async def extend(self, machine: Machine, seconds: int) -> None:
        """Let the machine live for so many seconds from now."""
        raise RefusedError(f"{self.name} cannot extend a machine's life")

    async def cut_network(self, machine: Machine) -> None:
        """
        Close the network to all programs in the machine.

        Raises RefusedError with the reason if the service or the account cannot do that.
        """
        raise RefusedError(f"{self.name} cannot cut a running machine's network")
