"""Machines at E2B, or at a server that speaks as it does: its HTTP interface, versions 2 and 1, and envd's streams."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import SecretStr

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import connect
from sandboxes.remote import provider as told
from sandboxes.remote.connect import ConnectError
from sandboxes.remote.http import Service, address, document, retry_after
from sandboxes.remote.provider import BusyError, FullError, GoneError, Machine, RefusedError, UnreachableError
from sandboxes.remote.sandbox import RemoteSandbox

_PORT = "49983"  # of envd, which speaks for a machine
_FRAME = 1 << 20  # bytes; envd's own are below 64 KB
_GRACE = 30.0  # seconds for envd to end what is over its time, and to say so
_PAGES = 100
_HOST = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?", re.I)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = "set E2B_API_KEY to a key of your dashboard at e2b.dev, or write it into a file for --env-file"
# The input is a file that is gone once it is open: no program in the machine finds it by name.
_FROM_FILE = 'exec <"$0" && rm -f -- "$0" && exec "$@"'
_REFUSALS = ("invalid_argument", "permission_denied", "unauthenticated", "unimplemented", "not_found")
_SIGNALS = {(signal.strsignal(n) or "").lower(): int(n) for n in signal.valid_signals()}


class _UnknownError(RefusedError):
    """The deployment does not know such a request."""


@dataclass(frozen=True)
class _Place:
    """Where a machine's envd is, and what it must be shown."""

    url: str
    headers: Mapping[str, str] = field(repr=False)


