"""E2B, or a server with its API: the control plane in versions 2 and 1; envd runs commands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import SecretStr

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import provider as base
from sandboxes.remote.e2b.envd import PORT, Endpoint, Envd
from sandboxes.remote.http import ProviderClient, address, document, retry_after
from sandboxes.remote.provider import BusyError, FullError, GoneError, Machine, RefusedError, UnreachableError
from sandboxes.remote.sandbox import RemoteSandbox

_PAGES = 100
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{1,200}}$)({_LABEL}\.)+(?=[a-z]){_LABEL}", re.IGNORECASE | re.ASCII)
_ID = re.compile("[A-Za-z0-9-]{1,50}")
_KEY = "set E2B_API_KEY to a key of your dashboard at e2b.dev, here or in an env-file"
_TOKENS = {"X-Access-Token": "envdAccessToken", "E2B-Traffic-Access-Token": "trafficAccessToken"}


class _ConflictError(UnreachableError):
    """Another operation on the machine is under way, such as its end."""


class _UnknownError(RefusedError):
    """The deployment does not know this request."""


class E2BProvider(base.Provider):
    """E2B; a machine has the memory of its template, whatever the order says."""

    name = "e2b"
    variables: ClassVar[tuple[str, ...]] = ("E2B_API_KEY",)
    settings = ("EVALCELL_E2B_TEMPLATE",)
    cap = 16  # of 20 on the smallest plan

    def __init__(self, values: Mapping[str, str]) -> None:
        key = values.get("E2B_API_KEY", "").strip()
        if not (key and key.isascii() and key.isprintable()):
            raise SandboxUnavailableError(f"E2B_API_KEY is {'not a valid key' if key else 'not set'}; {_KEY}")
        self._key = SecretStr(key)
        self._domain = values.get("E2B_DOMAIN") or "e2b.app"
        if not _DOMAIN.fullmatch(self._domain):
            raise SandboxUnavailableError("E2B_DOMAIN is not a domain; set it to one such as e2b.app, or unset it")
        self._url = address(values.get("E2B_API_URL") or f"https://api.{self._domain}", "E2B_API_URL")
        self.address = base.account_address(self._url, key)
        shared = values.get("E2B_SANDBOX_URL")
        self._shared = address(shared, "E2B_SANDBOX_URL") if shared else None
        self._template = values.get("EVALCELL_E2B_TEMPLATE") or "base"
        self._old: set[str] = set()
        """The methods of `/sandboxes` that this deployment knows in version 1 only."""
        self._service = ProviderClient("E2B", _map_error)
        self._envd = Envd()

    async def close(self) -> None:
        await self._service.close()
        await self._envd.close()

    async def create(self, order: base.Order) -> Machine:
        body = {
            "templateID": self._template,
            "timeout": order.lifetime,
            "allow_internet_access": order.network,
            "metadata": {**order.tags, "key": order.key},
        }
        if "POST" in self._old and (found := await self.find(order.key)):
            return found  # version 1 would create another one
        reply = await self._either("POST", json=body, headers={"Idempotency-Key": order.key})
        return self._machine(document(reply, "E2B"), order.key)

    async def find(self, key: str) -> Machine | None:
        async for row in self._rows({"key": key}):
            if row.get("state", "running") == "running":
                with suppress(GoneError, _ConflictError):
                    # The only request that returns all tokens again; it never shortens a life.
                    reply = await self._ask("POST", f"/sandboxes/{_id(row)}/connect", json={"timeout": 60})
                    return self._machine(document(reply, "E2B"), key)
        return None

    async def kill(self, id: str) -> None:
        await self._do("DELETE", f"/sandboxes/{quote(id, safe='')}")

    async def list(self) -> AsyncIterator[base.ListedMachine]:
        async for row in self._rows({"owner": base.OWNER}):
            tags = _tags(row)
            yield base.ListedMachine(_id(row), tags.get("key", ""), _since(row), tags)

    async def extend(self, machine: Machine, seconds: int) -> None:
        await self._do("POST", f"/sandboxes/{machine.id}/timeout", json={"timeout": seconds})

    async def cut_network(self, machine: Machine) -> None:
        try:
            await self._do("PUT", f"/sandboxes/{machine.id}/network", json={"allow_internet_access": False})
        except (GoneError, _UnknownError):
            await self._ask("GET", f"/sandboxes/{machine.id}")  # raises if it is the machine that does not exist
            raise RefusedError(
                "this E2B service cannot cut a machine's network once packages are installed: it has "
                "no PUT /sandboxes/ID/network, as newer versions have"
            ) from None

    async def execute(self, machine: Machine, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        return await self._envd.execute(machine.data, command, on_output)

    async def _rows(self, metadata: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The rows of the list that have the metadata; a deployment might ignore the filter."""
        # Quoted here as it is a query in the query; httpx quotes it once more.
        wanted = urlencode({quote(k): quote(v) for k, v in metadata.items()})
        query = {"metadata": wanted, "limit": "100"}
        for _ in range(_PAGES):
            reply = await self._either("GET", params=query)
            for row in _array(reply):
                if metadata.items() <= _tags(row).items():
                    yield row
            following = reply.headers.get("x-next-token")
            if not following:
                return
            query["nextToken"] = following
        raise UnreachableError("E2B: the list of machines does not end")

    async def _either(self, method: str, **sent: Any) -> httpx.Response:
        """Ask `/sandboxes` in version 2, or in version 1 if the deployment lacks it, which is remembered."""
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
        return await self._service.ask(method, self._url + path, headers=shown, **sent)

    async def _do(self, method: str, path: str, **sent: Any) -> None:
        """Send a request whose successful reply is empty; any text means that another service answers."""
        reply = await self._ask(method, path, **sent)
        if reply.status_code != 204 and reply.content:
            raise UnreachableError(f"E2B: the reply to {method} {path} does not look like E2B's")

    def _machine(self, reply: dict[str, Any], key: str) -> Machine:
        """The machine in a reply. Raises UnreachableError for an address that is not a host's, by https."""
        id, domain = _id(reply), reply.get("domain") or self._domain
        if not (isinstance(domain, str) and _DOMAIN.fullmatch(domain)):
            raise UnreachableError("E2B: the reply has no valid domain for the machine")
        headers = {"E2b-Sandbox-Id": id, "E2b-Sandbox-Port": PORT}
        for header, name in _TOKENS.items():
            if (token := reply.get(name)) is not None:
                if not (isinstance(token, str) and token.isascii() and token.isprintable()):
                    raise UnreachableError("E2B: the reply has no valid token for the machine")
                headers[header] = token
        return Machine(id, key, Endpoint(self._shared or f"https://{PORT}-{id}.{domain}", headers))


