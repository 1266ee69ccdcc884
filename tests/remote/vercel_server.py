"""
A local Vercel Sandbox API, whose commands really run: `python -m tests.remote.vercel_server`.

What a stopped machine had on disk is not kept: `persistent` is taken, and ignored.
Options: `cap` machines at once, `pending` seconds until one runs, `page` machines of a list at most, `patience`: the
seconds that a command may take to read its input.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.remote.machine import MachineGone
from tests.remote.serving import Fail, Front, middleware, serve
from tests.remote.vercel_commands import STOPPED, Command, StalledError, StdinError
from tests.remote.vercel_state import (
    HOME,
    LONGEST,
    PROJECT,
    TEAM,
    TOKEN,
    ApiError,
    Kept,
    Sandbox,
    Session,
    body,
    full,
    now,
    of_project,
    policy,
    stopped,
)

_STDIN = 1 << 20
_UPLOAD = 256 << 20


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api(Kept):
    """The handlers."""

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = await body(request)
        of_project(asked.get("projectId"))
        name = asked.get("name") or f"sandbox-{secrets.token_hex(6)}"
        if len(asked.get("tags") or {}) > 5:
            raise ApiError(400, "bad_request", "A sandbox can have at most 5 tags")
        if not 1000 <= asked.get("timeout", 300_000) <= LONGEST:
            raise ApiError(400, "bad_request", f"timeout must be between 1000 and {LONGEST}")
        sandbox = Sandbox(name, asked)
        if sandbox.cores > 8:
            raise ApiError(400, "bad_request", "vcpus must be at most 8")
        if name in self.sandboxes or name in self.making:
            raise ApiError(
                400, "bad_request", f"Sandbox '{name}' already exists. Use GET /sandboxes/{name} to resume it."
            )
        self.making.add(name)
        try:
            await self.begin(sandbox)
            self.sandboxes[name] = sandbox
        finally:
            self.making.discard(name)
        return self.told(sandbox, resumed=False)

    async def get(self, request: web.Request) -> web.StreamResponse:
        sandbox = self.named(request)
        resumed = request.query.get("resume") == "true" and sandbox.sessions[-1].status == "stopped"
        if resumed:
            await self.begin(sandbox)
        return self.told(sandbox, resumed=resumed)

    async def list(self, request: web.Request) -> web.StreamResponse:
        of_project(request.query.get("project"))
        prefix, by = request.query.get("namePrefix"), request.query.get("sortBy", "createdAt")
        if prefix and by != "name":
            raise ApiError(400, "bad_request", "namePrefix needs sortBy=name")
        limit = int(request.query.get("limit", 20))
        if not 1 <= limit <= 50:
            raise ApiError(400, "bad_request", "limit must be between 1 and 50")
        key, _, value = request.query.get("tags", "").partition(":")
        found = [
            sandbox
            for sandbox in self.sandboxes.values()
            if sandbox.name.startswith(prefix or "") and (not key or sandbox.tags.get(key) == value)
        ]
        found.sort(key=lambda s: s.name if by == "name" else s.created, reverse=request.query.get("sortOrder") != "asc")
        start = int(request.query.get("cursor", 0))
        end = start + min(limit, self.page)
        page = [sandbox.payload() for sandbox in found[start:end]]
        after = str(end) if end < len(found) else None
        return web.json_response({"sandboxes": page, "pagination": {"count": len(page), "next": after}})

    async def delete(self, request: web.Request) -> web.StreamResponse:
        sandbox = self.named(request)
        await sandbox.sessions[-1].machine.end("its sandbox was deleted")
        del self.sandboxes[sandbox.name]
        return self.told(sandbox)

    async def stop(self, request: web.Request) -> web.StreamResponse:
        session = self.of_session(request, running=False)
        await session.machine.end(STOPPED)
        return web.json_response({"session": session.payload(), "sandbox": session.sandbox.payload()})

    async def extend(self, request: web.Request) -> web.StreamResponse:
        session, duration = self.of_session(request), (await body(request)).get("duration", 0)
        if duration < 1000 or session.timeout + duration > LONGEST:
            raise ApiError(400, "bad_request", "duration is below 1000 or exceeds what the plan allows")
        session.timeout += duration
        session.machine.live_for((session.started + session.timeout - now()) / 1000)
        return web.json_response({"session": session.payload()})

    async def network(self, request: web.Request) -> web.StreamResponse:
        session = self.of_session(request)
        session.policy = policy(await body(request))
        session.machine.network = session.policy.get("mode") != "deny-all"
        return web.json_response({"session": session.payload()})

    async def run(self, request: web.Request) -> web.StreamResponse:
        session, asked = self.of_session(request), await body(request)
        try:
            command = await Command.start(
                session.machine, asked, session.id, session.sandbox.asked.get("env") or {}, HOME
            )
        except OSError as e:
            raise ApiError(400, "bad_request", f"The command cannot be started: {e.strerror}: {e.filename}") from None
        session.commands[command.id] = command
        if request.query.get("wait") != "true":
            return web.json_response({"command": command.payload()})

        async def records() -> AsyncIterator[dict[str, Any]]:
            yield {"command": command.payload(fresh=True)}
            async for record in command.records(lambda: {"command": command.payload()}):
                if "stream" not in record or record["stream"] == "error" or request.query.get("logs") == "true":
                    yield record

        return await self._stream(request, "start", session, records())

    async def _stream(
        self, request: web.Request, op: str, session: Session, records: AsyncIterator[dict[str, Any]]
    ) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        await reply.prepare(request)
        number = 0
        async for record in records:
            number += 1
            await self.front.frame(op, number, session.machine)
            await reply.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        await reply.write_eof()
        return reply

    async def stdin(self, request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > _STDIN:
            raise ApiError(413, "request_too_large", "The body is larger than 1 MB")
        command, asked = self.of_command(request), await body(request)
        try:
            data = base64.b64decode(asked.get("data", ""), validate=True)
            await command.feed(data, asked.get("offset"), close=asked.get("close") is True, patience=self.patience)
        except IndexError as e:
            raise ApiError(409, "conflict", str(e)) from None
        except (binascii.Error, ValueError) as e:
            raise ApiError(400, "bad_request", str(e)) from None
        except StdinError as e:
            if e.gone:
                raise ApiError(404, "not_found", "The command has ended") from None
            raise ApiError(400, "command_stdin_unavailable", "The command does not read its stdin") from None
        except StalledError:
            raise ApiError(504, "timeout", "The command reads slowly", bytesWritten=command.written) from None
        return web.json_response({"command": command.payload(), "bytesWritten": command.written})


async def build(front: Front) -> web.Application:
    api = Api(front)
    sandboxes, session = "/v2/sandboxes", "/v2/sandboxes/sessions/{session}"
    routes: list[tuple[str, str, str, Handler]] = [
        ("create", "POST", "/v3/sandboxes", api.create),
        ("list", "GET", sandboxes, api.list),
        ("stop", "POST", f"{session}/stop", api.stop),
        ("extend", "POST", f"{session}/extend-timeout", api.extend),
        ("network", "POST", f"{session}/network-policy", api.network),
        ("start", "POST", f"{session}/cmd", api.run),
        ("stdin", "POST", f"{session}/cmd/{{command}}/stdin", api.stdin),
        ("find", "GET", f"{sandboxes}/{{name}}", api.get),
        ("kill", "DELETE", f"{sandboxes}/{{name}}", api.delete),
    ]

    def op_of(request: web.Request) -> str:
        op = request.match_info.route.name or "other"
        return "connect" if op == "find" and request.query.get("resume") == "true" else op

    application = web.Application(middlewares=[middleware(front, op_of), _guard], client_max_size=_UPLOAD)
    for op, method, path, handler in routes:
        application.router.add_route(method, path, handler, name=op)
    front.environment = lambda url: {
        "EVALCELL_VERCEL_URL": url,
        "VERCEL_TOKEN": TOKEN,
        "VERCEL_TEAM_ID": TEAM,
        "VERCEL_PROJECT_ID": PROJECT,
    }
    front.failure = _failure
    return application


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Who asks, and refusals in the API's own form."""
    if request.path.startswith("/_control"):
        return await handler(request)
    try:
        if request.headers.get("authorization") != f"Bearer {TOKEN}" or request.query.get("teamId") != TEAM:
            raise ApiError(403, "forbidden", "Not authorized")
        return await handler(request)
    except ApiError as e:
        return web.json_response(e.document, status=e.status)
    except MachineGone:
        return web.json_response(stopped().document, status=410)


def _failure(fail: Fail) -> web.StreamResponse:
    if fail.kind == "full":
        return web.json_response(full().document, status=429)
    error = {"code": fail.code or ("too_many_requests" if fail.kind == "rate" else "told_to"), "message": fail.text}
    headers = {**fail.headers, **({"retry-after": f"{fail.after:g}"} if fail.after is not None else {})}
    return web.json_response({"error": error}, status=fail.status, headers=headers)


if __name__ == "__main__":
    asyncio.run(serve(build))