class E2BProvider(told.Provider):
    """The memory of a machine is that of its template: what an order says of it is not asked for."""

    name = "e2b"
    variables: ClassVar[tuple[str, ...]] = ("E2B_API_KEY",)
    cap = 16
    cuts = True

    def __init__(self, values: Mapping[str, str]) -> None:
        self._key = SecretStr(values.get("E2B_API_KEY", "").strip())
        key = self._key.get_secret_value()
        if not (key and key.isascii() and key.isprintable()):
            raise SandboxUnavailableError(f"E2B_API_KEY is {'not usable' if key else 'not set'}; {_KEY}")
        self._domain = values.get("E2B_DOMAIN") or "e2b.app"
        if not _HOST.fullmatch(self._domain):
            raise SandboxUnavailableError("E2B_DOMAIN is not a domain; set it to one such as e2b.app, or leave it out")
        self.address = address(values.get("E2B_API_URL") or f"https://api.{self._domain}", "E2B_API_URL")
        shared = values.get("E2B_SANDBOX_URL")
        self._shared = address(shared, "E2B_SANDBOX_URL") if shared else None
        self._template = values.get("EVALCELL_E2B_TEMPLATE") or "base"
        self._old: set[str] = set()
        """The requests that this deployment knows in version 1 alone."""
        # Two of them, so that nothing that is meant for the one is ever sent to the other.
        self._control = Service("E2B", _judge)
        self._machines = Service("E2B's machine", _judge_machine)

    async def close(self) -> None:
        await self._control.close()
        await self._machines.close()

    async def create(self, order: told.Order) -> Machine:
        body = {
            "templateID": self._template,
            "timeout": order.lifetime,
            "allow_internet_access": order.network,
            "metadata": {**order.tags, "key": order.key},
        }
        if "POST" in self._old and (found := await self.find(order.key)):
            return found  # version 1 would make another
        reply = await self._either("POST", json=body, headers={"Idempotency-Key": order.key})
        return self._machine(document(reply, "E2B"), order.key)

    async def find(self, key: str) -> Machine | None:
        async for row in self._rows({"key": key}):
            if row.get("state", "running") == "running":
                with suppress(GoneError):
                    reply = await self._ask("GET", f"/sandboxes/{_id(row)}")
                    return self._machine(document(reply, "E2B"), key)
        return None

    async def kill(self, id: str) -> None:
        with suppress(GoneError):
            await self._ask("DELETE", f"/sandboxes/{quote(id, safe='')}")

    async def list(self) -> AsyncIterator[told.Found]:
        async for row in self._rows({"owner": told.OWNER}):
            tags = _tags(row)
            yield told.Found(_id(row), tags.get("key", ""), _since(row), tags)

    async def extend(self, machine: Machine, seconds: int) -> None:
        await self._ask("POST", f"/sandboxes/{machine.id}/timeout", json={"timeout": seconds})

    async def cut_network(self, machine: Machine) -> None:
        await self._ask("PUT", f"/sandboxes/{machine.id}/network", json={"allow_internet_access": False})

    async def execute(self, machine: Machine, command: told.Command, hear: told.Hear) -> told.Ended:
        place: _Place = machine.data
        argv = list(command.argv)
        try:
            async with asyncio.timeout(command.timeout + _GRACE) as deadline:
                if command.input:
                    argv = ["/bin/sh", "-c", _FROM_FILE, await self._upload(place, command.input), *argv]
                return await self._run(place, argv, command, hear)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise UnreachableError("E2B: the command did not end in its time, nor was it ended") from None

    async def _upload(self, place: _Place, data: bytes) -> str:
        path = f"/root/.evalcell-{secrets.token_hex(16)}"
        query, sent = {"path": path, "username": "root"}, {"file": ("input", data)}
        try:
            reply = await self._machines.ask(
                "POST", f"{place.url}/files", params=query, headers=place.headers, files=sent
            )
            _done(reply)
        except UnreachableError as e:  # whatever became of the file, nothing was started
            raise UnreachableError(str(e), sent=False, after=e.after) from None
        return path

    async def _run(self, place: _Place, argv: list[str], command: told.Command, hear: told.Hear) -> told.Ended:
        errors, began, started = bytearray(), time.monotonic(), False
        try:
            async with aclosing(self._events(place, argv, command)) as events:
                async for event in events:
                    started, data, end = True, event.get("data"), event.get("end")
                    if isinstance(data, dict):
                        if "stdout" in data:
                            hear(_decoded(data["stdout"]))
                        if "stderr" in data:
                            errors += _decoded(data["stderr"])
                            del errors[: -told.ERRORS]
                    if isinstance(end, dict):
                        code = _code(end)
                        late = code == 128 + signal.SIGKILL and time.monotonic() - began >= command.timeout
                        return told.Ended(None if late else code, errors.decode("utf-8", "replace"))
        except ConnectError as e:
            if e.code == "deadline_exceeded":
                return told.Ended(None, errors.decode("utf-8", "replace"))
            kind = RefusedError if e.code in _REFUSALS and not started else UnreachableError
            raise kind(f"E2B: the command's stream ended with {e}") from None
        raise UnreachableError("E2B: the command's stream ended before the command")

    async def _events(
        self, place: _Place, argv: list[str], command: told.Command
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Those of one Start."""
        process = {"cmd": argv[0], "args": argv[1:], "envs": dict(command.env), "cwd": "/"}
        headers = {
            **place.headers,
            "Content-Type": connect.TYPE,
            "Connect-Protocol-Version": "1",
            "Connect-Timeout-Ms": str(max(1, int(command.timeout * 1000))),
            "Keepalive-Ping-Interval": "20",
        }
        wait = httpx.Timeout(30.0, connect=10.0, read=command.timeout + _GRACE)
        url, body = f"{place.url}/process.Process/Start", connect.envelope({"process": process, "stdin": False})
        async with self._machines.stream("POST", url, headers=headers, content=body, timeout=wait) as reply:
            async for message in connect.messages(self._machines.pieces(_done(reply)), _FRAME):
                if isinstance(event := message.get("event"), dict):
                    yield event

    async def _rows(self, metadata: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The list's rows that have the metadata, which a deployment might not have looked at."""
        # Quoted twice, for it is a query in the query; httpx quotes it once more.
        wanted = urlencode({quote(k): quote(v) for k, v in metadata.items()})
        query = {"metadata": wanted, "limit": "100"}
        for _ in range(_PAGES):
            reply = await self._either("GET", params=query)
            for row in _array(reply):
                if isinstance(row, dict) and metadata.items() <= _tags(row).items():
                    yield row
            following = reply.headers.get("x-next-token")
            if not following:
                return
            query["nextToken"] = following
        raise UnreachableError("E2B: the list of machines does not end")

    async def _either(self, method: str, **sent: Any) -> httpx.Response:
        """Asks `/sandboxes` in version 2; in version 1 where there is no other, which is then remembered."""
        if method not in self._old:
            with suppress(GoneError, _UnknownError):
                return await self._ask(method, "/v2/sandboxes", **sent)
        if "json" in sent:
            sent["json"] = {**sent["json"], "secure": True}
        try:
            reply = await self._ask(method, "/sandboxes", **sent)
        except GoneError as e:
            raise RefusedError(f"{e}; check EVALCELL_E2B_TEMPLATE ({self._template}), and E2B_API_URL") from None
        self._old.add(method)
        return reply

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **sent: Any
    ) -> httpx.Response:
        shown = {**(headers or {}), "X-API-KEY": self._key.get_secret_value()}
        return _done(await self._control.ask(method, self.address + path, headers=shown, **sent))

    def _machine(self, reply: dict[str, Any], key: str) -> Machine:
        """Raises UnreachableError for a reply that would lead elsewhere than to a host, by https."""
        id, domain = _id(reply), reply.get("domain") or self._domain
        if not (isinstance(domain, str) and _HOST.fullmatch(domain)):
            raise UnreachableError("E2B: the reply names no usable domain for the machine")
        headers = {"E2b-Sandbox-Id": id, "E2b-Sandbox-Port": _PORT}
        headers["Authorization"] = f"Basic {base64.b64encode(b'root:').decode()}"
        for name, token in (("X-Access-Token", "envdAccessToken"), ("E2B-Traffic-Access-Token", "trafficAccessToken")):
            if (found := reply.get(token)) is not None:
                if not (isinstance(found, str) and found.isascii() and found.isprintable()):
                    raise UnreachableError("E2B: the reply has no usable token for the machine")
                headers[name] = found
        return Machine(id, key, _Place(self._shared or f"https://{_PORT}-{id}.{domain}", headers))


