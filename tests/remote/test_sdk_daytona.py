"""Daytona's own SDK against the local server: what it is content with is near enough to the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from tests.remote.serving import Server

daytona = pytest.importorskip("daytona", reason="Daytona's SDK is not installed; run: pip install daytona==0.226.1")


@asynccontextmanager
async def _client(server: Server, **other: str) -> AsyncIterator[Any]:
    found = server.environment | other
    config = daytona.DaytonaConfig(
        api_key=found["DAYTONA_API_KEY"], api_url=found["DAYTONA_API_URL"], target=found["DAYTONA_TARGET"]
    )
    async with daytona.AsyncDaytona(config) as client:
        yield client


@asynccontextmanager
async def _sandbox(client: Any, **asked: object) -> AsyncIterator[Any]:
    sandbox = await client.create(daytona.CreateSandboxFromSnapshotParams(**asked))
    try:
        yield sandbox
    finally:
        await client.delete(sandbox)


async def _is_gone(client: Any, name: str) -> bool:
    for _ in range(1200):
        try:
            await client.get(name)
        except daytona.DaytonaNotFoundError:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_commands_and_files(daytona_server: Server) -> None:
    async with _client(daytona_server) as client, _sandbox(client, name="k-1", env_vars={"G": "1"}) as sandbox:
        assert sandbox.state == daytona.SandboxState.STARTED
        ran = await sandbox.process.exec("echo out; echo err >&2; pwd; echo $G$A; id -un; exit 3", env={"A": "2"})
        home = await sandbox.get_user_home_dir()
        assert (ran.exit_code, ran.result) == (3, f"out\nerr\n{home}\n12\nuser\n")
        ran = await sandbox.process.exec("pwd; python3 -c 'print(6 * 7)'", cwd="/tmp", timeout=20)
        assert (ran.exit_code, ran.result) == (0, "/tmp\n42\n")
        assert (await sandbox.process.exec("true", cwd="/nowhere")).exit_code == -1

        every = bytes(range(256)) * 1000
        await sandbox.fs.upload_file(every, "deep/er/a.bin")
        await sandbox.fs.upload_file_stream(b"streamed", "/tmp/b.bin")
        seen = await sandbox.process.exec("sha256sum deep/er/a.bin | cut -c-64; cat /tmp/b.bin", cwd=home)
        assert seen.result == f"{sha256(every).hexdigest()}\nstreamed"
        await sandbox.fs.delete_file("/tmp/b.bin")
    assert daytona_server.state().machines == []


async def test_a_timeout_ends_all_that_the_command_started(daytona_server: Server) -> None:
    async with _client(daytona_server) as client, _sandbox(client) as sandbox:
        with pytest.raises(daytona.DaytonaTimeoutError):
            await sandbox.process.exec("sleep 98 & sleep 99; true", timeout=1)
        await daytona_server.until_processes(0)


async def test_names_labels_network_and_the_end(daytona_server: Server) -> None:
    async with _client(daytona_server) as client:
        labels = {"owner": "evalcell", "key": "k-2"}
        made = _sandbox(client, name="k-2", labels=labels, network_block_all=True, ttl_minutes=5)
        async with made as sandbox, _sandbox(client, labels={"owner": "other"}):
            with pytest.raises(daytona.DaytonaConflictError):
                await client.create(daytona.CreateSandboxFromSnapshotParams(name="k-2"))
            assert (await client.get("k-2")).id == sandbox.id
            query = daytona.ListSandboxesQuery(labels={"owner": "evalcell"}, limit=1)
            found = [each async for each in client.list(query)]
            assert [(each.id, each.labels["key"]) for each in found] == [(sandbox.id, "k-2")]
            assert len([each async for each in client.list(daytona.ListSandboxesQuery(limit=1))]) == 2

            assert found[0].auto_destroy_at
            assert daytona_server.state().machines[0]["network"] is False
            await sandbox.update_network_settings(network_block_all=False)
            assert daytona_server.state().machines[0]["network"] is True
            await sandbox.refresh_activity()
            await sandbox.set_ttl(10)
        assert await _is_gone(client, "k-2")


async def test_what_it_is_refused(daytona_server: Server) -> None:
    async with _client(daytona_server, DAYTONA_API_KEY="dtn_wrong") as stranger:
        with pytest.raises(daytona.DaytonaAuthenticationError, match="Invalid credentials"):
            await stranger.create()
    async with _client(daytona_server) as client:
        daytona_server.fault("create", "rate", after=7)
        with pytest.raises(daytona.DaytonaRateLimitError) as busy:
            await client.create()
        assert {name.lower(): value for name, value in busy.value.headers.items()}["retry-after-sandbox-create"] == "7"
        daytona_server.fault("create", "full")
        with pytest.raises(daytona.DaytonaBadRequestError, match="Total CPU limit exceeded"):
            await client.create()
        with pytest.raises(daytona.DaytonaError, match="cannot be pulled") as broken:
            await client.create(daytona.CreateSandboxFromSnapshotParams(name="k-3", target="broken"))
        assert broken.value.message
        await client.delete(await client.get("k-3"))
