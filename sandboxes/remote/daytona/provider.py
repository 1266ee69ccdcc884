"""Daytona's sandboxes, over its v0 API as the SDK 0.226 does. Experimental: docs/backends.md says what is tested."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
from pydantic import SecretStr

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import provider as base
from sandboxes.remote.daytona import shell
from sandboxes.remote.http import ProviderClient, address, document, retry_after, text
from sandboxes.remote.provider import BusyError, FullError, GoneError, Machine, RefusedError, UnreachableError
from sandboxes.remote.sandbox import RemoteSandbox
from sandboxes.words.text import clean

_GRACE = 30.0  # seconds for the service to end a command after its timeout, and to report it

_FAILED = ("error", "build_failed")
_ENDED = ("destroyed", "destroying", "stopped", "stopping", "archived", "archiving", "paused", "pausing")
_NOT_STARTED = re.compile(r"SANDBOX_NOT_STARTED|sandbox (is )?not (running|started)", re.I)
_FULL = re.compile(r"total .{1,20}(limit|quota) exceeded|sandbox(es)? (limit|quota) (exceeded|reached)", re.I)
_IGNORED = "Daytona leaves a sandbox's network open though it was asked to block it"
_RESTRICTED = re.compile(r"\bnetwork", re.I)
_KEY = "make a key in Daytona's dashboard, under Keys, and set it, here or in an env-file"


class _ConflictError(UnreachableError):
    """409: the name is taken, or another operation on the machine is under way."""


class _OverTimeError(UnreachableError):
    """408: the service ended the command."""


class _RestrictedError(RefusedError):
    """A request that only a higher tier may make, for example about the network."""


class _BrokenError(UnreachableError):
    """The machine was created and will never start."""


class DaytonaProvider(base.Provider):
    """Daytona; a machine's name is the order's key, and unique in an organisation."""

    name = "daytona"
    variables: ClassVar[tuple[str, ...]] = ("DAYTONA_API_KEY",)
    settings = ("DAYTONA_ORGANIZATION_ID", "DAYTONA_TARGET")
    pace = 2.0
    cap = 8

    def __init__(self, values: Mapping[str, str]) -> None:
        key = values.get("DAYTONA_API_KEY", "").strip()
        if not (key and key.isascii() and key.isprintable()):
            raise SandboxUnavailableError(f"DAYTONA_API_KEY {'is not a valid key' if key else 'is not set'}; {_KEY}")
        self._url = address(values.get("DAYTONA_API_URL") or "https://app.daytona.io/api", "DAYTONA_API_URL")
        self.address = base.account_address(self._url, key)
        self._key = SecretStr(key)
        self._organisation = quote(values.get("DAYTONA_ORGANIZATION_ID", "").strip())
        self._target = values.get("DAYTONA_TARGET", "").strip()
        self._restricted = ""
        """Why orders of this organisation may not mention the network."""
        self._service = ProviderClient("Daytona", _map_error)

    async def close(self) -> None:
        await self._service.close()

    async def create(self, order: base.Order) -> Machine:
        minutes = math.ceil(order.lifetime / 60)
        body = {
            "name": order.key,
            "labels": dict(order.tags),
            "ttlMinutes": minutes,
            "autoStopInterval": minutes,  # both for deployments without ttl
            "autoDeleteInterval": 0,
        } | ({"target": self._target} if self._target else {})
        made = await self._ordered(body, order)
        try:
            return await self._started(made, order.key)
        except BusyError as e:  # a BusyError would mean that nothing was created
            raise UnreachableError(str(e), after=e.after) from None
        except (RefusedError, _BrokenError):
            try:
                await self.kill(text(made, "id"))
            except base.ProviderError as e:
                raise UnreachableError(f"{e}; an unusable sandbox may still exist") from None
            raise

    async def _ordered(self, body: dict[str, Any], order: base.Order) -> dict[str, Any]:
        # Some organisations may not mention the network, even to ask for an open one.
        blocks = {} if order.network or self._restricted else {"networkBlockAll": True}
        try:
            return document(await self._ask("POST", json=body | blocks), "Daytona")
        except _ConflictError:
            made = await self._get(order.key)
            if not _ours(made):
                raise
            return made
        except _RestrictedError as e:
            if not blocks:
                raise
            self._restricted = str(e)
            return await self._ordered(body, order)

    async def find(self, key: str) -> Machine | None:
        found = await self._get(key)
        with suppress(GoneError, _BrokenError):
            return await self._started(found, key) if _ours(found) else None
        return None

    async def kill(self, id: str) -> None:
        with suppress(GoneError):
            document(await self._ask("DELETE", id), "Daytona")

    async def list(self) -> AsyncIterator[base.ListedMachine]:
        query = {"labels": json.dumps({"owner": base.OWNER}), "limit": "100"}
        seen: set[str] = set()
        while True:
            page = document(await self._ask("GET", params=query), "Daytona")
            items = page.get("items")
            for row in items if isinstance(items, list) else []:
                if _ours(row) and row.get("state") not in ("destroyed", "destroying"):
                    tags = {k: clean(str(v)) for k, v in row["labels"].items()}
                    yield base.ListedMachine(text(row, "id"), tags.get("key", ""), _since(row), tags)
            cursor = page.get("nextCursor")
            if not cursor:
                return
            if not isinstance(cursor, str) or cursor in seen:
                raise UnreachableError("Daytona: the list of sandboxes does not end")
            seen.add(cursor)
            query["cursor"] = cursor

    async def extend(self, machine: Machine, seconds: int) -> None:
        if (await self._ask("POST", machine.id, "last-activity")).status_code != 201:
            raise UnreachableError("Daytona: the service did not say whether it extended the sandbox's life")
        with suppress(GoneError):  # the machine exists; the deployment has no ttl
            document(await self._ask("POST", machine.id, "ttl", str(math.ceil(seconds / 60))), "Daytona")

    async def cut_network(self, machine: Machine) -> None:
        try:
            reply = await self._ask("POST", machine.id, "network-settings", json={"networkBlockAll": True})
        except GoneError:
            await self._ask("GET", machine.id)  # raises if it is the machine that does not exist
            raise RefusedError(
                "this Daytona service cannot cut a machine's network once packages are installed: it has "
                "no POST /sandbox/ID/network-settings, as newer versions have"
            ) from None
        if document(reply, "Daytona").get("networkBlockAll") is not True:
            raise RefusedError(_IGNORED)

    async def execute(self, machine: Machine, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        return await shell.execute(_Toolbox(machine.data, self._service, self._headers()), command, on_output)

    async def _ask(self, method: str, *parts: str, **sent: Any) -> httpx.Response:
        url = "/".join([self._url, "sandbox", *(quote(part, safe="") for part in parts)])
        return await self._service.ask(method, url, headers=self._headers(), **sent)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self._key.get_secret_value()}",
            "X-Daytona-Source": "evalcell",
            "X-Daytona-SDK-Version": "0.226.1",  # the daemon chooses its formats by this version
        }
        return headers | ({"X-Daytona-Organization-ID": self._organisation} if self._organisation else {})

    async def _get(self, name: str) -> dict[str, Any]:
        """The service's record of the machine; one that is `destroyed` if it is unknown."""
        with suppress(GoneError):
            return document(await self._ask("GET", name), "Daytona")
        return {"state": "destroyed"}

    async def _started(self, found: dict[str, Any], key: str) -> Machine:
        """The machine once it runs. Raises GoneError if it has ended."""
        id, pause, waited = text(found, "id"), 0.1, 0.0  # seconds
        while (state := found.get("state")) != "started":
            if state in _FAILED:
                raise _BrokenError(f"Daytona cannot start it: {clean(str(found.get('errorReason') or state), 300)}")
            if state in _ENDED:
                raise GoneError(f"Daytona: the sandbox is {state}")
            if waited > 300:
                raise UnreachableError("Daytona: the sandbox did not start in five minutes")
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(pause * 1.3, 1.0)
            found = await self._get(id)
        why_online = "" if found.get("networkBlockAll") is True else self._restricted or _IGNORED
        return Machine(id, key, f"{self._toolbox(found)}/{quote(id, safe='')}", why_online)

    def _toolbox(self, found: Mapping[str, Any]) -> str:
        """The address of the machine's toolbox. Raises RefusedError for an address that must not get the key."""
        with suppress(SandboxUnavailableError):
            url = address(text(found, "toolboxProxyUrl"), "toolboxProxyUrl")
            if url.startswith("https:") or self._url.startswith("http:"):
                return url
        raise RefusedError("Daytona's reply names an unsafe toolbox address; check DAYTONA_API_URL")


