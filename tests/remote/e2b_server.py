"""
A local E2B: the control plane, versions 1 and 2, and every machine's daemon at the same address.

Options: `v2` (False: as an older deployment, where only version 1 is; "list": as a self-hosted one, which lists in
version 2 and makes machines in version 1), `network` (False: it cannot be changed once a machine runs), `cap` (machines
at once), `page` (rows in a page of the list, at most), `domain` (told of every machine), `private` (machines that are
reached with a token only).
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from tests.remote.e2b_envd import Envd
from tests.remote.faults import Fail, Front
from tests.remote.machine import Machine, MachineGone
from tests.remote.serving import Api, Refused, Route, document, serve

KEY = "e2b_" + "0123456789" * 4
TEMPLATES = ("base", "code-interpreter-v1")
_LONGEST = 3600
_VERSION = "0.6.13"
_FULL = "you have reached the maximum number of concurrent E2B sandboxes ({})"


class E2B(Api):
    """What a client with the key may ask, and every machine's daemon."""

    largest = 64 << 20

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._orders: dict[str, tuple[bytes, dict[str, Any] | None]] = {}
        """By idempotency key: what was asked, and what came of it; None: it is not done yet."""
        self._making = 0

    def environment(self, url: str) -> dict[str, str]:
        return {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": KEY}

    def routes(self) -> Iterable[Route]:
        second, one = self.front.options.get("v2", True), "/sandboxes/{id}"
        for version in ("", "/v2") if second else ("",):
            if not (version and second == "list"):
                yield "create", "POST", f"{version}/sandboxes", self.create
            yield "list", "GET", f"{version}/sandboxes", self.list
            yield "connect", "POST", f"{version}{one}/connect", self.connect
        yield "get", "GET", one, self.get
        yield "kill", "DELETE", one, self.kill
        yield "extend", "POST", f"{one}/timeout", self.timeout
        if self.front.options.get("network", True):
            yield "network", "PUT", f"{one}/network", self.network
        yield from Envd(self.front).routes()

    def op(self, request: web.Request) -> str:
        op = super().op(request)
        if op == "other" and request.path == "/v2/sandboxes":  # which an older deployment does not know
            op = {"POST": "create", "GET": "list"}.get(request.method, op)
        return "find" if op == "list" and "key" in _asked_metadata(request) else op

    def admit(self, request: web.Request) -> None:
        control = re.match(r"(/v2)?/sandboxes(/|$)", request.path)
        if control and request.headers.get("X-API-KEY") != KEY:
            raise Refused(401, "Invalid API key, please visit the API Keys tab of your dashboard")

    def refusal(self, request: web.Request, refused: Refused) -> web.StreamResponse:
        return _error(refused.status, str(refused), refused.code)

    def unrouted(self, request: web.Request, error: web.HTTPException) -> Refused:
        """In the words of E2B's own code, which has others than most for a method too."""
        if error.status == 404:
            return Refused(404, "validation error: no matching operation was found")
        if self.front.options.get("v2") == "list":
            return Refused(400, "validation error: method not allowed")
        return Refused(error.status, error.reason)

    def failure(self, fail: Fail) -> web.StreamResponse:
        if fail.kind == "rate":
            after = str(round(1 if fail.after is None else fail.after))
            limit = {"RateLimit-Limit": "20000", "RateLimit-Remaining": "0", "RateLimit-Reset": after}
            return _error(429, "Rate limit exceeded", headers={**limit, "Retry-After": after, **fail.headers})
        if fail.kind == "full":
            return _error(429, _FULL.format(20))
        return _error(fail.status, fail.text, fail.code, fail.headers)

    def _machine(self, request: web.Request) -> Machine:
        id = request.match_info["id"]
        try:
            return self.front.machines.get(id)
        except MachineGone:
            raise Refused(404, f"sandbox {id!r} does not exist") from None

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked, body = await document(request), await request.read()
        second = request.path.startswith("/v2")
        # Version 1 knows no such header.
        key = request.headers.get("Idempotency-Key", "") if second else ""
        if key and not re.fullmatch("[a-z0-9-]{1,255}", key):
            raise Refused(400, "Idempotency-Key must be 1-255 of a-z, 0-9 and -")
        if key in self._orders:
            before, reply = self._orders[key]
            if before != body:
                raise Refused(422, "the key was used with another request", "idempotency_request_mismatch")
            if reply is None:
                raise Refused(409, "the same request is under way", "idempotency_in_progress")
            return web.json_response(reply, status=201)
        if key:
            self._orders[key] = body, None
        try:
            reply = _reply(await self._new(asked, second))
        except BaseException:
            self._orders.pop(key, None)
            raise
        if key:
            self._orders[key] = body, reply
        return web.json_response(reply, status=201)

    async def _new(self, asked: dict[str, Any], second: bool) -> Machine:
        template, metadata = asked.get("templateID"), asked.get("metadata") or {}
        if template not in TEMPLATES:
            raise Refused(404 if isinstance(template, str) else 400, f"template {template!r} not found")
        if not all(isinstance(value, str) for value in metadata.values()):
            raise Refused(400, "metadata must be strings")
        lifetime = _seconds(asked, "timeout", 300 if second else 15)
        cap = self.front.options.get("cap", 20)
        if len(self.front.machines.live()) + self._making >= cap:
            raise Refused(429, _FULL.format(cap))
        self._making += 1
        try:
            machine = await self.front.machines.create(
                key=metadata.get("key", ""),
                tags=metadata,
                network=_open(asked),
                lifetime=lifetime,
                id=f"i{secrets.token_hex(10)}",
            )
        finally:
            self._making -= 1
        machine.data |= {
            "template": template,
            "token": secrets.token_hex(32) if second or asked.get("secure") else None,
            "traffic": secrets.token_hex(16) if self.front.options.get("private") else None,
            "domain": self.front.options.get("domain"),
            "variables": asked.get("envVars") or {},
        }
        return machine

    async def get(self, request: web.Request) -> web.StreamResponse:
        machine = self._machine(request)
        return web.json_response(_row(machine) | {k: v for k, v in _reply(machine).items() if "traffic" not in k})

    async def connect(self, request: web.Request) -> web.StreamResponse:
        machine = self._machine(request)
        self._prolong(machine, _seconds(await document(request), "timeout", 300))
        return web.json_response(_reply(machine))

    async def timeout(self, request: web.Request) -> web.StreamResponse:
        machine = self._machine(request)
        machine.live_for(_seconds(await document(request), "timeout", None))
        return web.Response(status=204)

    def _prolong(self, machine: Machine, seconds: float) -> None:
        if machine.ends is None or machine.ends < asyncio.get_running_loop().time() + seconds:
            machine.live_for(seconds)

    async def network(self, request: web.Request) -> web.StreamResponse:
        machine = self._machine(request)
        machine.network = _open({"network": (asked := await document(request)), **asked})
        return web.Response(status=204)

    async def kill(self, request: web.Request) -> web.StreamResponse:
        await self._machine(request).end("it was killed")
        return web.Response(status=204)

    async def list(self, request: web.Request) -> web.StreamResponse:
        wanted, query = _asked_metadata(request), request.query
        states = [s for value in query.getall("state", []) for s in value.split(",")] or ["running", "paused"]
        rows = [
            (machine.started.isoformat() + machine.id, machine)
            for machine in self.front.machines.live()
            if wanted.items() <= machine.tags.items() and "running" in states
        ]
        rows.sort(key=lambda row: row[0], reverse=query.get("order") != "asc")
        if not request.path.startswith("/v2"):
            return web.json_response([_row(machine) for _, machine in rows])
        limit = int(query.get("limit", 100))
        if not 1 <= limit <= 100:
            raise Refused(400, "limit must be between 1 and 100")
        if token := query.get("nextToken"):
            after, up = base64.urlsafe_b64decode(token).decode(), query.get("order") == "asc"
            rows = [row for row in rows if (row[0] > after) == up and row[0] != after]
        limit = min(limit, self.front.options.get("page", 100))
        headers = {}
        if len(rows) > limit:
            headers["X-Next-Token"] = base64.urlsafe_b64encode(rows[limit - 1][0].encode()).decode()
        return web.json_response([_row(machine) for _, machine in rows[:limit]], headers=headers)


def _error(status: int, message: str, code: str = "", headers: dict[str, str] | None = None) -> web.Response:
    told = {"code": status, "message": message} | ({"error_code": code} if code else {})
    return web.json_response(told, status=status, headers=headers)


def _seconds(asked: dict[str, Any], name: str, usual: int | None) -> int:
    found = asked.get(name, usual)
    if not isinstance(found, int) or found <= 0:
        raise Refused(400, f"{name} must be a positive number of seconds")
    if found > _LONGEST:
        raise Refused(400, f"{name} cannot be greater than {_LONGEST // 3600} hours")
    return found


def _open(asked: dict[str, Any]) -> bool:
    denied = (asked.get("network") or {}).get("denyOut") or []
    return asked.get("allow_internet_access") is not False and "0.0.0.0/0" not in denied


def _asked_metadata(request: web.Request) -> dict[str, str]:
    """It is a query in the query, whose words are quoted once more."""
    return {unquote(k): unquote(v) for k, v in parse_qsl(request.query.get("metadata", ""))}


def _reply(machine: Machine) -> dict[str, Any]:
    data = machine.data
    found = {
        "templateID": data["template"],
        "sandboxID": machine.id,
        "clientID": "6532622b",
        "envdVersion": _VERSION,
        "alias": data["template"],
        "trafficAccessToken": data["traffic"],
        "domain": data["domain"],
    }
    return found | ({"envdAccessToken": data["token"]} if data["token"] else {})


def _row(machine: Machine) -> dict[str, Any]:
    left = (machine.ends or 0.0) - asyncio.get_running_loop().time()
    return {
        "templateID": machine.data["template"],
        "alias": machine.data["template"],
        "sandboxID": machine.id,
        "clientID": "6532622b",
        "startedAt": machine.started.isoformat().replace("+00:00", "Z"),
        "endAt": (datetime.now(UTC) + timedelta(seconds=left)).isoformat().replace("+00:00", "Z"),
        "cpuCount": 2,
        "memoryMB": 512,
        "diskSizeMB": 1024,
        "metadata": machine.tags,
        "state": "running",
        "envdVersion": _VERSION,
    }


if __name__ == "__main__":
    asyncio.run(serve(E2B.build))
