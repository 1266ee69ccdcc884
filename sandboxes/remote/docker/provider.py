"""Containers of Docker or Podman on this machine; see docs/backends.md."""

from __future__ import annotations

import asyncio
import hashlib
import io
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from sandboxes.base import MB
from sandboxes.boxes.launch import GUEST
from sandboxes.host.shield import finish
from sandboxes.remote import provider as base
from sandboxes.remote.docker.connection import ContainerConnection
from sandboxes.remote.docker.discovery import engines, open_first
from sandboxes.remote.docker.engine import (
    PREFIX,
    ContainerEngine,
    ContainerImage,
    ContainerSpec,
    ContainerStream,
    Mount,
    NameInUseError,
)
from sandboxes.remote.docker.walls import walls
from sandboxes.remote.ledger import own_tags
from sandboxes.remote.provider import GoneError, ListedMachine, Machine, ProviderError, RefusedError, UnreachableError
from sandboxes.remote.provision import OLDEST
from sandboxes.words.text import clean
from sandboxes.words.wording import Message, Setting

USER = 64321
"""Of everything in a container; nobody has it. Rootless engines give out numbers below 65536."""

_FOLDER, _PACKAGES, _HOME = "/opt/evalcell", "/opt/evalcell/packages", "/evalcell"
_ABOVE = 256 * MB
"""What a container needs for itself, and for files that are sent."""
_TMPFS = {
    "/tmp": "rw,nosuid,nodev,noexec,size=64m,mode=1777",
    _HOME: "rw,nosuid,nodev,noexec,size=96m,mode=1777",
}
_VERSION = re.compile(r"\d{1,2}\.\d{1,3}(\.\d{1,4})?")
_UNPACK_SECONDS = 900.0


