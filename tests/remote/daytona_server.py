"""
A local Daytona, v0 API: `python -m tests.remote.daytona_server`. Facts and sources: docs/backends.md.

Options: `key`, `cap` (machines), `page` (of a list, at most), `minute` (how many seconds it lasts), `tier` (of the
organisation: below the third no order may say anything of the network, nor may that be changed), `network` (False: an
older deployment, which knows no such request).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from aiohttp import web

from tests.remote.daytona_boxes import Box, Boxes, Refused
from tests.remote.daytona_toolbox import Handler, Toolbox
from tests.remote.machine import MachineGone
from tests.remote.serving import Fail, Front, middleware, serve

_KEY = "dtn_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LARGEST = 256 << 20
_DAEMON = ("upload", "start", "download", "remove")


class Control:
    """The control plane: routes below /api."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes

    def routes(self) -> dict[tuple[str, str], Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        one = "sandbox/{id}"
        network = (
            {("POST", f"{one}/network-settings"): self._network} if self._boxes.options.get("network", True) else {}
        )
        return network | {
            ("POST", "sandbox"): self._create,
            ("GET", "sandbox"): self._list,
            ("GET", one): self._with(lambda box, request: None),
            ("DELETE", one): self._with(lambda box, request: box.destroy()),
            ("POST", f"{one}/start"): self._with(lambda box, request: box.start()),
            ("POST", f"{one}/stop"): self._with(lambda box, request: box.stop()),
            ("POST", f"{one}/ttl/{{minutes}}"): self._with(lambda box, request: box.live_for(_minutes(request))),
            ("POST", f"{one}/autostop/{{minutes}}"): self._with(_auto_stop),
            ("POST", f"{one}/last-activity"): self._active,
            ("PUT", f"{one}/labels"): self._labels,
            ("GET", f"{one}/toolbox-proxy-url"): self._proxy,
        }

    async def _create(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if not isinstance(asked, dict):
            raise Refused(400, "an object is needed")
        return _told(self._boxes.create(asked), request)

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

    async def _labels(self, request: web.Request) -> web.StreamResponse:
        box = self._box(request)
        box.labels = (await request.json())["labels"]
        if box.machine:
            box.machine.tags = dict(box.labels)
        return web.json_response({"labels": box.labels})

    async def _proxy(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"url": self._box(request).told(_origin(request))["toolboxProxyUrl"]})


def _auto_stop(box: Box, request: web.Request) -> None:
    box.auto_stop = _minutes(request)


def _minutes(request: web.Request) -> int:
    minutes = request.match_info["minutes"]
    if not minutes.isdecimal():
        raise Refused(400, "Validation failed (numeric string is expected)")
    return int(minutes)


def _told(box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response(box.told(_origin(request)))


def _origin(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"


def _op(request: web.Request) -> str:
    method, (_, *parts) = request.method, request.path.split("/")
    if parts[0] == "toolbox":
        what = "/".join(parts[2:4])
        known = {"process/execute": "start", "files": "remove"}
        return known.get(what) or ("upload" if "upload" in what else "download" if "download" in what else "about")
    if len(parts) == 2:
        return "create" if method == "POST" else "list"
    if len(parts) == 3:
        return "kill" if method == "DELETE" else "get" if _ID.fullmatch(parts[2]) else "find"
    known = {"ttl": "extend", "autostop": "extend", "last-activity": "extend", "network-settings": "network"}
    return known.get(parts[3], parts[3])


def _failure(fail: Fail) -> web.StreamResponse:
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


def _errors(key: str) -> Any:
    """Whatever is refused, in the form of who refuses it; and who asks at all."""

    @web.middleware
    async def body(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path.startswith("/_control"):
            return await handler(request)
        inside = request.path.startswith("/toolbox/")
        try:
            if request.headers.get("Authorization") != f"Bearer {key}":
                raise Refused(401, "Invalid credentials")
            return await handler(request)
        except Refused as e:
            if inside:
                return _daemon_error(e.status, str(e), "", request.path)
            return _control_error(e.status, str(e))
        except ConnectionResetError:  # nobody waits for an answer
            return web.Response()
        except web.HTTPException as e:
            return _control_error(e.status, f"Cannot {request.method} {request.path}")

    return body


def _in_box(boxes: Boxes, work: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            box = boxes.get(request.match_info["id"])
        except Refused as e:
            return _daemon_error(404, str(e), "SANDBOX_NOT_FOUND", request.path)
        if box.state != "started" or box.machine is None:
            message = "sandbox is not running — start the sandbox before accessing it"
            return _daemon_error(400, message, "SANDBOX_NOT_STARTED", request.path)
        box.active = datetime.now(UTC)
        try:
            return await work(request, box, box.machine)
        except MachineGone as e:
            return _daemon_error(502, f"runner is unreachable: {e}", "RUNNER_UNREACHABLE", request.path)
        except FileNotFoundError as e:
            raise Refused(404, f"stat {e.filename}: no such file or directory") from None
        except OSError as e:
            raise Refused(400, str(e)) from None
        finally:
            box.active = datetime.now(UTC)

    return answer


async def build(front: Front) -> web.Application:
    key = str(front.options.get("key", _KEY))
    front.environment = lambda url: {"DAYTONA_API_KEY": key, "DAYTONA_API_URL": f"{url}/api", "DAYTONA_TARGET": "us"}
    front.failure = _failure
    boxes = Boxes(front)
    application = web.Application(middlewares=[middleware(front, _op), _errors(key)], client_max_size=_LARGEST)
    for (method, path), control in Control(boxes).routes().items():
        application.router.add_route(method, f"/api/{path}", control)
    for (method, path), tool in Toolbox(front).routes().items():
        application.router.add_route(method, f"/toolbox/{{id}}/{path}", _in_box(boxes, tool))
    return application


if __name__ == "__main__":
    asyncio.run(serve(build))
