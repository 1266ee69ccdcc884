"""E2B's own SDK against the local E2B: what makes that server worth testing with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.version import Version

from tests.remote.serving import Server

e2b = pytest.importorskip("e2b")


@pytest.fixture
def options(e2b_server: Server) -> dict[str, Any]:
    found = e2b_server.environment
    return {
        "api_key": found["E2B_API_KEY"],
        "api_url": found["E2B_API_URL"],
        "sandbox_url": found["E2B_SANDBOX_URL"],
        "retries": 0,
    }


@pytest.fixture
def sandbox(options: dict[str, Any]) -> Iterator[Any]:
    made = e2b.Sandbox.create(timeout=60, metadata={"owner": "me"}, envs={"A": "1"}, **options)
    yield made
    made.kill()


def test_runs_commands(sandbox: Any) -> None:
    heard: list[str] = []
    done = sandbox.commands.run(
        'echo "out $A $B"; echo err >&2; pwd', envs={"B": "zwei"}, cwd="/tmp", on_stderr=heard.append
    )
    assert (done.stdout, done.stderr, done.exit_code) == ("out 1 zwei\n/tmp\n", "err\n", 0)
    assert heard == ["err\n"]
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("echo half; exit 3")
    assert (failed.value.stdout, failed.value.exit_code) == ("half\n", 3)
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("no-such-program")
    assert failed.value.exit_code == 127
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("kill -9 $$")
    assert (failed.value.exit_code, failed.value.error) == (-1, "signal: killed")
    with pytest.raises(e2b.InvalidArgumentException, match="/nowhere"):
        sandbox.commands.run("true", cwd="/nowhere")
    with pytest.raises(e2b.AuthenticationException, match="nobody-here"):
        sandbox.commands.run("true", user="nobody-here")


def test_much_output_arrives_whole(sandbox: Any) -> None:
    done = sandbox.commands.run("python3 -c \"import sys; sys.stdout.write('\u00e4' * 300_000)\"")
    assert done.stdout == "\u00e4" * 300_000


def test_writes_files(sandbox: Any) -> None:
    written = sandbox.files.write("folder/a.txt", "text")
    assert written.path == "/home/user/folder/a.txt"
    sandbox.files.write("/tmp/b", b"\0\xff" * 5000, use_octet_stream=True)
    assert sandbox.commands.run("wc -c <folder/a.txt; wc -c </tmp/b").stdout == "4\n10000\n"
    sandbox.files.write_files([{"path": "one", "data": "1"}, {"path": "/tmp/two", "data": "2"}])
    assert sandbox.commands.run("cat one /tmp/two").stdout == "12"


def test_a_deadline_ends_the_program_and_not_its_children(sandbox: Any, e2b_server: Server) -> None:
    began = time.monotonic()
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("sleep 41; true", timeout=0.5)
    assert time.monotonic() - began < 40
    while e2b_server.state().processes > 1:  # the SDK does not wait for envd to be as late as itself
        assert time.monotonic() - began < 40, "it sleeps for 41 s"
    assert e2b_server.state().processes == 1  # the sleep


def test_lists_prolongs_and_kills(sandbox: Any, options: dict[str, Any]) -> None:
    other = e2b.Sandbox.create(timeout=30, metadata={"owner": "you & me", "k": "ä=1"}, **options)

    def found(metadata: dict[str, str], **more: Any) -> list[str]:
        pages, ids = e2b.Sandbox.list(query=e2b.SandboxQuery(metadata=metadata), **more, **options), []
        while pages.has_next:
            ids += [row.sandbox_id for row in pages.next_items()]
        return ids

    assert found({"owner": "me"}) == [sandbox.sandbox_id]
    assert found({"owner": "you & me", "k": "ä=1"}) == [other.sandbox_id]
    assert found({"owner": "nobody"}) == []
    assert found({}, limit=1) == [other.sandbox_id, sandbox.sandbox_id]
    before = other.get_info()
    other.set_timeout(120)
    assert (other.get_info().end_at - before.end_at).total_seconds() == pytest.approx(90, abs=5)
    assert e2b.Sandbox.connect(other.sandbox_id, **options).commands.run("echo again").stdout == "again\n"
    assert other.kill()
    assert not other.kill()


def test_what_is_gone_is_told_so(sandbox: Any, options: dict[str, Any], e2b_server: Server) -> None:
    short = e2b.Sandbox.create(timeout=1, **options)
    waiting = short.commands.run("sleep 41", background=True)
    with pytest.raises(e2b.TimeoutException):
        waiting.wait()
    with pytest.raises(e2b.TimeoutException, match="was not found"):
        short.commands.run("true")
    with pytest.raises(e2b.SandboxNotFoundException):
        short.set_timeout(60)
    with pytest.raises(e2b.NotFoundException):
        e2b.Sandbox.connect(short.sandbox_id, **options)


def test_the_key_and_the_token_are_checked(sandbox: Any, options: dict[str, Any]) -> None:
    wrong = {**options, "api_key": "e2b_" + "f" * 40}
    with pytest.raises(e2b.AuthenticationException):
        e2b.Sandbox.create(**wrong)
    with pytest.raises(e2b.AuthenticationException):
        e2b.Sandbox.kill(sandbox.sandbox_id, **wrong)
    stranger = e2b.Sandbox(
        sandbox_id=sandbox.sandbox_id,
        envd_version=Version("0.6.13"),
        envd_access_token="wrong",
        sandbox_domain=None,
        connection_config=e2b.ConnectionConfig(
            **{k: v for k, v in options.items() if k != "retries"},
            extra_sandbox_headers={"X-Access-Token": "wrong", "E2b-Sandbox-Id": sandbox.sandbox_id},
        ),
    )
    with pytest.raises(e2b.AuthenticationException):
        stranger.commands.run("true")


def test_both_429(e2b_server: Server, options: dict[str, Any]) -> None:
    e2b_server.fault("create", "rate", after=1)
    e2b_server.fault("create", "full", nth=2)
    with pytest.raises(e2b.RateLimitException, match="Rate limit exceeded"):
        e2b.Sandbox.create(**options)
    with pytest.raises(e2b.RateLimitException, match="maximum number of concurrent"):
        e2b.Sandbox.create(**options)


def test_a_retried_order_makes_one_machine(e2b_server: Server, options: dict[str, Any]) -> None:
    order = {"idempotency_key": "order-1", **options}
    first, second = e2b.Sandbox.create(**order), e2b.Sandbox.create(**order)
    assert first.sandbox_id == second.sandbox_id
    assert e2b_server.state().created == 1
    with pytest.raises(e2b.SandboxException, match="another request"):
        e2b.Sandbox.create(timeout=7, **order)
    first.kill()


def test_without_a_network_there_is_none(options: dict[str, Any]) -> None:
    probe = 'python3 -c "import socket; print(socket.if_nameindex())"'
    closed = e2b.Sandbox.create(allow_internet_access=False, **options)
    opened = e2b.Sandbox.create(**options)
    assert closed.commands.run(probe).stdout.count("(") <= 1
    before = opened.commands.run(probe).stdout
    opened.update_network({"allow_internet_access": False})
    assert opened.commands.run(probe).stdout != before
    closed.kill()
    opened.kill()