class _Toolbox:
    """The service inside a machine that runs commands. A command's output arrives as one text when it ends."""

    def __init__(self, url: str, service: ProviderClient, headers: Mapping[str, str]) -> None:
        self._url, self._service, self._headers = url, service, headers

    async def upload(self, files: Mapping[str, bytes]) -> None:
        paths = {f"files[{i}].path": path for i, path in enumerate(files)}
        parts = {f"files[{i}].file": item for i, item in enumerate(files.items())}
        document(await self._ask("POST", "files/bulk-upload", data=paths, files=parts), "Daytona")

    async def run(self, line: str, command: base.Command) -> str | None:
        seconds = math.ceil(command.timeout)
        asked = {"command": line, "timeout": seconds, "envs": dict(command.env)}
        patience = httpx.Timeout(30.0, read=seconds + _GRACE)
        with suppress(_OverTimeError):
            reply = await self._ask("POST", "process/execute", json=asked, timeout=patience)
            return str(document(reply, "Daytona").get("result"))
        return None

    async def read(self, path: str, since: int, most: int) -> bytes:
        part = {"Range": f"bytes={since}-" if since > 0 else f"bytes={since}"} if since else {}
        url, headers = f"{self._url}/files/download", {**self._headers, **part}
        async with self._service.stream("GET", url, params={"path": path}, headers=headers) as reply:
            return await shell.read_range(self._service.pieces(reply), since, most, whole=reply.status_code != 206)

    async def remove(self, folder: str) -> None:
        await self._ask("DELETE", "files", params={"path": folder, "recursive": "true"})

    async def _ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return await self._service.ask(method, f"{self._url}/{path}", headers=self._headers, within=None, **sent)


