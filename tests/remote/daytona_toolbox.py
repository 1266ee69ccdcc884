"""What Daytona's daemon does in a sandbox: runs commands and code, keeps sessions, takes and gives files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import uuid
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from aiohttp import BodyPartReader, web

from tests.remote.daytona_boxes import Box, Refused
from tests.remote.machine import Machine, MachineGone, Process
from tests.remote.room import PYTHON, USER
from tests.remote.serving import Front

_BOUNDARY = "DAYTONA-FILE-BOUNDARY"
_CHUNK = 64 * 1024
_JSON_LOGS = (0, 167)  # SDKs from this version on get logs as JSON

Handler = Callable[[web.Request, Box, Machine], Awaitable[web.StreamResponse]]


class Toolbox:
    """The routes below /toolbox/{sandbox}. Programs run as an ordinary user, as in Daytona's own images."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def routes(self) -> dict[tuple[str, str], Handler]:
        session = "process/session/{session}"
        return {
            ("POST", "process/execute"): self._execute,
            ("POST", "process/code-run"): self._code_run,
            ("POST", "process/session"): self._open_session,
            ("GET", "process/session"): self._list_sessions,
            ("GET", session): self._get_session,
            ("DELETE", session): self._close_session,
            ("POST", f"{session}/exec"): self._session_exec,
            ("GET", f"{session}/command/{{command}}"): self._session_command,
            ("GET", f"{session}/command/{{command}}/logs"): self._session_logs,
            ("POST", f"{session}/command/{{command}}/input"): self._session_input,
            ("POST", "files/upload"): self._upload,
            ("POST", "files/upload-v2"): self._upload,
            ("POST", "files/bulk-upload"): self._bulk_upload,
            ("GET", "files/download"): self._download,
            ("POST", "files/bulk-download"): self._bulk_download,
            ("POST", "files/folder"): self._folder,
            ("DELETE", "files"): self._remove,
            ("GET", "user-home-dir"): self._home,
            ("GET", "work-dir"): self._home,
        }

    async def _execute(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        asked = await _asked(request, "command")
        text = asked["command"].encode() + b"\n"
        return await self._ran(box, machine, ["/bin/bash"], text, asked)

    async def _code_run(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        asked = await _asked(request, "code")
        if asked.get("language", "python") != "python":
            raise Refused(400, f"there is no {asked['language']} here")
        argv = [str(PYTHON), "-u", "-", *asked.get("argv", [])]
        return await self._ran(box, machine, argv, asked["code"].encode(), asked, artifacts={"charts": []})

    async def _ran(
        self, box: Box, machine: Machine, argv: list[str], text: bytes, asked: dict[str, Any], **more: Any
    ) -> web.StreamResponse:
        env = {**box.env, **(asked.get("envs") or {})}
        try:
            process = await machine.start_program(argv, env=env, cwd=asked.get("cwd"), user=USER, merge=True)
        except OSError as e:
            return web.json_response({"exitCode": -1, "result": str(e), **more})
        running = asyncio.create_task(_output(process, text))
        await self._front.frame("start", 1, machine)
        try:
            async with asyncio.timeout(asked.get("timeout") or None):
                output = await asyncio.shield(running)
        except TimeoutError:
            await process.kill(group=True)
            raise Refused(408, "command execution timeout") from None
        await self._front.frame("start", 2, machine)
        return web.json_response(
            {"exitCode": await process.wait(), "result": output.decode("utf-8", "replace"), **more}
        )

    async def _open_session(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        id = (await _asked(request, "sessionId"))["sessionId"]
        if id in box.sessions:
            raise Refused(409, "session already exists")
        process = await machine.start_program(["/bin/bash"], env=box.env, user=USER, merge=True)
        box.sessions[id] = _Session(id, machine, process)
        return web.Response(status=201)

    async def _list_sessions(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        return web.json_response([await session.told() for session in box.sessions.values()])

    async def _get_session(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        return web.json_response(await _session(request, box).told())

    async def _close_session(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        session = _session(request, box)
        del box.sessions[session.id]
        with contextlib.suppress(ProcessLookupError):
            await session.process.kill(group=True)
        return web.Response(status=204)

    async def _session_exec(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        asked = await _asked(request, "command")
        session = _session(request, box)
        id = await session.begin(asked["command"])
        if asked.get("runAsync") or asked.get("async"):
            return web.json_response({"cmdId": id}, status=202)
        while (code := await session.code(id)) is None:
            await asyncio.sleep(0.05)
        return web.json_response({"cmdId": id, "exitCode": code, **await session.logs(id)})

    async def _session_command(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        return web.json_response(await _session(request, box).command(request.match_info["command"]))

    async def _session_logs(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        logs = await _session(request, box).logs(request.match_info["command"])
        parts = request.headers.get("X-Daytona-SDK-Version", "").split(".")
        if not all(part.isdecimal() for part in parts[:2]) or (int(parts[0]), int(parts[1])) < _JSON_LOGS:
            return web.Response(text=logs["output"])
        return web.json_response(logs)

    async def _session_input(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        data = (await _asked(request, "data"))["data"]
        await _session(request, box).say(request.match_info["command"], data)
        return web.Response(status=204)

    async def _upload(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        path = _path(request, machine)
        content = await request.read()
        if request.content_type.startswith("multipart/"):
            form = await request.post()
            content = form["file"].file.read()  # type: ignore[union-attr]
        await machine.write(path, content, USER)
        if not request.path.endswith("-v2"):
            return web.Response()
        return web.json_response({"name": PurePosixPath(path).name, "path": path, "type": "file"})

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

    async def _bulk_download(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        body = bytearray()
        for path in (await _asked(request, "paths"))["paths"]:
            kind, type = "file", "application/octet-stream"
            try:
                content = await machine.read(_absolute(path, machine))
            except OSError as e:
                kind, type = "error", "application/json"
                content = json.dumps({"message": f"{e.strerror}: {path}", "statusCode": 404}).encode()
            head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{kind}"; filename="{path}"\r\n'
            body += f"{head}Content-Type: {type}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n"
        body += f"--{_BOUNDARY}--\r\n".encode()
        return web.Response(body=bytes(body), headers={"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"})

    async def _folder(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        await machine.mkdir(_path(request, machine), USER)
        return web.Response(status=201)

    async def _remove(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        words = ["rm", "-r" if request.query.get("recursive") == "true" else "--", _path(request, machine)]
        process = await machine.start_program(words, user=USER, merge=True)
        output = await _output(process, b"")
        if await process.wait():
            raise Refused(400, output.decode().strip())
        return web.Response(status=204)

    async def _home(self, request: web.Request, box: Box, machine: Machine) -> web.StreamResponse:
        return web.json_response({"dir": machine.home})


class _Session:
    """A shell that stays, and the files of its commands."""

    def __init__(self, id: str, machine: Machine, process: Process) -> None:
        self.id = id
        self.process = process
        self._machine = machine
        self._commands: dict[str, str] = {}

    async def begin(self, command: str) -> str:
        id = str(uuid.uuid4())
        self._commands[id] = command
        at = shlex.quote(self._at(id))
        await self.process.write(
            f"mkdir -p {at}; mkfifo {at}/in; {{ {command}\n}} <>{at}/in >{at}/out 2>{at}/err; "
            f"echo $? >{at}/ended; mv {at}/ended {at}/code\n".encode()
        )
        return id

    def _at(self, id: str) -> str:
        if id not in self._commands:
            raise Refused(404, "command not found")
        return f"/tmp/.daytona/sessions/{self.id}/{id}"

    async def code(self, id: str) -> int | None:
        try:
            return int(await self._machine.read(f"{self._at(id)}/code"))
        except FileNotFoundError:
            return None

    async def command(self, id: str) -> dict[str, Any]:
        code = await self.code(id)
        return {"id": id, "command": self._commands[id]} | ({} if code is None else {"exitCode": code})

    async def logs(self, id: str) -> dict[str, str]:
        found = [await self._machine.read(f"{self._at(id)}/{name}") for name in ("out", "err")]
        out, err = (content.decode("utf-8", "replace") for content in found)
        return {"output": out + err, "stdout": out, "stderr": err}

    async def say(self, id: str, data: str) -> None:
        line = f"printf %s {shlex.quote(data)} >{shlex.quote(self._at(id))}/in"
        process = await self._machine.start_program(["/bin/sh", "-c", line], user=USER)
        await process.wait()

    async def told(self) -> dict[str, Any]:
        return {"sessionId": self.id, "commands": [await self.command(id) for id in self._commands]}


async def _output(process: Process, text: bytes) -> bytes:
    with contextlib.suppress(BrokenPipeError):
        await process.write(text)
    await process.close_stdin()
    output = await process.stdout.read()
    with contextlib.suppress(MachineGone):
        await process.wait()
    return output


async def _asked(request: web.Request, name: str) -> dict[str, Any]:
    try:
        asked = await request.json()
    except ValueError:
        asked = None
    if not isinstance(asked, dict) or not asked.get(name):
        raise Refused(400, f"{name} is required")
    return asked


def _session(request: web.Request, box: Box) -> _Session:
    found = box.sessions.get(request.match_info["session"])
    if found is None:
        raise Refused(404, "session not found")
    session: _Session = found
    return session


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