def _judge(status: int, headers: Mapping[str, str], text: str) -> told.ProviderError | None:
    """The control plane's own failures."""
    said = f"E2B answered {status}: {text}"
    if status == 429 and "maximum number of concurrent" in text:
        return FullError(said)
    if status == 429:
        return BusyError(said, retry_after(headers) or retry_after(headers, "ratelimit-reset"))
    if status in (401, 403):
        return RefusedError(f"{said}; {_KEY}")
    if status == 405:
        return _UnknownError(said)
    if "sandbox_create_refused" in text:
        return RefusedError(said)
    if "idempotency_in_progress" in text or "idempotency_outcome_unknown" in text:
        return UnreachableError(said, after=retry_after(headers))
    return None


def _judge_machine(status: int, headers: Mapping[str, str], text: str) -> told.ProviderError | None:
    """Those of the way to a machine."""
    said = f"E2B's machine answered {status}: {text}"
    if status == 502 and "was not found" in text:
        return GoneError(said)
    if status == 404:
        return RefusedError(f"{said}; check E2B_SANDBOX_URL")
    return None


def _done(reply: httpx.Response) -> httpx.Response:
    if not reply.is_success:  # it leads elsewhere, where nothing of ours is to go
        raise RefusedError(f"E2B answered {reply.status_code}; check E2B_API_URL, E2B_SANDBOX_URL and E2B_DOMAIN")
    return reply


def _id(row: Mapping[str, Any]) -> str:
    found = row.get("sandboxID")
    if not (isinstance(found, str) and _ID.fullmatch(found)):
        raise UnreachableError("E2B: the reply names no machine")
    return found


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    found = row.get("metadata")
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def _since(row: Mapping[str, Any]) -> datetime:
    with suppress(KeyError, TypeError, ValueError):
        found = datetime.fromisoformat(row["startedAt"])
        if found.tzinfo:
            return found
    raise UnreachableError("E2B: the reply does not tell since when a machine runs")


def _array(reply: httpx.Response) -> list[Any]:
    with suppress(ValueError, RecursionError):
        found = reply.json()
        if isinstance(found, list):
            return found
    raise UnreachableError("E2B: the reply is not a JSON array")


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise UnreachableError("E2B: the command's output is unclear") from None


def _code(end: Mapping[str, Any]) -> int:
    """128 + n for signal n, which envd names in words; a code of zero is left out."""
    code, status = end.get("exitCode", 0), str(end.get("status"))
    if end.get("exited") is True and isinstance(code, int):
        return code
    if not status.startswith("signal: "):
        raise UnreachableError("E2B: it is unclear how the command ended")
    name = status.removeprefix("signal: ").removesuffix(" (core dumped)").lower()
    return 128 + _SIGNALS.get(name, int(signal.SIGKILL))


class E2BSandbox(RemoteSandbox):
    """Python scripts on E2B's machines; see docs/backends.md."""

    name = "e2b"
    provider = E2BProvider
