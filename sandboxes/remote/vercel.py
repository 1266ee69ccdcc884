"""Vercel Sandbox, over HTTP as its Python SDK 0.12 does. Experimental: see docs/backends.md."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
from pydantic import SecretStr

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import provider as base
from sandboxes.remote.http import ProviderClient, address, claims, document, number, records, text, timestamp, value_at
from sandboxes.remote.provider import GoneError, Machine, RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses, retry
from sandboxes.remote.sandbox import RemoteSandbox
from sandboxes.words.text import clean

_PIECE = 512 * 1024  # of stdin: in base64 and JSON it must stay below the service's limit of 1 MB per request
_GRACE = 30.0  # seconds for the service to end a command after its timeout, and to report it
_STARTING = 90.0
_ALIVE = ("pending", "running", "snapshotting")
_ENDED = ("sandbox_stopped", "sandbox_stopping", "sandbox_snapshotting")
_DENY, _ALLOW = {"mode": "deny-all"}, {"mode": "allow-all"}
_HOW = "set VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID, or VERCEL_OIDC_TOKEN (`vercel env pull` writes it)"


@dataclass
class _Session:  # one run of a machine, which is billed and which commands are sent to
    id: str
    ends: float  # on this host's monotonic clock


class VercelProvider(base.Provider):
    """Vercel Sandbox; a machine's id is its name, which is the order's key."""

    name = "vercel"
    variables: ClassVar[tuple[str, ...]] = ("VERCEL_TOKEN", "VERCEL_OIDC_TOKEN")
    settings = ("VERCEL_TEAM_ID", "VERCEL_PROJECT_ID", "EVALCELL_VERCEL_IMAGE")
    cap = 8
    longest = 2700

    def __init__(self, values: Mapping[str, str]) -> None:
        self._token, self._team, self._project = _credentials(values)
        self._url = address(values.get("EVALCELL_VERCEL_URL") or "https://vercel.com/api", "EVALCELL_VERCEL_URL")
        self.address = f"{self._url}/{self._team}/{self._project}"  # elsewhere a machine's name means another, or none
        self._image = values.get("EVALCELL_VERCEL_IMAGE") or "vercel/sandbox/python:3.14"
        self._service = ProviderClient(
            "Vercel", _map_error, timeout=45.0
        )  # the service waits 30 s for a command that does not read

    async def close(self) -> None:
        await self._service.close()

    async def create(self, order: base.Order) -> Machine:
        body = {
            "projectId": self._project,
            "name": order.key,
            "image": self._image,
            "timeout": order.lifetime * 1000,
            "networkPolicy": _ALLOW if order.network else _DENY,
            # Each core comes with 2 GB, and the machine needs some for itself. The service refuses too much.
            "resources": {"vcpus": 2 * max(1, -(-(order.memory + (1 << 30)) // (4 << 30)))},
            "persistent": False,
            "tags": {k: v for k, v in order.tags.items() if k != "key"},  # five at most; the name is the key
        }
        try:
            reply = await self._ask("POST", "/v3/sandboxes", json=body)
        except RefusedError as e:
            if "already exist" not in str(e).lower():
                raise
            reply = await self._get(order.key)
        try:
            return await self._ready(order.key, reply)
        except GoneError as e:
            await self.kill(order.key)  # otherwise its name stays taken
            raise UnreachableError(str(e)) from None

    async def find(self, key: str) -> Machine | None:
        with suppress(GoneError):
            return await self._ready(key, await self._get(key))
        return None

    async def kill(self, id: str) -> None:
        with suppress(GoneError):
            found = await self._get(id)
            with suppress(GoneError):
                await self._post(text(found, "sandbox", "currentSessionId"), "stop", {})
            # A machine that is only stopped is started again, and billed, by any later call with its name.
            try:
                query = {"projectId": self._project}
                text(await self._ask("DELETE", f"/v2/sandboxes/{quote(id, '')}", params=query), "sandbox", "name")
            except GoneError:
                await self._get(id)
                raise UnreachableError("Vercel: the machine is being stopped, and cannot be deleted yet") from None

    async def list(self) -> AsyncIterator[base.ListedMachine]:
        query = {"project": self._project, "limit": "50", "sortBy": "createdAt", "tags": f"owner:{base.OWNER}"}
        while True:
            page = await self._ask("GET", "/v2/sandboxes", params=query)
            rows, cursor = page.get("sandboxes"), value_at(page, "pagination", "next")
            if not isinstance(rows, list) or not isinstance(cursor, str | None) or cursor == query.get("cursor", ""):
                raise UnreachableError("Vercel: the reply is not a list of machines, or the list does not end")
            for row in rows:
                if value_at(row, "tags", "owner") == base.OWNER and row.get("status") in _ALIVE:
                    name = text(row, "name")
                    yield base.ListedMachine(name, name, timestamp(row, "createdAt"), {**row["tags"], "key": name})
            if cursor is None:
                return
            query["cursor"] = cursor

    async def extend(self, machine: Machine, seconds: int) -> None:
        session: _Session = machine.data
        lacking = seconds - (session.ends - time.monotonic())
        if lacking >= 1:  # the smallest extension
            await self._post(session.id, "extend-timeout", {"duration": int(lacking * 1000)})
            session.ends += lacking

    async def cut_network(self, machine: Machine) -> None:
        await self._post(machine.data.id, "network-policy", _DENY)

    async def execute(self, machine: Machine, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        session: str = machine.data.id
        feeding: asyncio.Task[None] | None = None
        errors, began = bytearray(), time.monotonic()
        try:
            async with asyncio.timeout(command.timeout + _GRACE) as deadline, self._started(session, command) as stream:
                async for record in stream:
                    of, kind, data = record.get("command"), record.get("stream"), record.get("data")
                    if of and not feeding:
                        feeding = asyncio.create_task(self._feed(session, text(of, "id"), command.input, deadline))
                    elif isinstance(code := value_at(of, "exitCode"), int):
                        over = code == 137 and time.monotonic() - began >= command.timeout
                        return base.CommandResult(None if over else code, errors.decode("utf-8", "replace"))
                    elif kind == "error":
                        said = clean(f"{value_at(data, 'code')}: {value_at(data, 'message')}", 300)
                        raise _map_error(0, {}, said) or UnreachableError(f"Vercel: {said}")
                    elif isinstance(data, str) and kind == "stdout":
                        on_output(data.encode("utf-8", "surrogatepass"))
                    elif isinstance(data, str):
                        errors += data.encode("utf-8", "surrogatepass")
                        del errors[: -base.ERRORS]
                raise UnreachableError("Vercel: the command's stream ended before the command")
        except TimeoutError:
            if feeding and feeding.done():
                feeding.result()
            raise UnreachableError("Vercel: the command did not end in time, and the service did not end it") from None
        finally:
            if feeding:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)

    @asynccontextmanager
    async def _started(self, session: str, command: base.Command) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        body: dict[str, Any] = {"command": command.argv[0], "args": command.argv[1:], "env": dict(command.env)}
        body |= {"sudo": True, "attachStdin": True, "wait": True, "logs": True, "timeout": int(command.timeout * 1000)}
        wait = httpx.Timeout(30.0, connect=10.0, read=command.timeout + _GRACE)
        query = {"wait": "true", "logs": "true"}
        sent = self._sent(f"/v2/sandboxes/sessions/{quote(session, '')}/cmd", params=query, json=body, timeout=wait)
        async with self._service.stream("POST", **sent) as reply:
            yield records(self._service.pieces(reply))

    async def _feed(self, session: str, command: str, data: bytes, deadline: asyncio.Timeout) -> None:
        """Write and close stdin. If that fails, stop waiting for the command."""
        action = f"cmd/{quote(command, '')}/stdin"
        try:
            for start in range(0, len(data) + 1, _PIECE):
                piece = data[start : start + _PIECE]
                # The offset tells the service what it already has if the request is repeated.
                body: dict[str, Any] = {"data": base64.b64encode(piece).decode()} if piece else {}
                body |= {"offset": start, "close": start + _PIECE > len(data)}
                reply = await retry(partial(self._post, session, action, body), Pauses())
                if reply.get("bytesWritten") != start + len(piece):
                    raise UnreachableError("the service did not say what arrived")
        except GoneError:
            return  # the command or its machine ended; the stream tells how
        except base.ProviderError as e:
            if "command_stdin_unavailable" not in str(e):  # the command closed its stdin, or an earlier request did
                deadline.reschedule(0)
                raise UnreachableError(f"the command's input could not be written: {e}") from None

    async def _ready(self, name: str, reply: dict[str, Any]) -> Machine:
        until = time.monotonic() + _STARTING
        while (status := value_at(reply, "session", "status") or value_at(reply, "sandbox", "status")) == "pending":
            if time.monotonic() > until:
                raise UnreachableError(f"Vercel: the machine did not start in {_STARTING:g} s")
            await asyncio.sleep(0.5)
            reply = await self._get(name)
        if status != "running":
            raise GoneError(f"Vercel: the machine is {status}")
        begun, life = timestamp(reply, "session", "startedAt").timestamp(), number(reply, "session", "timeout") / 1000
        ends = time.monotonic() + min(max(0.0, begun + life - time.time()), life)  # the two clocks may differ
        return Machine(name, name, _Session(text(reply, "sandbox", "currentSessionId"), ends))

    async def _get(self, name: str) -> dict[str, Any]:
        # Without resume=false this would start a machine that has stopped.
        query = {"projectId": self._project, "resume": "false"}
        return await self._ask("GET", f"/v2/sandboxes/{quote(name, '')}", params=query)

    async def _post(self, session: str, action: str, body: Mapping[str, Any]) -> dict[str, Any]:
        reply = await self._ask("POST", f"/v2/sandboxes/sessions/{quote(session, '')}/{action}", json=body)
        if session not in (value_at(reply, "session", "id"), value_at(reply, "command", "sessionId")):
            raise UnreachableError("Vercel: the reply does not match the request")
        return reply

    async def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            return document(await self._service.ask(method, **self._sent(path, **more)), "Vercel")
        except GoneError as e:
            if not path.endswith("/sandboxes"):
                raise
            raise RefusedError(f"{e}; check that VERCEL_PROJECT_ID is a project of the team VERCEL_TEAM_ID") from None

    def _sent(self, path: str, **more: Any) -> dict[str, Any]:
        query = {"teamId": self._team, **more.pop("params", {})}
        headers = {"authorization": f"Bearer {self._token.get_secret_value()}"}
        return {"url": self._url + path, "params": query, "headers": headers, **more}


def _credentials(values: Mapping[str, str]) -> tuple[SecretStr, str, str]:
    token, team, project = (values.get(f"VERCEL_{name}", "").strip() for name in ("TOKEN", "TEAM_ID", "PROJECT_ID"))
    if not token:
        token = values.get("VERCEL_OIDC_TOKEN", "").strip()
        team, project = (str(claims(token).get(name) or "") for name in ("owner_id", "project_id"))
    if not (token and team and project) or not token.isascii():
        raise SandboxUnavailableError(f"Vercel's credentials are missing or incomplete; {_HOW}")
    return SecretStr(token), team, project


def _map_error(status: int, headers: Mapping[str, str], said: str) -> base.ProviderError | None:
    if status in (401, 403):
        return RefusedError(f"Vercel rejects the credentials ({said}); {_HOW}")
    if status == 429 and "concurren" in said.lower():
        return base.FullError(f"Vercel: {said}")
    if "sandbox_stream_closed" in said:
        return UnreachableError(f"Vercel: {said}")
    return GoneError(f"Vercel: {said}") if any(code in said for code in _ENDED) else None


class VercelSandbox(RemoteSandbox):
    """See docs/backends.md."""

    name = "vercel"
    provider = VercelProvider
