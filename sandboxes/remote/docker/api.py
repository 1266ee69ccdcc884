"""An engine by the HTTP API on its socket, in the version that Docker and Podman have in common."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx

from sandboxes.remote.docker.engine import (
    FILES,
    PIDS,
    ContainerEngine,
    ContainerImage,
    ContainerSpec,
    ContainerStream,
    EngineFacts,
    Frames,
    NameInUseError,
    facts_of,
    image_of,
)
from sandboxes.remote.provider import BusyError, GoneError, ProviderError, RefusedError, UnreachableError
from sandboxes.words.text import clean

_URL = "http://engine"
_MOST = 32 << 20
"""Bytes of a reply."""
_PULL = 1800.0
_WRITE = 60.0
_PIECE = 256 * 1024


class ApiEngine(ContainerEngine):
    """The engine behind a Unix socket."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.address = f"unix://{path}"
        self._client: httpx.AsyncClient | None = None

    @property
    def removal(self) -> tuple[str, ...]:
        return ("socket", self._path)

    async def open(self) -> None:
        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
            # Without TLS on a socket of this machine, whose certificates need not be read.
            transport = httpx.AsyncHTTPTransport(uds=self._path, limits=limits, verify=False)
            timeout = httpx.Timeout(60.0, connect=5.0)
            self._client = httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False)
        try:
            async with AsyncExitStack() as stack:
                server = (await self._sent(self._built("GET", "/_ping"), stack)).headers.get("server", "")
            name, _, version = server.partition(" ")[0].partition("/")
            # Podman is on this machine, or else in a virtual one that it has made with all of its processors.
            podman = name.lower() == "libpod"
            cpus = os.cpu_count() or 1
            self.facts = EngineFacts("podman" if podman else "docker", version[:40] or "?", (), cpus=cpus)
            if not podman:
                await self.describe()
        except BaseException:
            await self.close()
            raise

    async def describe(self, id: str | None = None) -> EngineFacts:
        if not self.facts.runtimes:
            if id and self.facts.name == "podman":
                about = await self._json("GET", f"/v4.0.0/libpod/containers/{quote(id, safe='')}/json")
                with suppress(OSError, KeyError):
                    rootless = os.stat(self._path).st_uid != 0
                    self.facts = replace(self.facts, runtimes=(str(about["OCIRuntime"]),), rootless=rootless)
            else:
                self.facts = facts_of(self.facts.name, self.facts.version, await self._json("GET", "/info"))
        return self.facts

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def inspect_image(self, name: str) -> ContainerImage:
        return image_of(await self._json("GET", f"/images/{quote(name, safe='/:@')}/json"), name)

    async def pull(self, name: str) -> None:
        tag = {} if "@" in name or ":" in name.rpartition("/")[2] else {"tag": "latest"}
        request = self._built("POST", "/images/create", params={"fromImage": name, **tag}, timeout=_PULL)
        async with AsyncExitStack() as stack:
            reply = await self._sent(request, stack)
            with _mapped():
                async for line in reply.aiter_lines():
                    told = _object(line) if line.strip() else {}
                    if why := told.get("error"):
                        raise RefusedError(clean(str(why), 300))

    async def create(self, spec: ContainerSpec) -> str:
        told = await self._json("POST", "/containers/create", params={"name": spec.name}, json=_body(spec))
        return str(told.get("Id") or spec.name)

    async def start(self, id: str) -> ContainerStream:
        query = dict.fromkeys(("stdin", "stdout", "stderr", "stream"), "1")
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        request = self._built("POST", f"/containers/{id}/attach", params=query, headers=headers)
        stack = AsyncExitStack()
        try:
            reply = await self._sent(request, stack)
            stream = ApiStream(reply.extensions["network_stream"], stack)
            await self._json("POST", f"/containers/{id}/start")
        except BaseException:
            await stack.aclose()
            raise
        return stream

    async def inspect(self, name: str) -> dict[str, Any]:
        return await self._json("GET", f"/containers/{quote(name, safe='')}/json")

    async def containers(self, label: str) -> AsyncIterator[dict[str, Any]]:
        query = {"all": "1", "filters": json.dumps({"label": [label]})}
        listed = await self._ask("GET", "/containers/json", params=query)
        for one in _list(listed):
            with suppress(GoneError):
                yield await self.inspect(str(one.get("Id")))

    async def remove(self, id: str) -> None:
        await self._ask("DELETE", f"/containers/{quote(id, safe='')}", params={"force": "1", "v": "1"})

    async def create_volume(self, name: str, labels: Mapping[str, str]) -> None:
        with suppress(NameInUseError):
            await self._json("POST", "/volumes/create", json={"Name": name, "Labels": dict(labels)})

    def _built(self, method: str, path: str, *, timeout: float | None = None, **sent: Any) -> httpx.Request:
        if self._client is None:
            raise RefusedError("docker: the engine's connection is closed")
        if timeout is not None:
            sent["timeout"] = httpx.Timeout(timeout, connect=5.0)
        return self._client.build_request(method, _URL + path, **sent)

    async def _sent(self, request: httpx.Request, stack: AsyncExitStack) -> httpx.Response:
        """The reply to a request, whose body is not read yet. Raises as its status is."""
        assert self._client is not None
        with _mapped():
            reply = await self._client.send(request, stream=True)
            stack.push_async_callback(reply.aclose)
            if reply.status_code >= 300 or (reply.status_code == 101) != ("upgrade" in request.headers):
                data = b"" if reply.status_code == 101 else await _whole(reply)
                raise _error(reply.status_code, data, self.address)
        return reply

    async def _ask(self, method: str, path: str, **sent: Any) -> bytes:
        async with AsyncExitStack() as stack:
            reply = await self._sent(self._built(method, path, **sent), stack)
            with _mapped():
                return await _whole(reply)

    async def _json(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        data = await self._ask(method, path, **sent)
        return _object(data) if data.strip() else {}


class ApiStream(ContainerStream):
    """A connection to the engine that has become one to a container."""

    def __init__(self, stream: Any, stack: AsyncExitStack) -> None:
        self._stream = stream
        self._stack = stack
        self._frames = Frames()

    @property
    def errors(self) -> bytes:
        return bytes(self._frames.errors)

    async def write(self, data: bytes) -> None:
        with _mapped():
            for start in range(0, len(data), _PIECE):
                await self._stream.write(data[start : start + _PIECE], timeout=_WRITE)

    async def read(self) -> bytes:
        while True:
            with _mapped():
                data = await self._stream.read(_PIECE, timeout=None)
            if not data:
                return b""
            if output := self._frames.feed(data):
                return output

    async def close(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(5):
                await self._stream.aclose()
        with suppress(Exception):
            async with asyncio.timeout(5):
                await self._stack.aclose()


class _mapped:
    """Errors of the connection as a ProviderError."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        import httpcore

        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpcore.ConnectError):
            raise UnreachableError(f"docker: the engine cannot be reached ({_why(error)})", sent=False) from None
        if isinstance(error, httpx.HTTPError | httpx.InvalidURL | httpcore.NetworkError | httpcore.TimeoutException):
            raise UnreachableError(f"docker: the connection to the engine broke off ({_why(error)})") from None


def _why(error: BaseException) -> str:
    return clean(str(error) or type(error).__name__, 200)


def _error(status: int, data: bytes, address: str) -> ProviderError:
    """The error of a reply. A socket that is there and closed to this user is an error of the connection."""
    try:
        said = clean(str(json.loads(data).get("message", "")), 300)
    except (ValueError, AttributeError):
        said = clean(data.decode("utf-8", "replace"), 300)
    words = f"docker: the engine at {address} answered {status}: {said or 'nothing'}"
    if status == 404:
        return GoneError(words)
    if status == 409 or "already in use" in said or "already exists" in said:
        return NameInUseError(words)
    if status == 429:
        return BusyError(words)
    return UnreachableError(words) if status in (502, 503, 504) else RefusedError(words)


async def _whole(reply: httpx.Response) -> bytes:
    data = bytearray()
    async for piece in reply.aiter_bytes():
        data += piece
        if len(data) > _MOST:
            raise UnreachableError("docker: the engine's reply is too long")
    return bytes(data)


def _object(data: bytes | str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict):
            return found
    raise UnreachableError("docker: the engine's reply is not a JSON object")


def _list(data: bytes) -> list[dict[str, Any]]:
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, list) and all(isinstance(one, dict) for one in found):
            return found
    raise UnreachableError("docker: the engine's reply is not a JSON array")


def _body(spec: ContainerSpec) -> dict[str, Any]:
    mount = spec.mount
    host: dict[str, Any] = {
        "NetworkMode": "bridge" if spec.network else "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "CapAdd": list(spec.capabilities),
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "IpcMode": "private",
        "Memory": spec.memory,
        "MemorySwap": spec.memory,
        "NanoCpus": spec.cpus * 1_000_000_000,
        "PidsLimit": PIDS,
        "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in ULIMITS.items()],
        "Tmpfs": dict(spec.tmpfs),
        "AutoRemove": True,
        "LogConfig": {"Type": "none", "Config": {}},
        "Init": False,
        "OomScoreAdj": 0,
    }
    if mount:
        host["Mounts"] = [{"Type": "volume", "Source": mount.volume, "Target": mount.path, "ReadOnly": mount.read_only}]
    if spec.runtime:
        host["Runtime"] = spec.runtime
    return {
        "Image": spec.image,
        "Entrypoint": [spec.argv[0]],
        "Cmd": list(spec.argv[1:]),
        "User": spec.user,
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "Labels": dict(spec.labels),
        "WorkingDir": "/",
        "StopSignal": "SIGKILL",
        "StopTimeout": 1,
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": host,
    }


ULIMITS = {"nofile": FILES, "nproc": FILES, "core": 0}