def _map_error(status: int, headers: Mapping[str, str], text: str) -> base.ProviderError | None:
    said = f"E2B answered {status}: {text}"
    if status == 429 and "maximum number of concurrent" in text:
        return FullError(said)
    if status == 429:
        return BusyError(said, retry_after(headers) or retry_after(headers, "ratelimit-reset"))
    if status in (401, 403):
        return RefusedError(f"{said}; {_KEY}")
    if status == 405 or (status == 400 and "method not allowed" in text.lower()):  # E2B's own code answers the latter
        return _UnknownError(said)
    if "sandbox_create_refused" in text:
        return RefusedError(said)
    if "idempotency_in_progress" in text or "idempotency_outcome_unknown" in text:
        return UnreachableError(said, after=retry_after(headers))
    return _ConflictError(said) if status == 409 and "idempotency" not in text else None


def _id(row: Mapping[str, Any]) -> str:
    found = row.get("sandboxID")
    if not (isinstance(found, str) and _ID.fullmatch(found)):
        raise UnreachableError("E2B: the reply has no machine id")
    return found


def _tags(row: Any) -> dict[str, str]:
    found = row.get("metadata") if isinstance(row, dict) else None
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def _since(row: Mapping[str, Any]) -> datetime:
    with suppress(KeyError, TypeError, ValueError):
        found = datetime.fromisoformat(row["startedAt"])
        if found.tzinfo:
            return found
    raise UnreachableError("E2B: the reply has no start time for a machine")


def _array(reply: httpx.Response) -> tuple[Any, ...]:
    with suppress(ValueError, RecursionError):
        found = reply.json()
        if isinstance(found, list):
            return tuple(found)
    raise UnreachableError("E2B: the reply is not a JSON array")


class E2BSandbox(RemoteSandbox):
    """Scripts on E2B's machines; see docs/backends.md."""

    name = "e2b"
    provider = E2BProvider
