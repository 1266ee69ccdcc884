"""Modal's own SDK against the local Modal: what it can do here, the real one could be trusted to do as well."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.remote.serving import Server

pytest.importorskip("grpclib")

Run = Callable[[], AbstractAsyncContextManager["Session"]]


class Session:
    """A client with an app; what it creates is terminated at the end."""

    def __init__(self, modal: Any, client: Any, app: Any) -> None:
        self.modal, self.client, self.app = modal, client, app
        self.image = modal.Image.debian_slim(python_version="3.13")
        self._made: list[Any] = []

    async def create(self, **more: Any) -> Any:
        wanted: dict[str, Any] = {"app": self.app, "client": self.client, "image": self.image, "timeout": 60} | more
        self._made.append(await self.modal.Sandbox.create.aio(**wanted))
        return self._made[-1]

    async def end(self) -> None:
        await asyncio.gather(*(sandbox.terminate.aio() for sandbox in self._made))


@pytest.fixture
def run(modal_server: Server, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("MODAL_CONFIG_PATH", os.devnull)
    for name, value in modal_server.environment.items():
        monkeypatch.setenv(name, value)
    modal: Any = pytest.importorskip("modal")

    @asynccontextmanager
    async def opened() -> AsyncIterator[Session]:
        token = (os.environ["MODAL_TOKEN_ID"], os.environ["MODAL_TOKEN_SECRET"])
        async with await modal.Client.from_credentials.aio(*token) as client:
            app = await modal.App.lookup.aio("sdk", client=client, create_if_missing=True)
            session = Session(modal, client, app)
            try:
                yield session
            finally:
                await session.end()

    return opened


async def said(sandbox: Any, *argv: str, stdin: bytes = b"", **more: Any) -> tuple[bytes, bytes, int]:
    process = await sandbox.exec.aio(*argv, text=False, **{"timeout": 20, **more})
    process.stdin.write(stdin)
    process.stdin.write_eof()
    await process.stdin.drain.aio()
    out, err = await asyncio.gather(process.stdout.read.aio(), process.stderr.read.aio())
    return out, err, await process.wait.aio()


async def test_a_command_has_streams_a_code_a_folder_and_variables(run: Run) -> None:
    async with run() as session:
        sandbox = await session.create(workdir="/tmp", env={"A": "of the sandbox", "B": "b"})
        assert await said(sandbox, "sh", "-c", "cat; echo err >&2; exit 3", stdin=b"in") == (b"in", b"err\n", 3)
        assert await said(sandbox, "sh", "-c", "kill -9 $$") == (b"", b"", 137)
        out, _, _ = await said(sandbox, "sh", "-c", 'echo "$A $B"; pwd', env={"A": "own"}, workdir="/usr")
        assert out == b"own b\n/usr\n"
        assert (await said(sandbox, "pwd"))[0] == b"/tmp\n"
        large = os.urandom(5 << 20)
        assert (await said(sandbox, "cat", stdin=large))[0] == large
        secret = session.modal.Secret.from_dict({"S": "secret"})
        assert (await said(sandbox, "sh", "-c", "echo $S", secrets=[secret]))[0] == b"secret\n"
        with pytest.raises(session.modal.exception.InvalidError):
            await sandbox.exec.aio("pwd", workdir="/nowhere")


async def test_a_command_over_its_time_is_ended_with_all_that_it_started(run: Run, modal_server: Server) -> None:
    async with run() as session:
        sandbox = await session.create()
        assert await said(sandbox, "sh", "-c", "echo before; sleep 600; true", timeout=1) == (b"before\n", b"", -1)
        await modal_server.until_processes(0)  # the SDK has a clock of its own, which may be ahead


async def test_what_broke_off_is_read_on(run: Run, modal_server: Server) -> None:
    async with run() as session:
        sandbox = await session.create()
        modal_server.fault("start", "cut-frame:2")
        modal_server.fault("stdin", "cut-after")
        out, _, code = await said(sandbox, "sh", "-c", "cat; for i in 1 2 3; do echo $i; sleep 0.1; done", stdin=b"0\n")
        assert (out, code) == (b"0\n1\n2\n3\n", 0)


async def test_a_name_is_of_one_live_sandbox(run: Run) -> None:
    async with run() as session:
        of = session.modal.exception
        first = await session.create(name="one")
        with pytest.raises(of.AlreadyExistsError):
            await session.create(name="one")
        found = await session.modal.Sandbox.from_name.aio("sdk", "one", client=session.client)
        assert found.object_id == first.object_id
        assert (await said(found, "echo", "there"))[0] == b"there\n"
        await first.terminate.aio(wait=True)
        with pytest.raises(of.NotFoundError):
            await session.modal.Sandbox.from_name.aio("sdk", "one", client=session.client)
        assert (await session.create(name="one")).object_id != first.object_id


async def test_sandboxes_are_listed_by_tags(run: Run) -> None:
    async with run() as session:
        wanted = [await session.create(tags={"owner": "me", "n": str(n)}) for n in range(2)]
        other = await session.create(tags={"owner": "you"})

        async def owned(who: str) -> set[str]:
            every = session.modal.Sandbox.list.aio
            of = {"app_id": session.app.app_id, "tags": {"owner": who}, "client": session.client}
            return {sandbox.object_id async for sandbox in every(**of)}

        assert await owned("me") == {sandbox.object_id for sandbox in wanted}
        assert await wanted[1].get_tags.aio() == {"owner": "me", "n": "1"}
        await other.set_tags.aio({"owner": "me"})
        await wanted[0].terminate.aio()
        assert await owned("me") == {wanted[1].object_id, other.object_id}


async def test_a_sandbox_that_ended_runs_nothing(run: Run) -> None:
    async with run() as session:
        of = session.modal.exception
        sandbox = await session.create()
        running = asyncio.create_task(said(sandbox, "sleep", "600"))
        await asyncio.sleep(0.3)
        assert await sandbox.poll.aio() is None
        await sandbox.terminate.aio()
        with pytest.raises((of.NotFoundError, of.ConflictError)):
            await running
        with pytest.raises((of.NotFoundError, of.ConflictError)):
            await sandbox.exec.aio("true")
        again = await session.modal.Sandbox.from_id.aio(sandbox.object_id, client=session.client)
        assert again.returncode == 137
        with pytest.raises((of.NotFoundError, of.ConflictError)):
            await again.exec.aio("true")
        with pytest.raises(of.NotFoundError):
            await session.modal.Sandbox.from_id.aio("sb-none", client=session.client)


async def test_a_sandbox_ends_by_itself(run: Run) -> None:
    async with run() as session:
        of = session.modal.exception
        short, idle = await session.create(timeout=1), await session.create(idle_timeout=1)
        busy = await session.create(idle_timeout=1)
        running = asyncio.create_task(said(busy, "sleep", "1.8"))
        with pytest.raises(of.SandboxTimeoutError):
            await short.wait.aio()
        assert await short.poll.aio() == 124
        await idle.wait.aio()
        assert await running == (b"", b"", 0)
        assert await busy.poll.aio() is None


async def test_a_blocked_network_is_blocked(run: Run, modal_server: Server) -> None:
    port = modal_server.url.rpartition(":")[2]
    reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3)"

    async with run() as session:
        network, none = await session.create(), await session.create(block_network=True)
        assert (await said(network, "python3", "-c", reach))[2] == 0
        assert (await said(none, "python3", "-c", reach))[2] == 1


async def test_a_wrong_token_is_refused(run: Run) -> None:
    async with run() as session:
        modal = session.modal
        async with await modal.Client.from_credentials.aio(os.environ["MODAL_TOKEN_ID"], "as-wrong") as client:
            for asked in (client.hello.aio(), modal.App.lookup.aio("sdk", client=client)):
                with pytest.raises(modal.exception.AuthError):
                    await asked


async def test_an_image_that_cannot_be_built_says_why(run: Run) -> None:
    async with run() as session:
        image = session.image.run_commands("echo this is why >&2; exit 7")
        with pytest.raises(session.modal.exception.ImageBuildError, match="this is why"):
            await image.build.aio(session.app)
