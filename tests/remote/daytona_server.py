"""
A local Daytona, v0 API: `python -m tests.remote.daytona_server`. Facts and sources: docs/backends.md.

Options: `key`, `cap` (machines), `page` (of a list, at most), `minute` (how many seconds it lasts), `tier` (of the
organisation: below the third no order may say anything of the network, nor may that be changed), `network` (False: an
older deployment, which knows no such request).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from aiohttp import web

from tests.remote.daytona_boxes import Box, Boxes
from tests.remote.daytona_toolbox import Tool, Toolbox
from tests.remote.faults import Fail, Front
from tests.remote.machine import MachineGone
from tests.remote.serving import Api, Handler, Refused, Route, document, serve

_KEY = "dtn_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DAEMON = ("upload", "start", "download", "remove")


class Daytona(Api):
    """The control plane, below /api, and the daemons of the boxes, below /toolbox."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._key = str(front.options.get("key", _KEY))
        self._boxes = Boxes(front)

    def environment(self, url: str) -> dict[str, str]:
        return {"DAYTONA_API_KEY": self._key, "DAYTONA_API_URL": f"{url}/api", "DAYTONA_TARGET": "us"}

    def routes(self) -> Iterable[Route]:
        every, one = "/api/sandbox", "/api/sandbox/{id}"
        yield "create", "POST", every, self._create
        yield "list", "GET", every, self._list
        yield "get", "GET", one, self._with(lambda box, request: None)
        yield "kill", "DELETE", one, self._with(lambda box, request: box.destroy())
        yield (
            "extend",
            "POST",
            f"{one}/ttl/{{minutes}}",
            self._with(lambda box, request: box.live_for(_minutes(request))),
        )
        yield "extend", "POST", f"{one}/last-activity", self._active
        yield "toolbox-proxy-url", "GET", f"{one}/toolbox-proxy-url", self._proxy
        if self.front.options.get("network", True):
            yield "network", "POST", f"{one}/network-settings", self._network
        for op, method, path, tool in Toolbox(self.front).routes():
            yield op, method, f"/toolbox/{{id}}/{path}", _in_box(self._boxes, tool)

    def op(self, request: web.Request) -> str:
        op = super().op(request)
        return "find" if op == "get" and not _ID.fullmatch(request.match_info["id"]) else op

    def admit(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {self._key}":
            raise Refused(401, "Invalid credentials")

    def refusal(self, request: web.Request, refused: Refused) -> web.StreamResponse:
        if request.path.startswith("/toolbox/"):
            return _daemon_error(refused.status, str(refused), refused.code, request.path)
        return _control_error(refused.status, str(refused))

    def unrouted(self, request: web.Request, error: web.HTTPException) -> Refused:
        return Refused(error.status, f"Cannot {request.method} {request.path}")

    def failure(self, fail: Fail) -> web.StreamResponse:
        op = str(fail).partition(":")[0]
        if fail.kind == "rate":
            seconds = f"{fail.after if fail.after is not None else 1:g}"
            name = "sandbox-create" if op == "create" else "authenticated"
            headers = {f"X-RateLimit-{what}-{name}": value for what, value in (("Limit", "300"), ("Remaining", "0"))}
            headers |= {f"X-RateLimit-Reset-{name}": seconds, f"Retry-After-{name}": seconds}
            return _control_error(429, "ThrottlerException: Too Many Requests", headers)
        if fail.kind == "full":
            return _control_error(400, "Total CPU limit exceeded. Maximum allowed: 10.")
        if op in _DAEMON:
            return _daemon_error(fail.status, fail.text, fail.code, "", fail.headers)
        return _control_error(fail.status, fail.text, fail.headers)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        return _told(self._boxes.create(await document(request)), request)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        limit = query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= 200:
            raise Refused(400, "limit must not be greater than 200")
        page, cursor = self._boxes.page(query.get("labels", ""), query.get("cursor", ""), int(limit))
        items = [box.told(_origin(request)) for box in page]
        return web.json_response({"items": items, "nextCursor": cursor})

    def _box(self, request: web.Request) -> Box:
        return self._boxes.get(request.match_info["id"])

    def _with(self, work: Callable[[Box, web.Request], Awaitable[None] | None]) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            box = self._box(request)
            doing = work(box, request)
            if doing is not None:
                await doing
            return _told(box, request)

        return answer

    async def _active(self, request: web.Request) -> web.StreamResponse:
        self._box(request).active = datetime.now(UTC)
        return web.Response(status=201)

    async def _network(self, request: web.Request) -> web.StreamResponse:
        box, asked = self._box(request), await request.json()
        if not isinstance(asked.get("networkBlockAll"), bool):
            raise Refused(400, "networkBlockAll must be a boolean value")
        self._boxes.may_tell_network(asked)
        box.block(asked["networkBlockAll"])
        return _told(box, request)

    async def _proxy(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"url": self._box(request).told(_origin(request))["toolboxProxyUrl"]})


def _minutes(request: web.Request) -> int:
    minutes = request.match_info["minutes"]
    if not minutes.isdecimal():
        raise Refused(400, "Validation failed (numeric string is expected)")
    return int(minutes)


def _told(box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response(box.told(_origin(request)))


def _origin(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"


def _control_error(status: int, message: str, headers: dict[str, str] | None = None) -> web.StreamResponse:
    body = {"path": "/api", "timestamp": _now(), "statusCode": status, "error": _phrase(status), "message": message}
    return web.json_response(body, status=status, headers=headers)


def _daemon_error(
    status: int, message: str, code: str, path: str, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    body = {"statusCode": status, "message": message, "code": code, "timestamp": _now(), "path": path}
    source = "DAYTONA_PROXY" if code.startswith(("SANDBOX_", "RUNNER_")) else "DAYTONA_DAEMON"
    return web.json_response({**body, "source": source}, status=status, headers=headers)


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _in_box(boxes: Boxes, work: Tool) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        box = boxes.get(request.match_info["id"], "SANDBOX_NOT_FOUND")
        if box.state != "started" or box.machine is None:
            raise Refused(400, "sandbox is not running — start the sandbox before accessing it", "SANDBOX_NOT_STARTED")
        box.active = datetime.now(UTC)
        try:
            return await work(request, box, box.machine)
        except MachineGone as e:
            raise Refused(502, f"runner is unreachable: {e}", "RUNNER_UNREACHABLE") from None
        except FileNotFoundError as e:
            raise Refused(404, f"stat {e.filename}: no such file or directory") from None
        except OSError as e:
            raise Refused(400, str(e)) from None
        finally:
            box.active = datetime.now(UTC)

    return answer


if __name__ == "__main__":
    asyncio.run(serve(Daytona.build))
