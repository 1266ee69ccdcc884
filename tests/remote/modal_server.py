"""
A local Modal: its two gRPC services, made of the protobufs that its SDK ships, in front of machines that really run.

It has the calls that the SDK makes for us; see modal_images.py for what images can be.
"""

from __future__ import annotations

import asyncio
import secrets
import string
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from grpclib import GRPCError, Status
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

from tests.remote.faults import Front
from tests.remote.machine import Machine
from tests.remote.modal_images import Images
from tests.remote.modal_router import Router, Task
from tests.remote.modal_wire import Service, Tokens
from tests.remote.serving import serve

TOKEN_ID, TOKEN_SECRET = "ak-0123456789abcdefghijkl", "as-0123456789abcdefghijkl"
_CREDENTIALS = {"x-modal-token-id": TOKEN_ID, "x-modal-token-secret": TOKEN_SECRET}
_BLOCKED = api_pb2.NetworkAccess.NetworkAccessType.BLOCKED
_PAGE = 20
_TOKEN_LIVES, _ACCESS_LIVES = 1200.0, 900.0

_ENDS = {
    "its time was over": api_pb2.GenericResult.GENERIC_STATUS_TIMEOUT,
    "it was terminated": api_pb2.GenericResult.GENERIC_STATUS_TERMINATED,
}


@dataclass
class Sandbox:
    """A sandbox, alive or not."""

    id: str
    task: str
    app: str
    name: str
    image: str
    tags: dict[str, str]
    machine: Machine
    created: float

    @property
    def result(self) -> api_pb2.GenericResult:
        """Without a status while it lives."""
        if self.machine.alive:
            return api_pb2.GenericResult()
        status = _ENDS.get(self.machine.why, api_pb2.GenericResult.GENERIC_STATUS_INTERNAL_FAILURE)
        return api_pb2.GenericResult(status=status, exitcode=137)

    @property
    def metadata(self) -> api_pb2.SandboxHandleMetadata:
        return api_pb2.SandboxHandleMetadata(app_id=self.app, result=None if self.machine.alive else self.result)


