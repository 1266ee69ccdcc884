"""Modal, through its SDK: `pip install 'evalcell[modal]'`. See docs/backends.md."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import SecretStr

from sandboxes.base import MB
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote import provider as base
from sandboxes.remote.http import address
from sandboxes.remote.modal.sdk import HOW, AlreadyExistsError, ExitCodeFilter, file, mapped_errors, next_item, sdk
from sandboxes.remote.provider import BusyError, GoneError, Machine, ProviderError, RefusedError, UnreachableError
from sandboxes.remote.sandbox import RemoteSandbox

_CLIENT = 1  # as modal_proto.api_pb2.CLIENT_TYPE_CLIENT
_SERVERS = "https://api.modal.com,https://api.modal2.com"
_IDLE = 300  # seconds without a command after which a machine ends before its time
_ASKING, _CREATING, _BUILDING = 30.0, 180.0, 900.0
_GRACE = 30.0  # seconds for the service to end a command after its timeout, and to report it
_SOON = 10.0
_PIECE = 8 << 20  # of stdin; the SDK takes 16 MB before it must be drained
_ABOVE = 256 * MB  # what a machine needs for itself
_PIP = "--require-hashes --only-binary :all: --no-deps --no-cache-dir"


class ModalProvider(base.Provider):
    """Modal; a machine is a sandbox of an app, named after the order's key. `Machine.data` is the SDK's object."""

    name = "modal"
    variables: ClassVar[tuple[str, ...]] = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
    settings = ("MODAL_ENVIRONMENT", "EVALCELL_MODAL_APP", "EVALCELL_MODAL_PYTHON")
    pace = 4.0
    cap = 50
    extends = False
    bakes = True

    def __init__(self, values: Mapping[str, str]) -> None:
        self._id, self._secret = (SecretStr(values.get(name, "").strip()) for name in self.variables)
        if not all(each.get_secret_value().isascii() and each for each in (self._id, self._secret)):
            raise SandboxUnavailableError(f"Modal's credentials are missing or incomplete; {HOW}")
        servers = (values.get("MODAL_SERVER_URL") or _SERVERS).split(",")
        self._servers = [address(url, "MODAL_SERVER_URL") for url in servers]
        self._environment = values.get("MODAL_ENVIRONMENT") or None
        self._app_name = values.get("EVALCELL_MODAL_APP") or "evalcell"
        # Elsewhere a machine's name means another one, or none.
        place = f"{self._servers[0]}/{self._environment or 'default'}/{self._app_name}"
        self.address = base.account_address(place, self._id.get_secret_value())
        self.python = values.get("EVALCELL_MODAL_PYTHON") or "3.13"
        if not re.fullmatch(r"3\.(1[1-9]|[2-9]\d)", self.python):
            raise SandboxUnavailableError(
                "EVALCELL_MODAL_PYTHON is not a supported version; set it to one such as 3.13"
            )
        self._client: Any = None
        self._app: Any = None
        self._images: dict[str | None, Any] = {}
        self._making = asyncio.Lock()
        self._known: dict[str, Any] = {}
        """The SDK's objects of the machines that were not killed, by id."""

    async def open(self) -> None:
        if self._client is None:
            # All other ways to make a client take the server's address from os.environ.
            credentials = self._id.get_secret_value(), self._secret.get_secret_value()
            client = sdk().Client(",".join(self._servers), _CLIENT, credentials)
            async with mapped_errors(_ASKING, sent=False):
                self._client = await client.__aenter__()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            async with mapped_errors(_ASKING):
                await client.close.aio()

    async def create(self, order: base.Order) -> Machine:
        image = await self._image(order.lock)
        try:
            async with mapped_errors(_CREATING, missing=RefusedError):
                sandbox = await sdk().Sandbox.create.aio(
                    app=self._app,
                    client=self._client,
                    image=image,
                    name=order.key,
                    tags={**order.tags, "since": str(int(time.time()))},  # the SDK's list lacks it
                    timeout=order.lifetime,
                    idle_timeout=min(order.lifetime, _IDLE),
                    block_network=not order.network,
                    memory=math.ceil((order.memory + _ABOVE) / MB),
                    cpu=1.0,
                )
        except AlreadyExistsError as e:
            if found := await self.find(order.key):
                return found
            raise UnreachableError(f"{e}; then the machine no longer existed") from None
        return self._machine(sandbox, order.key)

    async def _image(self, lock: str | None) -> Any:
        """An image with Python and the packages of the lock. It is built once, and then available at once."""
        async with self._making:
            app = await self._lookup(create=True)
            if lock not in self._images:
                image = sdk().Image.debian_slim(python_version=self.python)
                with file(lock or "") as path:
                    if lock is not None:
                        image = image.pip_install_from_requirements(path, extra_options=_PIP)
                    async with mapped_errors(_BUILDING, missing=RefusedError):
                        self._images[lock] = await image.build.aio(app)
            return self._images[lock]

    async def _lookup(self, *, create: bool) -> Any:
        """The app of all machines. Raises GoneError if there is none and none shall be created."""
        if self._app is None:
            async with mapped_errors(_ASKING, missing=RefusedError if create else GoneError):
                more = {"environment_name": self._environment, "create_if_missing": create}
                self._app = await sdk().App.lookup.aio(self._app_name, client=self._client, **more)
        return self._app

    async def find(self, key: str) -> Machine | None:
        with suppress(GoneError):
            async with mapped_errors(_ASKING):
                more = {"environment_name": self._environment, "client": self._client}
                sandbox = await sdk().Sandbox.from_name.aio(self._app_name, key, **more)
            return self._machine(sandbox, key)
        return None

    def _machine(self, sandbox: Any, key: str) -> Machine:
        self._known[sandbox.object_id] = sandbox
        return Machine(sandbox.object_id, key, sandbox)

    async def kill(self, id: str) -> None:
        with suppress(GoneError):
            async with mapped_errors(_ASKING):
                sandbox = self._known.get(id) or await sdk().Sandbox.from_id.aio(id, client=self._client)
                await sandbox.terminate.aio()
                await sandbox.detach.aio()
        self._known.pop(id, None)

    async def list(self) -> AsyncIterator[base.ListedMachine]:
        with suppress(GoneError):
            app = await self._lookup(create=False)
            every = sdk().Sandbox.list.aio(app_id=app.app_id, tags={"owner": base.OWNER}, client=self._client)
            async with aclosing(every):
                while sandbox := await next_item(every):
                    with suppress(GoneError):
                        async with mapped_errors(_ASKING):
                            tags: dict[str, str] = await sandbox.get_tags.aio()
                        yield base.ListedMachine(sandbox.object_id, tags.get("key", ""), _since(tags), tags)

    async def execute(self, machine: Machine, command: base.Command, on_output: base.OnOutput) -> base.CommandResult:
        """Run a command in three requests: start, stdin, stdout. After failures also ask for the code and stderr."""
        trailer = ExitCodeFilter()
        async with mapped_errors(_ASKING):
            process = await machine.data.exec.aio(
                *trailer.argv(command.argv), timeout=math.ceil(command.timeout), env=dict(command.env), text=False
            )
        try:
            await self._hear(process, command, lambda piece: on_output(piece) if piece else None, trailer)
            code = trailer.code
            if code is None:
                async with mapped_errors(command.timeout + _GRACE):
                    code = await process.wait.aio()
        except BusyError as e:  # a BusyError would mean that nothing was started
            raise UnreachableError(str(e)) from None
        return base.CommandResult(None if code == -1 else code, await _tail(process.stderr) if code else "")

    async def _hear(
        self, process: Any, command: base.Command, on_output: base.OnOutput, trailer: ExitCodeFilter
    ) -> None:
        feeding = asyncio.create_task(_feed(process.stdin, command.input))
        try:
            async with asyncio.timeout(command.timeout + _GRACE) as deadline, aclosing(aiter(process.stdout)) as pieces:
                feeding.add_done_callback(lambda fed: _hurry(fed, deadline))
                while piece := await next_item(pieces):
                    on_output(trailer.without(piece))
            on_output(trailer.rest())
        except TimeoutError:
            if not deadline.expired():  # raised by on_output
                raise
            if feeding.done():
                feeding.result()
            raise UnreachableError("Modal: the command did not end in time, and the service did not end it") from None
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(stdin: Any, data: bytes) -> None:
    """Write and close stdin."""
    for start in range(0, max(1, len(data)), _PIECE):
        stdin.write(data[start : start + _PIECE])
        if start + _PIECE >= len(data):
            stdin.write_eof()
        async with mapped_errors(_ASKING):
            await stdin.drain.aio()


def _hurry(fed: asyncio.Task[None], deadline: asyncio.Timeout) -> None:
    """Wait a short time for stdin to be written. If the command or its machine has ended, stdout tells how."""
    if not fed.cancelled() and (error := fed.exception()):
        deadline.reschedule(asyncio.get_running_loop().time() + (_SOON if isinstance(error, GoneError) else 0))


async def _tail(stderr: Any) -> str:
    errors = bytearray()
    with suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(_ASKING), aclosing(aiter(stderr)) as pieces:
            while piece := await next_item(pieces):
                errors += piece
                del errors[: -base.ERRORS]
    return errors.decode("utf-8", "replace")


def _since(tags: Mapping[str, str]) -> datetime:
    said = tags.get("since", "")
    return datetime.fromtimestamp(int(said), UTC) if re.fullmatch(r"\d{1,11}", said) else datetime.now(UTC)


class ModalSandbox(RemoteSandbox):
    """See docs/backends.md."""

    name = "modal"
    provider = ModalProvider
