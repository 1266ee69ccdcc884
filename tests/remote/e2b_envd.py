"""
The part of the local E2B that speaks for a machine: files and processes, as envd 0.6 does it behind E2B's proxy.

What is special about it was seen on the real envd: a deadline kills the process that was started and none of its
children; a client that goes away stops nothing; the end is told when all who hold stdout and stderr have closed them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable
from email.message import Message
from typing import Any

from aiohttp import BodyPartReader, web

from tests.remote import room
from tests.remote.e2b_processes import Event, Running, lost
from tests.remote.faults import Cut, Front
from tests.remote.machine import Machine, MachineGone
from tests.remote.serving import Route

PORT = "49983"
# envd starts every program through a shell, which is why one that is not there ends with 127.
_SHELL = ("/bin/sh", "-c", 'exec "$@"', "sh")


class Envd:
    """All machines' daemons, behind one address."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._tasks: set[asyncio.Task[None]] = set()

    def routes(self) -> Iterable[Route]:
        yield "upload", "POST", "/files", self.upload
        yield "start", "POST", "/process.Process/Start", self.process

    def _machine(self, request: web.Request, *, guarded: bool = True) -> Machine:
        """The proxy's work, then envd's check of who asks."""
        headers = request.headers
        id, port = headers.get("E2b-Sandbox-Id", ""), headers.get("E2b-Sandbox-Port", PORT)
        if not id:
            port, _, id = request.host.partition(".")[0].partition("-")
        try:
            machine = self._front.machines.get(id)
        except MachineGone:
            raise _answer(502, {"sandboxId": id, "message": "The sandbox was not found", "code": 502}) from None
        if port != PORT:
            told = {"sandboxId": id, "message": "The sandbox is running but port is not open", "port": port}
            raise _answer(502, {**told, "code": 502})
        private = machine.data["traffic"]
        if private and headers.get("E2B-Traffic-Access-Token") != private:
            raise _answer(403, {"sandboxId": id, "message": "The traffic access token is wrong", "code": 403})
        token = machine.data["token"]
        if guarded and token and headers.get("X-Access-Token") != token:
            raise _answer(401, {"code": 401, "message": "unauthorized access, please provide a valid access token"})
        return machine

    async def upload(self, request: web.Request) -> web.StreamResponse:
        machine, user, written = self._machine(request), _user(request), []
        async for name, data in _parts(request):
            path = _path(request.query.get("path") or name, user)
            try:
                await machine.write(path, data, user)
            except OSError as e:
                raise _answer(400, {"code": 400, "message": f"path '{path}': {e.strerror}"}) from None
            written.append({"name": path.rpartition("/")[2], "path": path, "type": "file"})
        return web.json_response(written)

    async def process(self, request: web.Request) -> web.StreamResponse:
        machine, wanted = self._machine(request), "application/connect+json"
        if request.content_type != wanted:
            return web.Response(status=415, headers={"Accept-Post": wanted})
        return await self._stream(request, machine)

    async def _stream(self, request: web.Request, machine: Machine) -> web.StreamResponse:
        body = await request.read()
        asked = json.loads(body[5:]) if body[:1] == b"\0" and int.from_bytes(body[1:5]) == len(body) - 5 else None
        if not isinstance(asked, dict):
            return web.Response(status=400)
        every = float(request.headers.get("Keepalive-Ping-Interval", 90))
        user = _user(request)  # where it is unknown, there is no stream
        try:
            running = await self._started(machine, asked, user, request.headers.get("Connect-Timeout-Ms"))
            events = running.events(every)
        except FileNotFoundError as e:
            events = _only("invalid_argument", f"cwd '{e.filename}' does not exist")
        response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        await response.prepare(request)
        op, number, end = "start", 0, Event()
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    number += 1
                    await self._front.frame(op, number, machine)
                    end = event if "error" in event else end if machine.alive else {"error": lost(machine)}
                    if end:
                        break
                    await response.write(_frame(0, event))
            if not end:
                await self._front.frame(op, number + 1, machine)
            await response.write(_frame(2, end))
            await response.write_eof()
        except ConnectionError:
            raise Cut from None
        return response

    async def _started(self, machine: Machine, asked: dict[str, Any], user: str, deadline: str | None) -> Running:
        config = asked["process"]
        argv = [*_SHELL, config["cmd"], *config.get("args", [])]
        env = {**machine.data["variables"], **config.get("envs", {})}
        cwd = _path(config["cwd"], user) if config.get("cwd") else _home(user)
        process = await machine.start_program(
            argv, env=env, cwd=cwd, user=user, stdin=asked.get("stdin", True) is not False
        )
        running = Running(machine, process)
        pump = self._task(running.pump())
        if deadline:
            late = self._task(running.expire(int(deadline) / 1000))
            pump.add_done_callback(lambda _: late.cancel())
        return running

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _only(code: str, message: str) -> AsyncGenerator[Event, None]:
    yield {"error": {"code": code, "message": message}}


def _user(request: web.Request) -> str:
    """By Basic, or in the query; the template's own where neither is."""
    name = request.query.get("username", "")
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind == "Basic":
        name = base64.b64decode(value).decode().partition(":")[0] or name
    name = name or room.USER
    if name not in (room.USER, "root"):
        told = {"code": "unauthenticated", "message": f"invalid username: '{name}'"}
        raise _answer(401, told)
    return name


def _home(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def _path(path: str, user: str) -> str:
    return path if path.startswith("/") else f"{_home(user)}/{path}"


async def _parts(request: web.Request) -> AsyncIterator[tuple[str, bytes]]:
    """Names, which may be empty, and contents."""
    if request.content_type == "application/octet-stream":
        yield "", await request.read()
    elif request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.name == "file":
                # aiohttp's own filename is without its folders.
                told = Message()
                told["Content-Disposition"] = part.headers.get("Content-Disposition", "")
                yield told.get_filename() or "", bytes(await part.read())
    else:
        raise _answer(400, {"code": 400, "message": "the content type must be multipart/form-data"})


def _frame(flag: int, document: Event) -> bytes:
    body = json.dumps(document, separators=(",", ":")).encode()
    return struct.pack(">BI", flag, len(body)) + body


def _answer(status: int, document: dict[str, Any]) -> web.HTTPException:
    class Answer(web.HTTPException):
        status_code = status

    return Answer(text=json.dumps(document), content_type="application/json")
