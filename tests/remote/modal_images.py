"""
Images of the local Modal: what the SDK's Dockerfile lines ask for is really done, in a machine of its own.

An image is what pip put into a folder, kept as a tar archive. Limits: an official Python image stands for itself, and
the host's Python for its version; what other RUN lines do to the machine's files is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
from dataclasses import dataclass, field

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from tests.remote import room
from tests.remote.machine import Machine, Machines, Process

_LAYER = "/tmp/image/packages"
_FILES = "/tmp/image/files"
_TOOLS = "/tmp/image/tools"
_BUILDING = 300.0
_TAIL = 4000

# The packages are to be found where the interpreter itself looks, which is not writable: so each program of a machine
# sees the folder there. Its own packages are hidden, which a new image has none of either.
_SEEN = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
_WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


@dataclass
class Image:
    id: str
    definition: api_pb2.Image
    above: str = ""
    """The image that it was made from."""
    layer: bytes | None = None
    """What it adds, as a tar archive. None: nothing."""
    logs: list[str] = field(default_factory=list)
    building: asyncio.Task[None] | None = None
    failure: str = ""

    @property
    def result(self) -> api_pb2.GenericResult:
        """Without a status while it is being built."""
        if self.building and not self.building.done():
            return api_pb2.GenericResult()
        if self.failure:
            return api_pb2.GenericResult(
                status=api_pb2.GenericResult.GENERIC_STATUS_FAILURE, exception=self.failure, exitcode=1
            )
        return api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)

    @property
    def metadata(self) -> api_pb2.ImageMetadata:
        return api_pb2.ImageMetadata(image_builder_version="2025.06", workdir="/root")


class Images:
    """All images, by their ids, which follow from what they are made of."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._builders = Machines()
        """Not among the machines that tests count: they end with the build, whoever waits for it."""

    def get_or_create(self, definition: api_pb2.Image, *, force: bool) -> Image:
        """Begins to build what is not there, or failed."""
        digest = hashlib.sha256(definition.SerializeToString(deterministic=True)).hexdigest()
        id = f"im-{digest[:22]}"
        found = self._images.get(id)
        if found is None or force or found.failure:
            above = definition.base_images[0].image_id if definition.base_images else ""
            found = self._images[id] = Image(id, definition, self.get(above).id if above else "")
            if above:
                found.building = asyncio.create_task(self._build(found))
        return found

    def get(self, id: str) -> Image:
        """Raises GRPCError."""
        if id not in self._images:
            raise GRPCError(Status.NOT_FOUND, f"Image {id!r} not found")
        return self._images[id]

    async def end(self) -> None:
        for image in self._images.values():
            if image.building:
                image.building.cancel()
        await self._builders.end_all()

    async def furnish(self, machine: Machine, id: str) -> tuple[str, ...]:
        """Puts the image's packages into a machine; the words that come before those of each program there."""
        if not self._layers(id):
            return ()
        await self._unpack(machine, id)
        where = (await _output(await machine.start_program(["python3", "-I", "-c", _WHERE]))).strip()
        user = ("--user", "--map-root-user") if os.geteuid() else ()
        return ("unshare", *user, "--mount", "sh", "-c", _SEEN, "sh", _LAYER, where)

    def _layers(self, id: str) -> list[bytes]:
        """From the lowest to the highest."""
        image = self.get(id)
        below = self._layers(image.above) if image.above else []
        return [*below, *([image.layer] if image.layer else [])]

    async def _unpack(self, machine: Machine, id: str) -> None:
        await machine.mkdir(_LAYER)
        for layer in self._layers(id):
            process = await machine.start_program(["tar", "-x", "-C", _LAYER])
            await process.write(layer)
            await process.close_stdin()
            await _output(process)

    async def _build(self, image: Image) -> None:
        machine = None
        try:
            async with asyncio.timeout(_BUILDING):
                machine = await self._builders.create()
                await self._unpack(machine, image.above)
                await machine.mkdir(_TOOLS)
                await _output(await machine.start_program(["ln", "-s", str(room.PYTHON), f"{_TOOLS}/python"]))
                for line in image.definition.dockerfile_commands:
                    await self._line(machine, image, line)
                packed = await machine.start_program(["tar", "-c", "-C", _LAYER, "."])
                image.layer = await _bytes(packed)
        except TimeoutError:
            image.failure = "the build takes too long"
        except (OSError, RuntimeError) as e:
            image.failure = str(e)
        finally:
            if machine:
                await machine.end("the image is built")

    async def _line(self, machine: Machine, image: Image, line: str) -> None:
        """Does one line of a Dockerfile. Raises RuntimeError with the end of what it said."""
        image.logs.append(f"=> {line}\n")
        word, _, rest = line.strip().partition(" ")
        match word:
            case "COPY":
                source, target = shlex.split(rest)
                found = [file.data for file in image.definition.context_files if file.filename == source]
                if not found:
                    raise RuntimeError(f"there is no {source} in the build's context")
                await machine.write(_FILES + target, found[0])
            case "RUN":
                for file in image.definition.context_files:
                    rest = rest.replace(file.filename, _FILES + file.filename)
                env = {"PIP_TARGET": _LAYER, "PIP_NO_CACHE_DIR": "1"}
                process = await machine.start_program(
                    ["sh", "-c", rest], env=env, merge=True, stdin=False, path=f"{_TOOLS}:{room.PATH}"
                )
                image.logs.append(await _output(process))
            case "FROM" | "CMD" | "ENV" | "WORKDIR" | "ENTRYPOINT":
                pass
            case _:
                raise RuntimeError(f"the local server cannot do {word!r} in a Dockerfile")


async def _output(process: Process) -> str:
    return (await _bytes(process)).decode(errors="replace")


async def _bytes(process: Process) -> bytes:
    """What it says. Raises RuntimeError where it fails."""
    said, wrong = await asyncio.gather(process.stdout.read(), process.stderr.read())
    if code := await process.wait():
        raise RuntimeError(f"exit code {code}: {(said + wrong).decode(errors='replace')[-_TAIL:]}")
    return said
