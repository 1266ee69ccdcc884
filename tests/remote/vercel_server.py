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
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from aiohttp import web

from tests.remote.faults import Fail
from tests.remote.machine import MachineGone
from tests.remote.serving import Refused, Route, document, serve
from tests.remote.vercel_commands import STOPPED, Command, StalledError, StdinError
from tests.remote.vercel_state import (
    HOME,
    LONGEST,
    PROJECT,
    TEAM,
    TOKEN,
    Kept,
    Sandbox,
    Session,
    full,
    now,
    of_project,
    policy,
    stopped,
)

_STDIN = 1 << 20


class Vercel(Kept):
    """The handlers."""

    def environment(self, url: str) -> dict[str, str]:
        return {
            "EVALCELL_VERCEL_URL": url,
            "VERCEL_TOKEN": TOKEN,
            "VERCEL_TEAM_ID": TEAM,
            "VERCEL_PROJECT_ID": PROJECT,
        }

    def routes(self) -> Iterable[Route]:
        sandboxes, session = "/v2/sandboxes", "/v2/sandboxes/sessions/{session}"
        yield "create", "POST", "/v3/sandboxes", self.create
        yield "list", "GET", sandboxes, self.list
        yield "stop", "POST", f"{session}/stop", self.stop
        yield "extend", "POST", f"{session}/extend-timeout", self.extend
        yield "network", "POST", f"{session}/network-policy", self.network
        yield "start", "POST", f"{session}/cmd", self.run
        yield "stdin", "POST", f"{session}/cmd/{{command}}/stdin", self.stdin
        yield "find", "GET", f"{sandboxes}/{{name}}", self.get
        yield "kill", "DELETE", f"{sandboxes}/{{name}}", self.delete

    def op(self, request: web.Request) -> str:
        op = super().op(request)
        return "connect" if op == "find" and request.query.get("resume") == "true" else op

    def admit(self, request: web.Request) -> None:
        if request.headers.get("authorization") != f"Bearer {TOKEN}" or request.query.get("teamId") != TEAM:
            raise Refused(403, "Not authorized", "forbidden")

    def refusal(self, request: web.Request, refused: Refused) -> web.StreamResponse:
        return _error(refused)

    def gone(self, error: MachineGone) -> Refused:
        return stopped()

    def failure(self, fail: Fail) -> web.StreamResponse:
        if fail.kind == "full":
            return _error(full())
        code = fail.code or ("too_many_requests" if fail.kind == "rate" else "told_to")
        headers = {**fail.headers, **({"retry-after": f"{fail.after:g}"} if fail.after is not None else {})}
        return _error(Refused(fail.status, fail.text, code), headers)

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = await document(request)
        of_project(asked.get("projectId"))
        name = asked.get("name") or f"sandbox-{secrets.token_hex(6)}"
        if len(asked.get("tags") or {}) > 5:
            raise Refused(400, "A sandbox can have at most 5 tags", "bad_request")
        if not 1000 <= asked.get("timeout", 300_000) <= LONGEST:
            raise Refused(400, f"timeout must be between 1000 and {LONGEST}", "bad_request")
        sandbox = Sandbox(name, asked)
        if sandbox.cores > 8:
            raise Refused(400, "vcpus must be at most 8", "bad_request")
        if name in self.sandboxes or name in self.making:
            raise Refused(
                400, f"Sandbox '{name}' already exists. Use GET /sandboxes/{name} to resume it.", "bad_request"
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
            raise Refused(400, "namePrefix needs sortBy=name", "bad_request")
        limit = int(request.query.get("limit", 20))
        if not 1 <= limit <= 50:
            raise Refused(400, "limit must be between 1 and 50", "bad_request")
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
        session, duration = self.of_session(request), (await document(request)).get("duration", 0)
        if duration < 1000 or session.timeout + duration > LONGEST:
            raise Refused(400, "duration is below 1000 or exceeds what the plan allows", "bad_request")
        session.timeout += duration
        session.machine.live_for((session.started + session.timeout - now()) / 1000)
        return web.json_response({"session": session.payload()})

    async def network(self, request: web.Request) -> web.StreamResponse:
        session = self.of_session(request)
        session.policy = policy(await document(request))
        session.machine.network = session.policy.get("mode") != "deny-all"
        return web.json_response({"session": session.payload()})

    async def run(self, request: web.Request) -> web.StreamResponse:
        session, asked = self.of_session(request), await document(request)
        try:
            command = await Command.start(
                session.machine, asked, session.id, session.sandbox.asked.get("env") or {}, HOME
            )
        except OSError as e:
            raise Refused(400, f"The command cannot be started: {e.strerror}: {e.filename}", "bad_request") from None
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
            raise Refused(413, "The body is larger than 1 MB", "request_too_large")
        command, asked = self.of_command(request), await document(request)
        try:
            data = base64.b64decode(asked.get("data", ""), validate=True)
            await command.feed(data, asked.get("offset"), close=asked.get("close") is True, patience=self.patience)
        except IndexError as e:
            raise Refused(409, str(e), "conflict") from None
        except (binascii.Error, ValueError) as e:
            raise Refused(400, str(e), "bad_request") from None
        except StdinError as e:
            if e.gone:
                raise Refused(404, "The command has ended", "not_found") from None
            raise Refused(400, "The command does not read its stdin", "command_stdin_unavailable") from None
        except StalledError:
            raise Refused(504, "The command reads slowly", "timeout", bytesWritten=command.written) from None
        return web.json_response({"command": command.payload(), "bytesWritten": command.written})


def _error(refused: Refused, headers: Mapping[str, str] | None = None) -> web.StreamResponse:
    error = {"code": refused.code, "message": str(refused), **refused.more}
    return web.json_response({"error": error}, status=refused.status, headers=headers)


if __name__ == "__main__":
    asyncio.run(serve(Vercel.build))
