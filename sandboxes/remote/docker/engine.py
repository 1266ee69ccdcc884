"""What is asked of a container engine, however it is reached: `api` by its socket, `command_line` by its program."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandboxes.remote.provider import RefusedError, UnreachableError

PREFIX = "evalcell."
"""Of all labels of ours."""

_HEAD = struct.Struct(">BxxxI")
_OUTPUT, _ERRORS = 1, 2
_LONGEST = 16 << 20
"""Bytes of one piece of a container's output, as the engine sends it; ours are 64 KB."""


@dataclass(frozen=True)
class Mount:
    """A volume in a container."""

    volume: str
    path: str
    read_only: bool


@dataclass(frozen=True)
class ContainerSpec:
    """A container to be made. It has all walls that an engine can put up; only what differs is named here."""

    name: str
    image: str
    argv: tuple[str, ...]
    labels: Mapping[str, str]
    user: str
    memory: int
    network: bool
    runtime: str | None = None
    mount: Mount | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 1
    capabilities: tuple[str, ...] = ()
    """Those that are not dropped: none where a script runs."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Options by folder, as the engine takes them."""


PIDS, FILES = 512, 4096
"""Processes of a container; open files of one of them, and its user's processes."""


@dataclass(frozen=True)
class EngineFacts:
    """An engine that answers."""

    name: str
    """`docker` or `podman`."""
    version: str
    runtimes: tuple[str, ...]
    """OCI runtimes that it has, the default first; empty until it is described."""
    rootless: bool = False
    cpus: int = 1

    @property
    def words(self) -> str:
        return f"{self.name} {self.version}{', rootless' if self.rootless else ''}"


@dataclass(frozen=True)
class ContainerImage:
    """An image that is there."""

    id: str
    """`sha256:…`, of its configuration; it is what containers are made of."""
    digest: str
    """`sha256:…`, by which a registry knows it; else the id."""
    machine: str
    """As `uname -m` prints it."""
    env: Mapping[str, str]


class ContainerStream(ABC):
    """The standard input and output of a running container."""

    @property
    @abstractmethod
    def errors(self) -> bytes:
        """The end of what came on its standard error."""

    @abstractmethod
    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises UnreachableError if that cannot be done any more."""

    @abstractmethod
    async def read(self) -> bytes:
        """Return a piece of its output; empty at its end. Raises UnreachableError."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of it. Safe twice."""


class ContainerEngine(ABC):
    """An engine. Methods raise ProviderErrors: GoneError for what does not exist."""

    address: str
    """Where it is, for people and the ledger."""
    facts: EngineFacts

    @property
    @abstractmethod
    def removal(self) -> tuple[str, ...]:
        """How another process removes a container: see `watchdog`."""

    @abstractmethod
    async def open(self) -> None:
        """Ask who it is, and set `facts`. Raises RefusedError with the next step, or UnreachableError."""

    @abstractmethod
    async def describe(self, id: str | None = None) -> EngineFacts:
        """
        Return all `facts`, which are kept. Podman takes a second to find them, unless it is asked about a container.
        """

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def inspect_image(self, name: str) -> ContainerImage: ...

    @abstractmethod
    async def pull(self, name: str) -> None: ...

    @abstractmethod
    async def create(self, spec: ContainerSpec) -> str:
        """Make a container, and return its id. A name that exists is a NameInUseError."""

    @abstractmethod
    async def start(self, id: str) -> ContainerStream:
        """Attach to a container that was made, and start it."""

    @abstractmethod
    async def inspect(self, name: str) -> dict[str, Any]:
        """Return a container, by id or name, as the engine describes it."""

    @abstractmethod
    def containers(self, label: str) -> AsyncIterator[dict[str, Any]]:
        """Return all containers with the label, ended or not, as `inspect` has them."""

    @abstractmethod
    async def remove(self, id: str) -> None:
        """End a container, and remove it with its anonymous volumes."""

    @abstractmethod
    async def create_volume(self, name: str, labels: Mapping[str, str]) -> None:
        """Make a volume, if there is none of that name."""


class NameInUseError(RefusedError):
    """There is one of that name."""


def image_of(description: Mapping[str, Any], name: str) -> ContainerImage:
    """Return an image as both engines describe it. Raises UnreachableError."""
    try:
        config = description.get("Config") or {}
        pairs = (str(one).partition("=") for one in config.get("Env") or ())
        id = str(description["Id"])
        id = id if id.startswith("sha256:") else f"sha256:{id}"
        digests = [str(one).rpartition("@")[2] for one in description.get("RepoDigests") or ()]
        asked = name.rpartition("@")[2] if "@" in name else ""
        digest = asked if asked in digests else next((one for one in digests if one.startswith("sha256:")), id)
        kind = str(description["Architecture"])
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(kind, kind)
    except (KeyError, TypeError, AttributeError) as e:
        raise UnreachableError(f"docker: the engine's description of the image {name} is invalid ({e!r})") from None
    return ContainerImage(id, digest, machine, {key: value for key, _, value in pairs})


def facts_of(name: str, version: str, info: Mapping[str, Any]) -> EngineFacts:
    """Return an engine by its description, which both give in Docker's form."""
    options = [str(one) for one in info.get("SecurityOptions") or ()]
    default = str(info.get("DefaultRuntime") or "")
    runtimes = [default, *(name for name in info.get("Runtimes") or () if name != default)]
    return EngineFacts(
        name=name,
        version=version,
        runtimes=tuple(name for name in runtimes if name),
        rootless=bool(info.get("Rootless")) or any("rootless" in one for one in options),
        cpus=int(info.get("NCPU") or 1),
    )


class Frames:
    """Takes apart what an engine sends of a container's two streams, which it joins to one."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.errors = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Return what is the standard output of it. Raises UnreachableError for what is no such stream."""
        self._held += data
        output = bytearray()
        while len(self._held) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._held)
            if kind not in (0, _OUTPUT, _ERRORS) or size > _LONGEST:
                raise UnreachableError("docker: the engine's stream of a container is invalid")
            if len(self._held) < _HEAD.size + size:
                break
            piece = self._held[_HEAD.size : _HEAD.size + size]
            del self._held[: _HEAD.size + size]
            if kind == _ERRORS:
                self.errors += piece
                del self.errors[:-4096]
            else:
                output += piece
        return bytes(output)