class DockerProvider(base.Provider):
    """A local engine; a machine is a container, whose `data` is the connection to its first process."""

    name = "docker"
    variables: ClassVar[tuple[str, ...]] = ()
    pace = 50.0
    cap = 64
    longest = 86_400
    local = True
    bakes = True
    keeps = True
    baked = _PACKAGES

    def __init__(
        self,
        values: Mapping[str, str],
        *,
        engine: str | None = None,
        image: str | None = None,
        runtime: str | None = None,
    ) -> None:
        self._candidates = engines(values, engine, runtime)
        self.address = self._candidates[0].address
        usual = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
        self.image_name = image or values.get("EVALCELL_IMAGE") or usual
        self.say: Callable[[str], None] = lambda line: None
        self.deadline: float | None = None
        """For installing packages, in the event loop's time."""
        self._runtime = runtime
        self._engine: ContainerEngine | None = None
        self._image: ContainerImage | None = None
        self._connections: dict[str, ContainerConnection] = {}
        self._choosing = asyncio.Lock()
        self._filling = asyncio.Lock()
        self.walls: list[str] = []
        """What protects in its containers."""
        self._watchdog: subprocess.Popen[str] | None = None
        self._names: dict[str, str] = {}
        """Of containers, by their ids."""
        self.facts: dict[str, Any] = {}
        """What the first process of the latest said of it."""

    @property
    def engine(self) -> ContainerEngine:
        """The engine that was found. Raises RefusedError before `open`."""
        if self._engine is None:
            raise RefusedError("docker: no engine is open")
        return self._engine

    @property
    def runtime(self) -> str:
        """The OCI runtime of containers."""
        known = self.engine.facts.runtimes
        return self._runtime or (known[0] if known else "")

    async def describe(self) -> None:
        """Find out what is not needed to make containers, but to tell of them: `runtime`, and `engine.facts`."""
        await self.engine.describe()

    async def open(self) -> None:
        if self._engine is None:
            self._engine = await open_first(self._candidates)
            self.address = self._engine.address

    async def close(self) -> None:
        connections, self._connections = self._connections, {}
        for one in connections.values():
            await one.close()
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            await asyncio.to_thread(_end, watchdog)
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def choose_image(self, *, for_packages: bool) -> ContainerImage:
        """
        Find the image, or pull it; with packages also its Python, which decides which fit.

        Raises RefusedError with the command to run.
        """
        async with self._choosing:
            if self._image is None:
                self._refuse_runtime()
                self._image = await self._find_image()
            if self.python is None and for_packages:
                self.machine = self._image.machine
                version = self._image.env.get("PYTHON_VERSION", "")
                self.python = version if _VERSION.fullmatch(version) else await self._ask_python(self._image)
            return self._image

    def _refuse_runtime(self) -> None:
        known, asked = self.engine.facts.runtimes, self._runtime
        if asked and self.engine.facts.name == "docker" and known and asked not in known:
            raise RefusedError(
                Message(
                    f"docker: the engine has no runtime {clean(asked, 60)!r}, only {', '.join(known)[:200]}; install "
                    "it and name it in the engine's settings (daemon.json), or leave it out: ",
                    Setting("sandbox.runtime"),
                )
            )

    async def _find_image(self) -> ContainerImage:
        name, program = self.image_name, self.engine.facts.name
        with suppress(GoneError):
            return await self.engine.inspect_image(name)
        self.say(f"docker: pulling the image {name}, once")
        try:
            await self.engine.pull(name)
            return await self.engine.inspect_image(name)
        except ProviderError as e:
            why = clean(str(e).removeprefix("docker: "), 300)
            raise RefusedError(
                Message(
                    f"docker: the image {name} is not on this machine and cannot be pulled ({why}); "
                    f"run: {program} pull {name}, or name one that is here with ",
                    Setting("sandbox.image"),
                )
            ) from None

    async def _ask_python(self, image: ContainerImage) -> str:
        """The version of the image's Python, which its settings do not tell."""
        key = f"evalcell-look-{hashlib.sha256(image.id.encode()).hexdigest()[:8]}-{id(self):x}"
        order = base.Order(key, {"owner": base.OWNER, "key": key, **own_tags()}, 60, network=False, memory=256 * MB)
        machine, facts = await self._make(order, image, None)
        with suppress(ProviderError):
            await self.kill(machine.id)
        return str(facts["python"])

    async def create(self, order: base.Order) -> Machine:
        image = await self.choose_image(for_packages=order.lock is not None)
        if order.lock is None:
            machine, _ = await self._make(order, image, None)
            return machine
        volume = await self._volume(order)
        machine, facts = await self._make(order, image, Mount(volume, _FOLDER, read_only=True))
        if facts.get("packages") is not True:
            try:
                async with self._filling:
                    await self._fill(order, image, volume)
            except BaseException:
                await finish(lambda: self._forget(machine.id))
                raise
        return machine

    async def _make(
        self, order: base.Order, image: ContainerImage, mount: Mount | None
    ) -> tuple[Machine, dict[str, Any]]:
        """Make a container, start it, and see whether it is closed; what it says of itself."""
        argv = ("python3", "-I", "-S", "-B", "-c", _source("first_process"), _PACKAGES)
        spec = self._spec(order, image, argv, order.key, f"{USER}:{USER}", mount, network=order.network)
        id, stream = await self._started(spec)
        connection = ContainerConnection(stream)
        self._connections[id] = connection
        try:
            facts, _ = await asyncio.gather(connection.greet(), self._describe(id))
            self._judge(facts, image, network=order.network)
            self.facts = facts
        except UnreachableError as e:
            await finish(lambda: self._forget(id))
            raise self._explain(e, image) from None
        except BaseException:
            await finish(lambda: self._forget(id))
            raise
        return Machine(id, order.key, connection), facts

    async def _describe(self, id: str) -> None:
        """Find out which runtime a container has; it is told, and is no reason to do without."""
        with suppress(ProviderError):
            await self.engine.describe(id)

    def _explain(self, error: UnreachableError, image: ContainerImage) -> ProviderError:
        text = str(error)
        if "python3" in text and ("not found" in text or "no such file" in text.lower()):
            return RefusedError(
                Message(
                    f"docker: the image {self.image_name} has no python3; name one that has Python 3.9 or newer with ",
                    Setting("sandbox.image"),
                )
            )
        return error

    def _judge(self, facts: Mapping[str, Any], image: ContainerImage, *, network: bool) -> None:
        """Raise RefusedError for a Python that is too old, or a wall that is missing."""
        version = str(facts.get("python", ""))
        if not _VERSION.fullmatch(version) or tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise RefusedError(
                Message(
                    f"docker: the image {self.image_name} has Python {clean(version, 20)}; "
                    "name one with 3.9 or newer with ",
                    Setting("sandbox.image"),
                )
            )
        there, missing = walls(facts, network=network, runtime=self.runtime)
        if missing:
            raise RefusedError(
                f"docker: {self.engine.facts.words} does not close its containers as it was told; what is missing: "
                f"{', '.join(missing)}. Use the engine's own settings for seccomp and user, or choose another sandbox"
            )
        self.walls = there

    def _spec(
        self,
        order: base.Order,
        image: ContainerImage,
        argv: tuple[str, ...],
        name: str,
        user: str,
        mount: Mount | None,
        *,
        network: bool,
    ) -> ContainerSpec:
        return ContainerSpec(
            name=name,
            image=image.id,
            argv=argv,
            labels={PREFIX + key: value for key, value in order.tags.items()},
            user=user,
            memory=order.memory + _ABOVE,
            network=network,
            runtime=self._runtime,
            mount=mount,
            env={"HOME": _HOME},
            cpus=min(2, self.engine.facts.cpus),
            tmpfs=_TMPFS,
        )

    def _watch(self, sign: str, name: str) -> None:
        """Tell the process that removes what is left of a killed run, which is started for the first."""
        if self._watchdog is None:
            words = (sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")), *self.engine.removal)
            null = subprocess.DEVNULL
            self._watchdog = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=null, stderr=null, text=True, start_new_session=True
            )
        assert self._watchdog.stdin is not None
        with suppress(OSError):  # it was ended by somebody else; the ledger has them all
            self._watchdog.stdin.write(f"{sign}{name}\n")
            self._watchdog.stdin.flush()

    async def _started(self, spec: ContainerSpec) -> tuple[str, ContainerStream]:
        """A container that runs, and the stream to it. An older one of that name, to which no way leads, is ended."""
        self._watch("+", spec.name)
        try:
            try:
                id = await self.engine.create(spec)
            except NameInUseError:
                await self.engine.remove(spec.name)
                id = await self.engine.create(spec)
        except GoneError as e:
            self._image = None
            raise RefusedError(
                f"docker: the image {self.image_name} is gone ({e}); run: {self.engine.facts.name} pull "
                f"{self.image_name}"
            ) from None
        self._names[id] = spec.name
        try:
            return id, await self.engine.start(id)
        except BaseException:
            await finish(lambda: self._forget(id))
            raise

    async def _forget(self, id: str) -> None:
        with suppress(ProviderError):
            await self.kill(id)

    async def _volume(self, order: base.Order) -> str:
        text = "\n".join((order.lock or "", self.python or "", self.machine))
        name = f"evalcell-packages-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        await self.engine.create_volume(name, {f"{PREFIX}owner": base.OWNER, f"{PREFIX}kind": "packages"})
        return name

    async def _fill(self, order: base.Order, image: ContainerImage, volume: str) -> None:
        """Install the packages in a volume: here, then copied there by a container that runs nothing of them."""
        from sandboxes.packages import RemotePython, install, read_lock

        deadline = self.deadline or asyncio.get_running_loop().time() + _UNPACK_SECONDS
        lock = read_lock(order.lock or "", "the lock")
        # Where the image has the Python of this process, it takes what other sandboxes have installed and compiled.
        same = _is_own(self.python or "", self.machine)
        python = Path(sys.executable) if same else RemotePython(self.python or "", self.machine)
        site = await install(lock, python, say=self.say, deadline=deadline)
        self.say("docker: copying the packages to a volume, once")
        left = max(1, int(deadline - asyncio.get_running_loop().time()))
        compiled = ("compiled",) if same else ()
        argv = ("python3", "-I", "-S", "-B", "-c", _source("unpack"), _PACKAGES, str(left), *compiled)
        mount = Mount(volume, _FOLDER, read_only=False)
        name = f"{order.key}-fill"
        spec = self._spec(order, image, argv, name, "0:0", mount, network=False)
        # Podman gives a volume to the user of the container that has it first.
        spec = replace(spec, capabilities=("DAC_OVERRIDE",))
        id, stream = await self._started(spec)
        # It is heard from the first: what it said as it ended is gone when a connection has broken off.
        hearing = asyncio.create_task(_hear(stream))
        try:
            async with asyncio.timeout_at(deadline):
                with suppress(UnreachableError):  # what it said as it ended is told below
                    await _send_folder(site, stream)
                if (said := await hearing) != "done":
                    words = (said or stream.errors.decode("utf-8", "replace")).strip().splitlines()[-1:]
                    why = clean(words[0], 300) if words else "no error output"
                    raise RefusedError(
                        f"docker: the packages could not be copied to the volume {volume} ({why}); "
                        f"make room, or remove it: {self.engine.facts.name} volume rm {volume}"
                    )
        except TimeoutError:
            raise RefusedError(
                Message(
                    "docker: installing packages took too long; allow more with ", Setting("sandbox.install_timeout")
                )
            ) from None
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await finish(stream.close)
            await finish(lambda: self._forget(id))

    async def find(self, key: str) -> Machine | None:
        with suppress(GoneError):
            about = await self.engine.inspect(key)
            id = str(about.get("Id"))
            self._names.setdefault(id, key)
            return Machine(id, key, self._connections.get(id))
        return None

    async def kill(self, id: str) -> None:
        connection = self._connections.pop(id, None)
        if connection is not None:
            await connection.close()
        gone: GoneError | None = None
        try:
            await self.engine.remove(id)
        except NameInUseError:  # its end has begun
            pass
        except GoneError as e:
            gone = e
        if name := self._names.pop(id, None):
            self._watch("-", name)
        if gone:
            raise gone

    async def list(self) -> AsyncIterator[ListedMachine]:
        async for one in self.engine.containers(f"{PREFIX}owner={base.OWNER}"):
            labels = (one.get("Config") or {}).get("Labels") or {}
            tags = {key.removeprefix(PREFIX): str(value) for key, value in labels.items() if key.startswith(PREFIX)}
            yield ListedMachine(str(one.get("Id")), tags.get("key", ""), _since(one), tags)

    async def execute(self, machine: Machine, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        connection = machine.data
        if not isinstance(connection, ContainerConnection):
            raise GoneError("docker: nothing is connected to the container any more")
        return await connection.execute(command, on_output)

    async def extend(self, machine: Machine, seconds: int) -> None:
        """Do nothing: a container lives as long as it hears of this process, for a minute more."""


def _end(watchdog: subprocess.Popen[str]) -> None:
    """Let go of it; it removes what has not ended, and is not waited for long."""
    assert watchdog.stdin is not None
    with suppress(OSError):
        watchdog.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        watchdog.wait(2)


def _is_own(version: str, machine: str) -> bool:
    """Whether files that this process's Python has compiled are those of another."""
    mine = (f"{sys.version_info.major}.{sys.version_info.minor}.", "linux", platform.machine())
    return (f"{version}."[: len(mine[0])], sys.platform, machine) == mine and platform.libc_ver()[0] == "glibc"


def _source(name: str) -> str:
    return (GUEST / "container" / f"{name}.py").read_text("utf-8")


def _since(one: Mapping[str, Any]) -> datetime:
    with suppress(ValueError):
        found = datetime.fromisoformat(str(one.get("Created")))
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return datetime.now(UTC)


async def _hear(stream: ContainerStream) -> str:
    """The line that what unpacks says at its end; empty if it says none."""
    said = b""
    with suppress(UnreachableError):
        while len(said) < 4096 and not said.endswith(b"\n") and (piece := await stream.read()):
            said += piece
    return said.decode("utf-8", "replace").strip()


async def _send_folder(folder: Path, stream: ContainerStream) -> None:
    """Send a folder as a tar, made in a thread as it is taken."""
    loop = asyncio.get_running_loop()

    class Pipe(io.RawIOBase):
        def write(self, data: Any) -> int:
            asyncio.run_coroutine_threadsafe(stream.write(bytes(data)), loop).result()
            return len(data)

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry if entry.isfile() or entry.isdir() else None

    def work() -> None:
        with tarfile.open(fileobj=Pipe(), mode="w|", bufsize=1 << 18, format=tarfile.PAX_FORMAT) as packed:
            packed.add(folder, ".", filter=plain)

    await asyncio.to_thread(work)