class Control(Service):
    """The control plane."""

    base = ModalClientBase
    ops: Mapping[str, str] = {
        "AuthTokenGet": "token",
        "AppGetOrCreate": "app",
        "EnvironmentGetOrCreate": "environment",
        "ImageGetOrCreate": "image",
        "ImageJoinStreaming": "build",
        "SandboxCreateV2": "create",
        "SandboxGetFromNameV2": "find",
        "SandboxGetFromName": "find-old",
        "SandboxListV2": "list",
        "SandboxWaitV2": "get",
        "SandboxTerminateV2": "kill",
        "SandboxTagsGetV2": "tags",
        "SandboxGetTaskIdV2": "task",
        "SandboxGetCommandRouterAccess": "access",
    }

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self.tokens = Tokens()
        self.images = Images()
        self.router_url = ""
        self.router = Router(front, self.tokens)
        self._apps: dict[tuple[str, str], str] = {}
        self._sandboxes: dict[str, Sandbox] = {}
        self._creating = asyncio.Lock()

    def admit(self, name: str, request: Any, metadata: Mapping[str, str]) -> None:
        if any(metadata.get(key) != value for key, value in _CREDENTIALS.items()):
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID or secret is not valid")
        if name.startswith("Sandbox") and name != "SandboxGetFromName":
            self.tokens.subject(metadata.get("x-modal-auth-token", ""))

    async def AuthTokenGet(self, request: Any, metadata: Mapping[str, str]) -> Any:
        return api_pb2.AuthTokenGetResponse(token=self.tokens.issue("workspace", _TOKEN_LIVES))

    async def EnvironmentGetOrCreate(self, request: Any, metadata: Mapping[str, str]) -> Any:
        name = request.deployment_name or "main"
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        found = api_pb2.EnvironmentMetadata(name=name, settings=settings)
        return api_pb2.EnvironmentGetOrCreateResponse(environment_id=f"en-{name}", metadata=found)

    async def AppGetOrCreate(self, request: Any, metadata: Mapping[str, str]) -> Any:
        key = (request.environment_name or "main", request.app_name)
        if key not in self._apps:
            if request.object_creation_type != api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"App {request.app_name!r} not found")
            self._apps[key] = _id("ap", 22)
        return api_pb2.AppGetOrCreateResponse(app_id=self._apps[key])

    async def ImageGetOrCreate(self, request: Any, metadata: Mapping[str, str]) -> Any:
        image = self.images.get_or_create(request.image, force=request.force_build)
        return api_pb2.ImageGetOrCreateResponse(image_id=image.id, result=image.result, metadata=image.metadata)

    async def ImageJoinStreaming(self, request: Any, metadata: Mapping[str, str]) -> AsyncIterator[Any]:
        image = self.images.get(request.image_id)
        said = int(request.last_entry_id or 0)
        if image.building:
            await asyncio.wait({image.building}, timeout=request.timeout)
        logs = [api_pb2.TaskLogs(data=line) for line in image.logs[said:]]
        yield api_pb2.ImageJoinStreamingResponse(task_logs=logs, entry_id=str(len(image.logs)))
        if image.result.status:
            yield api_pb2.ImageJoinStreamingResponse(result=image.result, metadata=image.metadata, eof=True)

    async def SandboxCreateV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        asked = request.definition
        if request.app_id not in self._apps.values():
            raise GRPCError(Status.NOT_FOUND, f"App {request.app_id!r} not found")
        self.images.get(asked.image_id)
        async with self._creating:
            if asked.name and self._named(request.app_id, asked.name):
                raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox with name {asked.name!r} already exists")
            sandbox = await self._create(request.app_id, asked, {t.tag_name: t.tag_value for t in request.tags})
        before = await self.images.furnish(sandbox.machine, asked.image_id)
        self.router.tasks[sandbox.task] = Task(sandbox.machine, before)
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=sandbox.id,
            task_id=sandbox.task,
            metadata=sandbox.metadata,
            command_router_access=self._access(sandbox, float(self.front.options.get("access_lives", _ACCESS_LIVES))),
        )

    async def _create(self, app: str, asked: api_pb2.Sandbox, tags: dict[str, str]) -> Sandbox:
        # Not 22 letters, as the old kind of sandbox has; and a task whose id ends as those of the new kind do.
        id, task = _id("sb", 26), f"{_id('ta', 25)}V"
        network = asked.network_access.network_access_type != _BLOCKED
        machine = await self.front.machines.create(
            id=id, key=asked.name, tags=tags, home="/root", network=network, lifetime=asked.timeout_secs
        )
        sandbox = Sandbox(id, task, app, asked.name, asked.image_id, machine.tags, machine, time.time())
        self._sandboxes[id] = sandbox
        return sandbox

    def _named(self, app: str, name: str) -> Sandbox | None:
        found = (s for s in self._sandboxes.values() if s.name == name and s.app == app and s.machine.alive)
        return next(found, None)

    def _sandbox(self, id: str) -> Sandbox:
        if id not in self._sandboxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox with ID {id!r} not found")
        return self._sandboxes[id]

    async def SandboxGetFromNameV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        app = self._apps.get((request.environment_name or "main", request.app_name), "")
        sandbox = self._named(app, request.sandbox_name)
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {request.sandbox_name!r} not found in {request.app_name!r}")
        return api_pb2.SandboxGetFromNameResponse(sandbox_id=sandbox.id, metadata=sandbox.metadata)

    async def SandboxGetFromName(self, request: Any, metadata: Mapping[str, str]) -> Any:
        """The SDK asks for one of the old kind where there is none of the new; there are none of those here."""
        raise GRPCError(Status.NOT_FOUND, f"Sandbox {request.sandbox_name!r} not found in {request.app_name!r}")

    async def SandboxListV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            sandbox
            for sandbox in sorted(self._sandboxes.values(), key=lambda s: s.created, reverse=True)
            if (request.include_finished or sandbox.machine.alive)
            and (not request.app_id or sandbox.app == request.app_id)
            and (not request.before_timestamp or sandbox.created < request.before_timestamp)
            and wanted.items() <= sandbox.tags.items()
        ]
        return api_pb2.SandboxListResponse(
            sandboxes=[
                api_pb2.SandboxInfo(
                    id=s.id,
                    created_at=s.created,
                    task_info=api_pb2.TaskInfo(id=s.task, result=s.result),
                    app_id=s.app,
                    tags=_tags(s),
                    name=s.name,
                    image_id=s.image,
                    metadata=s.metadata,
                )
                for s in found[:_PAGE]
            ]
        )

    async def SandboxWaitV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        sandbox, end = self._sandbox(request.sandbox_id), time.monotonic() + request.timeout
        while sandbox.machine.alive and time.monotonic() < end:
            await asyncio.sleep(0.02)
        return api_pb2.SandboxWaitResponse(result=sandbox.result, metadata=sandbox.metadata)

    async def SandboxTerminateV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        sandbox = self._sandbox(request.sandbox_id)
        before = sandbox.result
        await sandbox.machine.end("it was terminated")
        return api_pb2.SandboxTerminateResponse(existing_result=before if before.status else None)

    async def SandboxTagsGetV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        return api_pb2.SandboxTagsGetResponse(tags=_tags(self._sandbox(request.sandbox_id)))

    async def SandboxGetTaskIdV2(self, request: Any, metadata: Mapping[str, str]) -> Any:
        sandbox = self._sandbox(request.sandbox_id)
        if not sandbox.machine.alive:
            return api_pb2.SandboxGetTaskIdResponse(task_result=sandbox.result)
        return api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task)

    async def SandboxGetCommandRouterAccess(self, request: Any, metadata: Mapping[str, str]) -> Any:
        found = [s for s in self._sandboxes.values() if request.sandbox_id == s.id or request.task_id == s.task]
        if not found:
            raise GRPCError(Status.NOT_FOUND, "Sandbox not found")
        if not found[0].machine.alive:
            raise GRPCError(Status.FAILED_PRECONDITION, "Sandbox has already shut down")
        access = self._access(found[0], _ACCESS_LIVES)
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=access.url, jwt=access.jwt)

    def _access(self, sandbox: Sandbox, seconds: float) -> api_pb2.CommandRouterAccess:
        return api_pb2.CommandRouterAccess(url=self.router_url, jwt=self.tokens.issue(sandbox.task, seconds))


def _tags(sandbox: Sandbox) -> list[api_pb2.SandboxTag]:
    return [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in sandbox.tags.items()]


def _id(kind: str, length: int) -> str:
    return f"{kind}-{''.join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))}"


async def build(front: Front) -> web.Application:
    control = Control(front)
    urls = []
    for service in (control, control.router):
        server = Server([service], status_details_codec=custom_detail_codec)
        await server.start("127.0.0.1", 0)
        assert isinstance(server._server, asyncio.Server)
        urls.append(f"http://127.0.0.1:{server._server.sockets[0].getsockname()[1]}")
    control.router_url = urls[1]
    front.environment = lambda url: {
        "MODAL_SERVER_URL": urls[0],
        "MODAL_TOKEN_ID": TOKEN_ID,
        "MODAL_TOKEN_SECRET": TOKEN_SECRET,
        "EVALCELL_MODAL_PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    application = web.Application()

    async def end(application: web.Application) -> None:
        await control.images.end()

    application.on_cleanup.append(end)
    return application


if __name__ == "__main__":
    asyncio.run(serve(build))
