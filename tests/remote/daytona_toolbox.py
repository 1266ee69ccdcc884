from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import PurePosixPath

from aiohttp import BodyPartReader, web

from tests.remote.daytona_boxes import Box
from tests.remote.faults import Front
from tests.remote.machine import Machine, MachineGone, Process
from tests.remote.room import USER
from tests.remote.serving import Refused, document

_CHUNK = 64 * 1024

Tool = Callable[[web.Request, Box, Machine], Awaitable[web.StreamResponse]]


class Toolbox:
    """The routes below /toolbox/{sandbox}. Programs run as an ordinary user, as in Daytona's own images."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> Iterable[tuple[str, str, str, Tool]]:
        yield "start", "POST", "process/execute", self._execute
        yield "upload", "POST", "files/bulk-upload", self._bulk_upload
        yield "download", "GET", "files/download", self._download
        yield "remove", "DELETE", "files", self._remove
        yield "about", "GET", "user-home-dir", self._home

    async def _execute(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        asked = await document(request)
        if not asked.get("command"):
            raise Refused(400, "command is required")
        text = asked["command"].encode() + b"\n"
        env = {**box.env, **(asked.get("envs") or {})}
        try:
            process = await machine.start_program(["/bin/bash"], env=env, cwd=asked.get("cwd"), user=USER, merge=True)
        except OSError as e:
            return web.json_response({"exitCode": -1, "result": str(e)})
        running = asyncio.create_task(_output(process, text))
        await self._front.frame("start", 1, machine)
        try:
            async with asyncio.timeout(asked.get("timeout") or None):
                output = await asyncio.shield(running)
        except TimeoutError:
            await process.kill(group=True)
            raise Refused(408, "command execution timeout") from None
        await self._front.frame("start", 2, machine)
        return web.json_response({"exitCode": await process.wait(), "result": output.decode("utf-8", "replace")})

    async def _bulk_upload(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        paths: dict[str, str] = {}
        files, errors = [], []
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            index, _, what = (part.name or "").removeprefix("files[").partition("].")
            content = bytes(await part.read())
            if what == "path":
                paths[index] = content.decode().strip()
            elif what == "file" and index in paths:
                path = _absolute(paths[index], machine)
                await machine.write(path, content, USER)
                files.append({"path": path, "bytes": len(content)})
            else:
                errors.append(f"file[{index}]: missing .path metadata")
        return web.json_response(
            {"files": files, "errors": errors} if errors else {"files": files}, status=400 if errors else 200
        )

    async def _download(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        content = await machine.read(_path(request, machine))
        status, part = _part(request.headers.get("Range", ""), content)
        answer = web.StreamResponse(status=status, headers={"Content-Type": "application/octet-stream"})
        answer.content_length = len(part)
        await answer.prepare(request)
        for number, at in enumerate(range(0, len(part), _CHUNK), 1):
            await self._front.frame("download", number, machine)
            await answer.write(part[at : at + _CHUNK])
        await answer.write_eof()
        return answer

    async def _remove(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        words = ["rm", "-r" if request.query.get("recursive") == "true" else "--", _path(request, machine)]
        process = await machine.start_program(words, user=USER, merge=True)
        output = await _output(process, b"")
        if await process.wait():
            raise Refused(400, output.decode().strip())
        return web.Response(status=204)

    async def _home(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        return web.json_response({"dir": machine.home})


async def _output(process: Process, text: bytes) -> bytes:
    with contextlib.suppress(BrokenPipeError):
        await process.write(text)
    await process.close_stdin()
    output = await process.stdout.read()
    with contextlib.suppress(MachineGone):
        await process.wait()
    return output


def _path(request: web.Request, machine: Machine) -> str:
    if not request.query.get("path"):
        raise Refused(400, "path is required")
    return _absolute(request.query["path"], machine)


def _absolute(path: str, machine: Machine) -> str:
    return str(PurePosixPath(machine.home, path))


def _part(asked: str, content: bytes) -> tuple[int, bytes]:
    """A status and what of the content it is for; a range has an end or none, or counts from the content's end."""
    first, dash, last = asked.removeprefix("bytes=").partition("-")
    if not dash or not content:
        return 200, content
    if not first:
        return 206, content[-int(last) :]
    if int(first) >= len(content):
        raise Refused(416, "invalid range: failed to overlap")
    return 206, content[int(first) : int(last) + 1 if last else None]
