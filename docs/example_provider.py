"""A provider whose machines are folders here: all that a new one must have. It keeps scripts from nothing by itself."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import (
    Command,
    CommandResult,
    GoneError,
    ListedMachine,
    Machine,
    OnOutput,
    Order,
    Provider,
)
from sandboxes.remote.sandbox import RemoteSandbox


class FolderProvider(Provider):
    name, variables = "folder", ("FOLDER_KEY",)  # the variable is a secret: it is masked in all that is said
    pace, cap, extends = 20.0, 8, False  # orders a second, machines a run; a folder's life cannot be prolonged

    def __init__(self, values: Mapping[str, str]) -> None:
        if not values.get("FOLDER_KEY"):
            raise SandboxUnavailableError("FOLDER_KEY is not set; set it to the key of your account")
        self.address = values.get("FOLDER_ROOT") or "/var/tmp/evalcell-folders"
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def create(self, order: Order) -> Machine:
        place = Path(self.address) / order.key
        place.mkdir(parents=True, exist_ok=True)  # the same order again is the same machine
        (place / "tags").write_text(json.dumps(dict(order.tags)))
        return Machine(order.key, order.key)

    async def find(self, key: str) -> Machine | None:
        return Machine(key, key) if (Path(self.address) / key / "tags").exists() else None

    async def list(self) -> AsyncIterator[ListedMachine]:
        for tags in Path(self.address).glob("*/tags"):
            key, since = tags.parent.name, datetime.fromtimestamp(tags.stat().st_mtime, UTC)
            yield ListedMachine(key, key, since, json.loads(tags.read_text()))

    async def kill(self, id: str) -> None:
        if process := self._running.get(id):
            _end(process)
        shutil.rmtree(Path(self.address) / id, ignore_errors=True)  # one that is gone already is no error

    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        if await self.find(machine.key) is None:
            raise GoneError(f"there is no folder {machine.id}")
        variables = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", **command.env}
        with TemporaryFile() as given, TemporaryFile() as errors:
            given.write(command.input)
            given.seek(0)
            process = await asyncio.create_subprocess_exec(
                *command.argv, stdin=given, stdout=-1, stderr=errors, env=variables, start_new_session=True
            )
            self._running[machine.id] = process
            try:
                async with asyncio.timeout(command.timeout):
                    while process.stdout and (piece := await process.stdout.read(65536)):
                        on_output(piece)  # what it raises goes to the caller as it is
                    code = await process.wait()
            except TimeoutError:
                return CommandResult(None)
            finally:
                _end(process)
            errors.seek(0)
            return CommandResult(code if code >= 0 else 128 - code, errors.read()[-4096:].decode(errors="replace"))


def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class FolderSandbox(RemoteSandbox):
    name, provider = "folder", FolderProvider
