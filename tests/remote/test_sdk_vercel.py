"""The local Vercel Sandbox API is good enough for Vercel's own SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.remote.serving import Server

sdk = pytest.importorskip("vercel.sandbox", reason="Vercel's SDK is not there; run: pip install vercel==0.12.1")

IMAGE = "vercel/sandbox/python:3.14"


def options(server: Server, **instead: str) -> object:
    there = server.environment | instead

    async def credentials() -> object:
        names = {"token": "VERCEL_TOKEN", "team_id": "VERCEL_TEAM_ID", "project_id": "VERCEL_PROJECT_ID"}
        return sdk.SandboxCredentials(**{field: there[name] for field, name in names.items()})

    return sdk.SandboxServiceOptions(base_url=there["EVALCELL_VERCEL_URL"], credentials_factory=credentials)


@asynccontextmanager
async def run(server: Server, **instead: str) -> AsyncIterator[Any]:
    client = sdk.SandboxClient.create(options=options(server, **instead))
    try:
        async with asyncio.timeout(40):
            yield client
    finally:
        await client.aclose()


async def test_commands(vercel_server: Server) -> None:
    async with run(vercel_server) as client:
        made = client.create_sandbox(name="s-commands", image=IMAGE, execution_time_limit=60, env={"A": "1", "B": "1"})
        async with made as sandbox:
            assert (sandbox.name, sandbox.status, sandbox.cwd) == ("s-commands", "running", "/vercel/sandbox")
            script = 'pwd; echo "$A$B é"; echo no >&2; exit 3'
            done = await sandbox.run_process("sh", ["-c", script], env={"B": "2"}, capture_output=True)
            assert (done.stdout, done.stderr, done.returncode) == ("/vercel/sandbox\n12 é\n", "no\n", 3)
            plain = await sandbox.run_process("id", ["-un"], capture_output=True)
            root = await sandbox.run_process("id", ["-un"], capture_output=True, sudo=True)
            assert plain.stdout == "user\n"
            assert root.stdout == ("user\n" if os.geteuid() else "root\n")  # an ordinary host user has no other
            big = "x" * 1_500_000 + "é"
            echo = await sandbox.run_process("cat", input=big, capture_output=True)
            assert echo.stdout == big
            assert (await sandbox.run_process("cat", capture_output=True)).stdout == ""
            long = await sandbox.run_process("sleep", ["30"], kill_after=0.3, capture_output=True)
            assert long.returncode == 137
            with pytest.raises(sdk.SandboxApiError) as refused:
                await sandbox.run_process("no-such-program")
            assert refused.value.status_code == 400
    assert vercel_server.state().machines == []


async def test_a_stopped_sandbox_comes_back_and_a_deleted_one_does_not(vercel_server: Server) -> None:
    async with run(vercel_server) as client:
        sandbox = await client.create_sandbox(name="s-stopped", tags={"team": "a"}, persistent=False)
        first = sandbox.current_session_id
        await sandbox.stop()
        assert vercel_server.state().machines == []
        assert (await client.get_sandbox(name="s-stopped")).status == "stopped"
        done = await sandbox.run_process("echo", ["back"], capture_output=True)
        assert done.stdout == "back\n"
        assert sandbox.current_session_id != first
        assert vercel_server.state().created == 2
        await sandbox.destroy()
        assert vercel_server.state().machines == []
        with pytest.raises(sdk.SandboxApiError) as gone:
            await client.get_sandbox(name="s-stopped")
        assert (gone.value.status_code, gone.value.code) == (404, "not_found")


async def test_lists_by_tag_page_by_page(vercel_server: Server) -> None:
    async with run(vercel_server) as client:
        made = [await client.create_sandbox(name=f"s-list-{n}", tags={"half": str(n % 2)}) for n in range(5)]
        query = sdk.SandboxQueryByName(
            name_prefix="s-list-", sort_order="asc", tag=sdk.TagFilter(key="half", value="0")
        )
        found = [sandbox.name async for sandbox in client.query_sandboxes(query=query, page_size=2)]
        assert found == ["s-list-0", "s-list-2", "s-list-4"]
        for sandbox in made:
            await sandbox.destroy()


async def test_life_and_network(vercel_server: Server) -> None:
    async with run(vercel_server) as client:
        closed = sdk.NetworkPolicy.deny_all()
        async with client.create_sandbox(name="s-life", execution_time_limit=60) as sandbox:
            reach = f"import socket; socket.create_connection(('127.0.0.1', {urlsplit(vercel_server.url).port}), 5)"
            assert (await sandbox.run_process("python3", ["-c", reach], capture_output=True)).returncode == 0
            session = await sandbox.current_session.update_network_policy(closed)
            assert session.network_policy.mode == "deny-all"
            assert (await sandbox.run_process("python3", ["-c", reach], capture_output=True)).returncode == 1
            longer = await sandbox.extend_execution_time_limit(30)
            assert longer.execution_time_limit.total_seconds() == 90
        async with client.create_sandbox(name="s-short", execution_time_limit=1) as short:
            while (await client.get_sandbox(name=short.name)).status == "running":
                await asyncio.sleep(0.1)
            assert vercel_server.state().machines == []


async def test_refusals(vercel_server: Server) -> None:
    async with run(vercel_server) as client:
        sandbox = await client.create_sandbox(name="s-twice")
        with pytest.raises(sdk.SandboxApiError, match="already exists") as twice:
            await client.create_sandbox(name="s-twice")
        assert (twice.value.status_code, twice.value.code) == (400, "bad_request")
        with pytest.raises(sdk.SandboxApiError, match="5 tags"):
            await client.create_sandbox(name="s-tags", tags={str(n): "x" for n in range(6)})
        same, created = await client.get_or_create_sandbox(name="s-twice")
        assert (same.current_session_id, created) == (sandbox.current_session_id, False)
        await sandbox.destroy()
    async with run(vercel_server, VERCEL_TOKEN="another") as client:
        with pytest.raises(sdk.SandboxApiError) as refused:
            await client.create_sandbox(name="s-nobody")
        assert refused.value.status_code == 403