def _map_error(status: int, headers: Mapping[str, str], words: str) -> base.ProviderError | None:
    answer = f"Daytona answered {status}: {words}"
    if status == 429:
        waits = [retry_after(headers, name) for name in headers if name.lower().startswith("retry-after")]
        return BusyError(answer, max((wait for wait in waits if wait is not None), default=None))
    if status == 408 and "execution timeout" in words:
        return _OverTimeError(answer)
    if status == 409 or "state change in progress" in words:
        return _ConflictError(answer)
    if status in (400, 402, 403) and _FULL.search(words):
        return FullError(f"{answer}; end other sandboxes, or ask for a higher tier")
    if status == 400 and _NOT_STARTED.search(words):
        return GoneError(answer)
    if status in (400, 403) and _RESTRICTED.search(words):
        return _RestrictedError(f"{answer} (Daytona's third tier may)")
    if status in (401, 403):
        return RefusedError(f"{answer}; check that DAYTONA_API_KEY is right and may write and delete sandboxes; {_KEY}")
    return None


def _ours(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("labels"), dict) and row["labels"].get("owner") == base.OWNER


def _since(row: Mapping[str, Any]) -> datetime:
    """When it was created; now if unknown: taking a machine for too young is safer than for too old."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(str(row.get("createdAt"))).astimezone(UTC)
    return datetime.now(UTC)


class DaytonaSandbox(RemoteSandbox):
    name = "daytona"
    provider = DaytonaProvider
