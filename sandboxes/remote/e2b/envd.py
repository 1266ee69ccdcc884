"""envd, the service in a machine of E2B: upload a file, start a program, read its output until it ends."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from sandboxes.remote import provider as base
from sandboxes.remote.e2b import connect_protocol
from sandboxes.remote.e2b.connect_protocol import ConnectError
from sandboxes.remote.http import ProviderClient
from sandboxes.remote.provider import GoneError, RefusedError, UnreachableError

PORT = "49983"
_FRAME = 1 << 20  # bytes; envd's own are below 64 KB
_GRACE = 30.0  # seconds for envd to end a command after its timeout, and to report it
# The input file is deleted once it is open, so that no program in the machine finds it by name.
_FROM_FILE = 'exec <"$0" && rm -f -- "$0" && exec "$@"'
_REFUSALS = ("invalid_argument", "permission_denied", "unauthenticated", "unimplemented", "not_found")
_KILL = 9
# Linux's, in Go's words (syscall.Signal.String); this host may be another system, with other numbers and words.
_WORDS = (
    *("hangup", "interrupt", "quit", "illegal instruction", "trace/breakpoint trap", "aborted", "bus error"),
    *("floating point exception", "killed", "user defined signal 1", "segmentation fault", "user defined signal 2"),
    *("broken pipe", "alarm clock", "terminated"),
)
_SIGNALS = {name: number for number, name in enumerate(_WORDS, 1)}
_ROOT = f"Basic {base64.b64encode(b'root:').decode()}"


@dataclass(frozen=True)
class Endpoint:
    """The address of a machine's envd, and the tokens for it and for the proxy before it."""

    url: str
    tokens: Mapping[str, str] = field(repr=False)


class Envd:
    """The connection to all machines of an account. It never has the account's key."""

    def __init__(self) -> None:
        self._service = ProviderClient("E2B's machine", _map_error)

    async def close(self) -> None:
        await self._service.close()

    async def execute(self, endpoint: Endpoint, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        """Run a command as Provider.execute does."""
        argv = list(command.argv)
        try:
            async with asyncio.timeout(command.timeout + _GRACE) as deadline:
                if command.input:
                    argv = ["/bin/sh", "-c", _FROM_FILE, await self._upload(endpoint, command.input), *argv]
                return await self._run(endpoint, argv, command, on_output)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise UnreachableError("E2B: the command did not end in time, and the service did not end it") from None

    async def _upload(self, endpoint: Endpoint, data: bytes) -> str:
        path = f"/root/.evalcell-{secrets.token_hex(16)}"
        query, headers = {"path": path, "username": "root"}, {**endpoint.tokens, "Authorization": _ROOT}
        sent: dict[str, Any] = {"params": query, "headers": headers, "files": {"file": ("input", data)}}
        try:
            await self._service.ask("POST", f"{endpoint.url}/files", within=None, **sent)
        except UnreachableError as e:  # whatever happened to the file, nothing was started
            raise UnreachableError(str(e), sent=False, after=e.after) from None
        return path

    async def _run(
        self, endpoint: Endpoint, argv: list[str], command: base.Command, on_output: base.OnOutput
    ) -> base.CommandResult:
        errors, began, started = bytearray(), time.monotonic(), False
        try:
            async with aclosing(self._events(endpoint, argv, command)) as events:
                async for event in events:
                    started, data, end = True, event.get("data"), event.get("end")
                    if isinstance(data, dict):
                        if "stdout" in data:
                            on_output(_decoded(data["stdout"]))
                        if "stderr" in data:
                            errors += _decoded(data["stderr"])
                            del errors[: -base.ERRORS]
                    if isinstance(end, dict):
                        code = _code(end)
                        late = code == 128 + _KILL and time.monotonic() - began >= command.timeout
                        return base.CommandResult(None if late else code, errors.decode("utf-8", "replace"))
        except ConnectError as e:
            if e.code == "deadline_exceeded":
                return base.CommandResult(None, errors.decode("utf-8", "replace"))
            kind = RefusedError if e.code in _REFUSALS and not started else UnreachableError
            raise kind(f"E2B: the command's stream ended with {e}") from None
        raise UnreachableError("E2B: the command's stream ended before the command")

    async def _events(
        self, endpoint: Endpoint, argv: list[str], command: base.Command
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of one Start request."""
        process = {"cmd": argv[0], "args": argv[1:], "envs": dict(command.env), "cwd": "/"}
        headers = {
            **endpoint.tokens,
            "Authorization": _ROOT,
            "Content-Type": connect_protocol.TYPE,
            "Connect-Protocol-Version": "1",
            "Connect-Timeout-Ms": str(max(1, int(command.timeout * 1000))),
            "Keepalive-Ping-Interval": "20",
        }
        wait = httpx.Timeout(30.0, connect=10.0, read=command.timeout + _GRACE)
        url, body = (
            f"{endpoint.url}/process.Process/Start",
            connect_protocol.envelope({"process": process, "stdin": False}),
        )
        async with (
            self._service.stream("POST", url, headers=headers, content=body, timeout=wait) as reply,
            aclosing(connect_protocol.messages(self._service.pieces(reply), _FRAME)) as messages,
        ):
            async for message in messages:
                if isinstance(event := message.get("event"), dict):
                    yield event


def _map_error(status: int, headers: Mapping[str, str], text: str) -> base.ProviderError | None:
    said = f"E2B's machine answered {status}: {text}"
    if status == 502 and "was not found" in text:
        return GoneError(said)
    if status == 404:
        return RefusedError(f"{said}; check E2B_SANDBOX_URL and E2B_DOMAIN")
    return None


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise UnreachableError("E2B: the command's output is invalid") from None


def _code(end: Mapping[str, Any]) -> int:
    """The exit code: 128 + n for signal n, which envd names in words; it leaves out a code of 0."""
    code, status = end.get("exitCode", 0), str(end.get("status"))
    if end.get("exited") is True and isinstance(code, int):
        return code
    if not status.startswith("signal: "):
        raise UnreachableError("E2B: the command's exit status is invalid")
    name = status.removeprefix("signal: ").removesuffix(" (core dumped)").lower()
    return 128 + _SIGNALS.get(name, _KILL)
