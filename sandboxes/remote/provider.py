"""
What a provider of machines must be able to do: one class, of which the rest of this folder makes a sandbox.

    create -> (execute, extend, cut_network ...) -> kill        and, for what was left behind, find and list

A provider only speaks: one method is one thing asked of the provider's service, and raises one of the errors below.
Who owns a machine, what is asked again, how long to wait and what to do with a lost machine is decided elsewhere.
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
"""Bytes kept of a command's stderr, the tail."""


class ProviderError(SandboxError):
    """
    The provider, or the way to it, failed; nothing is known about the script.

        ProviderError
          RefusedError      it will not, however often it is asked: a wrong key, a wrong request
          UnreachableError  no answer, or an unusable one: it may or may not have done what was asked
          BusyError         asked too often; `after` says when to ask again
          FullError         as many machines run as the account may have
          GoneError         the machine is no longer there
    """


class RefusedError(ProviderError):
    """It will not do it, however often it is asked. The message names the next step."""


class UnreachableError(ProviderError):
    """
    No answer, or a failure that may pass: 500, 502, 503, 504, a connection that could not be made or broke off.

    `sent` is False where the request certainly did not arrive.
    """

    def __init__(self, message: str, *, sent: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.after = after
        """Seconds after which it asks to be asked again. None: it did not say."""


class BusyError(ProviderError):
    """Too many requests in too short a time; nothing was done."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class FullError(ProviderError):
    """The account's number of machines is reached; nothing was done. Waiting helps only when others end."""


class GoneError(ProviderError):
    """The machine does not exist, or no longer runs."""


LOST = (UnreachableError, BusyError, FullError, GoneError)
"""What may go better with another machine, or at another time."""


@dataclass(frozen=True)
class Order:
    """A machine to be created."""

    key: str
    """Names it for good, even before it has an id: 1 to 40 of a-z, 0-9 and -. Ordering it twice makes one machine."""
    tags: Mapping[str, str]
    """`owner`, `key`, `run`, `host` and more; values of at most 63 of A-Z, a-z, 0-9, `-`, `_` and `.`."""
    lifetime: int
    """Seconds after which the provider shall end it by itself."""
    network: bool
    """Whether it may reach the network from the start. Where packages are to be installed it can be cut later."""
    memory: int
    """Bytes that the scripts may use; the machine needs some more for itself."""
    lock: str | None = None
    """Hash-locked packages for providers that bake them into an image; see `Provider.bakes`."""


@dataclass(frozen=True)
class Machine:
    """A machine that runs. `data` is the provider's own: addresses, tokens. It is never shown nor written down."""

    id: str
    key: str
    data: Any = field(default=None, repr=False)
    uncut: str = ""
    """Why it has a network, where its order says that it has none. Empty: the service did as it was asked."""


@dataclass(frozen=True)
class Found:
    """A machine as the provider's list tells of it."""

    id: str
    key: str
    """Empty where it tells none."""
    since: datetime
    """With a time zone."""
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A program to run in a machine."""

    argv: tuple[str, ...]
    """The program and its arguments, together below 32 KB; nothing secret is in them."""
    input: bytes = field(default=b"", repr=False)
    """What its standard input shall be, whole; it may be some 20 MB."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for this program alone. They are secrets."""
    timeout: float = 60.0
    """Seconds after which the provider shall end it."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """The exit code; 128 + n for signal n. None: ended by the timeout."""
    errors: str = ""
    """The tail of its stderr."""


Hear = Callable[[bytes], None]
"""Called with each piece of a command's stdout as it comes. Raises to stop the command being heard."""


def account(url: str, key: str) -> str:
    """
    A deployment and whose machines are spoken of there, for `Provider.address`: 8 hex digits of the key's SHA-256.

    Under another account's key a machine that runs is as unknown as one that has ended.
    """
    return f"{url}/key-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


class Provider(ABC):
    """
    One account at one provider. Every method may be called while others wait; all but `open` need `open` first.

    Each raises a ProviderError and nothing else; httpx's and an SDK's own exceptions are mapped in one place. Each may
    be cancelled at any await: what it began at the provider is then found again by the order's key.
    """

    name: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    """The variables that hold the credentials, for messages and for masking."""
    pace: ClassVar[float] = 1.0
    """Machines created in a second, at most."""
    cap: ClassVar[int] = 10
    """Machines of a run that does not say how many, at most; below what the smallest plan allows."""
    longest: ClassVar[int] = 3600
    """Seconds that a machine can live on the smallest plan, extended or not; it is replaced before."""
    extends: ClassVar[bool] = True
    """Whether `extend` prolongs a life. If not, a machine is ordered with the lifetime `longest`."""
    bakes: ClassVar[bool] = False
    """Whether `create` makes a machine that has the order's packages; else they are installed in it."""

    address: str
    """The deployment and the account there, for the ledger; no secret. See `account`."""
    python: str | None = None
    """The version, as in `3.13`, where it is chosen here rather than by the image; set where `bakes`."""

    def __init__(self, values: Mapping[str, str]) -> None:  # noqa: B027  (for one that has no settings)
        """
        Reads its settings out of `values`, the environment with the env-file over it; does no I/O.

        Raises SandboxUnavailableError naming the variable that is missing or unusable, and how to set it.
        """

    async def open(self) -> None:  # noqa: B027  (most need nothing)
        """Opens connections; asks nothing yet."""

    async def close(self) -> None:  # noqa: B027
        """Closes connections; safe twice."""

    @abstractmethod
    async def create(self, order: Order) -> Machine:
        """A new machine that commands can be run in, or the one that an equal order made before."""

    @abstractmethod
    async def find(self, key: str) -> Machine | None:
        """The running machine that was ordered with the key, ready for use."""

    @abstractmethod
    async def kill(self, id: str) -> None:
        """
        Ends the machine for good, so that it costs nothing any more.

        For one that is gone already it returns, or raises GoneError: then it is asked once more.
        """

    @abstractmethod
    def list(self) -> AsyncIterator[Found]:
        """All machines that are not ended and have the tag `owner` with the value OWNER, in any order."""

    @abstractmethod
    async def execute(self, machine: Machine, command: Command, hear: Hear) -> Ended:
        """
        Runs the command to its end, as root where the machine allows it.

        Never starts it twice: once it may have started, whatever breaks is an UnreachableError.
        """

    async def extend(self, machine: Machine, seconds: int) -> None:
        """Lets it live for so many seconds from now."""
        raise RefusedError(f"{self.name} cannot extend a machine's life")

    async def cut_network(self, machine: Machine) -> None:
        """
        Closes the network to all programs in the machine.

        Raises RefusedError with the reason where the service has no such thing, or does not let this account have it.
        """
        raise RefusedError(f"{self.name} cannot cut a running machine's network")
