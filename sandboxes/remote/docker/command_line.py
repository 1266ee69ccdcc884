"""An engine by its program, `docker` or `podman`, where no socket can be used: another machine's, or Podman's own."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sandboxes.host.child_process import Child, start
from sandboxes.host.shield import finish
from sandboxes.remote.docker.api import ULIMITS
from sandboxes.remote.docker.engine import (
    PIDS,
    ContainerEngine,
    ContainerImage,
    ContainerSpec,
    ContainerStream,
    EngineFacts,
    NameInUseError,
    facts_of,
    image_of,
)
from sandboxes.remote.provider import GoneError, ProviderError, RefusedError, UnreachableError
from sandboxes.words.text import clean

_PATIENCE = 60.0
_PULL = 1800.0
_MOST = 32 << 20
_PIECE = 256 * 1024
_MISSING = ("no such container", "no such object", "no such image", "no container with", "image not known", "not found")
_DOWN = ("cannot connect", "is the docker daemon running", "connection refused", "permission denied while trying")


class CommandEngine(ContainerEngine):
    """The engine that a program reaches. `options` stand before every command."""

    def __init__(self, program: str, path: str, options: Sequence[str] = (), place: str = "") -> None:
        self._name = program
        self._command = (path, *options)
        self.address = f"{program}{f'+{place}' if place else ''}"

    @property
    def removal(self) -> tuple[str, ...]:
        return ("command", *self._command, "rm", "--force", "--volumes")

    async def open(self) -> None:
        told = await self._json("version", "--format", "{{json .}}")
        client, server = told.get("Client") or {}, told.get("Server")
        # The program docker may be Podman's. Where Podman's program works alone, it has no server.
        podman = self._name == "podman" or "podman" in json.dumps(server or client).lower()
        if not (server or podman):
            raise UnreachableError(f"docker: {self._name} reaches no engine", sent=False)
        version = str((server or client).get("Version") or "?")[:40]
        self.facts = EngineFacts("podman" if podman else "docker", version, (), cpus=os.cpu_count() or 1)
        if not podman:
            await self.describe()

    async def describe(self, id: str | None = None) -> EngineFacts:
        if id and self.facts.name == self._name == "podman" and self.address == "podman" and not self.facts.runtimes:
            runtime = (await self._run("container", "inspect", "--format", "{{.OCIRuntime}}", id)).decode().strip()
            self.facts = replace(self.facts, runtimes=(runtime,), rootless=os.getuid() != 0)
        elif not self.facts.runtimes:
            info = await self._json("info", "--format", "{{json .}}")
            if isinstance(host := info.get("host"), dict):
                info = {
                    "NCPU": host.get("cpus"),
                    "DefaultRuntime": (host.get("ociRuntime") or {}).get("name"),
                    "Rootless": (host.get("security") or {}).get("rootless"),
                }
            self.facts = facts_of(self.facts.name, self.facts.version, info)
        return self.facts

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    async def inspect_image(self, name: str) -> ContainerImage:
        return image_of(await self._first("image", "inspect", name), name)

    async def pull(self, name: str) -> None:
        await self._run("pull", "--quiet", name, within=_PULL)

    async def create(self, spec: ContainerSpec) -> str:
        words = (await self._run("create", *self._flags(spec), spec.image, *spec.argv[1:])).decode().split()
        return words[-1] if words else spec.name

    def _flags(self, spec: ContainerSpec) -> list[str]:
        podman = self._name == "podman"
        flags = ["--interactive", "--rm", "--name", spec.name, "--entrypoint", spec.argv[0], "--user", spec.user]
        flags += ["--network", "bridge" if spec.network else "none", "--read-only", "--cap-drop", "ALL"]
        flags += [
            "--security-opt",
            "no-new-privileges",
            "--ipc",
            "private",
            "--stop-signal",
            "SIGKILL",
            "--stop-timeout",
            "1",
            "--workdir",
            "/",
            "--pull",
            "never",
        ]
        flags += ["--memory", str(spec.memory), "--memory-swap", str(spec.memory), "--cpus", str(spec.cpus)]
        flags += ["--pids-limit", str(PIDS), "--log-driver", "none"]
        flags += [word for name in spec.capabilities for word in ("--cap-add", name)]
        flags += ["--read-only-tmpfs=false"] if podman else []
        for name, most in ULIMITS.items():
            flags += ["--ulimit", f"{name}={most}:{most}"]
        for folder, options in spec.tmpfs.items():
            flags += ["--tmpfs", f"{folder}:{options}"]
        for kind, pairs in (("--label", spec.labels), ("--env", spec.env)):
            flags += [word for name, value in pairs.items() for word in (kind, f"{name}={value}")]
        if spec.mount:
            mode = "ro" if spec.mount.read_only else "rw"
            flags += ["--volume", f"{spec.mount.volume}:{spec.mount.path}:{mode}"]
        if spec.runtime and not podman:
            flags += ["--runtime", spec.runtime]
        return flags

    async def start(self, id: str) -> ContainerStream:
        process = await self._process("start", "--attach", "--interactive", "--sig-proxy=false", id, stdin=PIPE)
        return CommandStream(process)

    async def inspect(self, name: str) -> dict[str, Any]:
        return await self._first("container", "inspect", name)

    async def containers(self, label: str) -> AsyncIterator[dict[str, Any]]:
        listed = await self._run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}")
        for id in listed.decode("ascii", "replace").split():
            with suppress(GoneError):
                yield await self.inspect(id)

    async def remove(self, id: str) -> None:
        await self._run("rm", "--force", "--volumes", id)

    async def create_volume(self, name: str, labels: Mapping[str, str]) -> None:
        flags = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
        with suppress(NameInUseError):
            await self._run("volume", "create", *flags, name)

    async def _process(self, *words: str, stdin: int = DEVNULL) -> Child:
        command = [*self._command, *words]
        try:  # in a session of its own, as a Ctrl-C is for us
            return await start(command, limit=1 << 20, stdin=stdin, stdout=PIPE, stderr=PIPE, start_new_session=True)
        except OSError as e:
            raise UnreachableError(f"docker: {self._name} cannot be started ({e.strerror})", sent=False) from None

    async def _run(self, *words: str, within: float = _PATIENCE) -> bytes:
        """The output of a command. Raises a ProviderError unless it succeeds."""
        process = await self._process(*words)
        try:
            async with asyncio.timeout(within):
                assert process.stdout is not None
                assert process.stderr is not None
                output, errors = await asyncio.gather(_read(process.stdout, _MOST), _read(process.stderr, _MOST))
                code = await process.wait()
        except TimeoutError:
            raise UnreachableError(f"docker: {self._name} {words[0]} has not ended after {within:.0f} s") from None
        finally:
            await finish(lambda: _end(process))
        if code:
            raise _error(self._name, words[0], errors)
        return output

    async def _json(self, *words: str) -> dict[str, Any]:
        found = _loaded(await self._run(*words, within=20))
        if not isinstance(found, dict):
            raise UnreachableError("docker: the engine's reply is not a JSON object")
        return found

    async def _first(self, *words: str) -> dict[str, Any]:
        found = _loaded(await self._run(*words))
        if not (isinstance(found, list) and found and isinstance(found[0], dict)):
            raise UnreachableError("docker: the engine's reply is not a JSON array")
        return found[0]


class CommandStream(ContainerStream):
    """The program that is attached to a container."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self._errors = bytearray()
        self._hearing = asyncio.create_task(self._hear())

    @property
    def errors(self) -> bytes:
        return bytes(self._errors)

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_PIECE):
            self._errors += piece
            del self._errors[:-4096]

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            for start in range(0, len(data), _PIECE):
                self._process.stdin.write(data[start : start + _PIECE])
                await self._process.stdin.drain()
        except (OSError, RuntimeError) as e:
            raise UnreachableError(f"docker: the container does not listen any more ({e})") from None

    async def read(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(_PIECE)

    async def close(self) -> None:
        await finish(lambda: _end(self._process))
        self._hearing.cancel()
        await asyncio.gather(self._hearing, return_exceptions=True)


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    kept = bytearray()
    while piece := await stream.read(_PIECE):
        kept += piece
        if len(kept) > most:
            raise UnreachableError("docker: the engine's reply is too long")
    return bytes(kept)


async def _end(process: Child) -> None:
    process.kill()
    await process.wait()
    process.close()


def _loaded(data: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(data)
    raise UnreachableError("docker: the engine's reply is not JSON")


def _error(program: str, word: str, errors: bytes) -> ProviderError:
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    said = clean(lines[-1] if lines else "no error output", 300)
    words, low = f"docker: {program} {word} failed: {said}", " ".join(lines).lower()
    if any(one in low for one in _DOWN):
        return UnreachableError(words, sent=False)
    if "already in use" in low or "already exists" in low:
        return NameInUseError(words)
    if any(one in low for one in _MISSING):
        return GoneError(words)
    return RefusedError(words)
