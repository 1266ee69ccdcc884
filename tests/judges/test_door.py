"""The way of a box to a judge: scripts with clients of their own, what they may not do, whose time it is."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Limits, Script
from sandboxes.boxes.launch import Tier
from sandboxes.deno.sandbox import DenoConfig
from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor import procfs
from sandboxes.judges.broker import Broker
from sandboxes.judges.checks import LARGEST_REQUEST
from sandboxes.judges.door import CONNECTIONS, Door
from sandboxes.judges.grant import PORT, JudgeBudget, Judges
from sandboxes.process.sandbox import ProcessConfig
from sandboxes.registry import create
from tests.judges.judge import KEY, fake_judge, grant, host_of
from tests.process.test_users import WITHOUT_USERS, as_user, told  # noqa: F401

pytestmark = pytest.mark.usefixtures("key")

ASKING = """
import json, os, urllib.request

def ask(model, path="/chat/completions", **body):
    body = {"model": model, "messages": [{"role": "user", "content": "is 4 right?"}]} | body
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return reply.read().decode()
"""


def box_grant(judge: Any, **settings: Any) -> Judges:
    judges = grant(judge, **settings)
    host = judges.hosts[0].model_copy(update={"variables": {"OPENAI_BASE_URL": "{url}/v1"}})
    return judges.model_copy(update={"hosts": (host,)})


@asynccontextmanager
async def opened(judges: Judges, source: str, tier: Tier | None = None, **config: Any) -> AsyncIterator[Any]:
    sandbox = create(ProcessConfig(jobs=1, judges=judges, tier=tier, **config))
    try:
        async with sandbox:
            program = await sandbox.load(Script(source, "python", "evaluate"), Limits())
            assert program.loaded.status == "ok", program.loaded
            yield sandbox, program
    except SandboxUnavailableError as e:
        pytest.skip(str(e))


async def run(program: Any, count: int = 1, limits: Limits | None = None, **arguments: Any) -> list[Execution]:
    calls = [Call(id=number, arguments=arguments) for number in range(count)]
    executions = [one async for one in program.run(calls, limits or Limits())]
    return sorted(executions, key=lambda one: one.call)


async def test_a_client_in_a_box_asks(judge: Any, tier: Tier) -> None:
    source = ASKING + "def evaluate(model): return json.loads(ask(model))['choices'][0]['message']['content']"
    async with opened(box_grant(judge), source, tier) as (sandbox, program):
        first, second = await run(program, 2, model="judge")
        assert first.status == second.status == "ok"
        assert "score" in first.value
        assert sandbox.broker.counts.calls == 2
    assert dict(judge.requests[0]["headers"])["authorization"] == f"Bearer {KEY}"


async def test_waiting_is_not_the_scripts_time(judge: Any) -> None:
    source = ASKING + "def evaluate(model): ask(model); ask(model); return 1"
    async with opened(box_grant(judge), source) as (_, program):
        (waited,) = await run(program, limits=Limits(timeout=1.5), model="slow-1")
        assert waited.status == "ok"
        assert waited.duration < 1.5
    source = ASKING + "import time\ndef evaluate(model): ask(model); time.sleep(30); return 1"
    async with opened(box_grant(judge), source) as (_, program):
        (slow,) = await run(program, limits=Limits(timeout=0.5), model="slow-0.5")
        assert slow.status == "timeout"


async def test_a_call_that_ends_ends_what_it_asks(judge: Any) -> None:
    source = (
        ASKING
        + """
import threading, time
def evaluate(model):
    threading.Thread(target=ask, args=(model,), daemon=True).start()
    time.sleep(0.5)
    return 1
"""
    )
    async with opened(box_grant(judge), source) as (sandbox, program):
        (ended,) = await run(program, model="hang")
        assert ended.status == "ok"
        while judge.stats()["in_flight"] or sandbox.broker.counts.in_flight:
            await asyncio.sleep(0.01)


async def test_a_swallowed_failure_is_known(judge: Any) -> None:
    source = (
        ASKING
        + """
def evaluate(model):
    try:
        ask(model)
    except Exception as error:
        return {"score": 0, "why": error.read().decode(), "again": error.headers["x-should-retry"]}
"""
    )
    judges = box_grant(judge, budget=JudgeBudget(requests=1))
    async with opened(judges, source) as (sandbox, program):
        good, spent = await run(program, 2, model="judge")
        assert good.value is None
        assert spent.value["again"] == "false"
        assert "budget" in json.loads(spent.value["why"])["error"]["message"]
        assert [*sandbox.broker.lost] == [1]
        assert "budget of 1 requests" in sandbox.broker.lost[1]


async def test_rows_are_told_apart(judge: Any, tmp_path: Path) -> None:
    source = ASKING + "def evaluate(model): return ask(model)"
    record = tmp_path / "record"
    async with opened(box_grant(judge, record=str(record)), source) as (sandbox, program):
        sandbox.broker.rows |= {0: ("first", 1), 1: ("second", 2)}
        await run(program, 2, model="count")
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["row"], line["repeat"]) for line in lines] == [("first", 1), ("second", 2)]


ELSEWHERE = """
import errno, os, socket

def outcome(work):
    try:
        work()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return "open"

def serve():
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", 53))

def fast(place):
    with socket.socket() as end:
        end.sendto(b"x", socket.MSG_FASTOPEN, place)

def evaluate(port, host):
    tries = {
        "granted": lambda: socket.create_connection(("127.0.0.1", port), 1).close(),
        "other port": lambda: socket.create_connection(("127.0.0.1", port + 1), 1),
        "server of the host": lambda: socket.create_connection(("127.0.0.1", host), 1),
        "internet": lambda: socket.create_connection(("1.1.1.1", 443), 1),
        "metadata": lambda: socket.create_connection(("169.254.169.254", 80), 1),
        "any": lambda: socket.create_connection(("0.0.0.0", host), 1),
        "six": lambda: socket.create_connection(("::1", host), 1),
        "name": lambda: socket.getaddrinfo("example.com", 443),
        "unix": lambda: socket.socket(socket.AF_UNIX),
        "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW),
        "fast open": lambda: fast(("127.0.0.1", host)),
        "udp": udp,
        "serve": serve,
    }
    return {name: outcome(work) for name, work in tries.items()}
"""


async def test_nothing_else_can_be_reached(judge: Any, tier: Tier) -> None:
    with fake_judge() as other:
        async with opened(box_grant(judge), ELSEWHERE, tier) as (_, program):
            (told,) = await run(program, port=PORT, host=other.server_port)
        assert not other.requests
    assert told.status == "ok", told
    assert told.value.pop("granted") == "open"
    assert "open" not in told.value.values(), told.value
    assert told.value["serve"] == told.value["udp"] == told.value["unix"] == "EACCES"
    assert not judge.requests


async def test_without_a_judge_nothing_is_there() -> None:
    sandbox = create(ProcessConfig(jobs=1))
    async with sandbox:
        program = await sandbox.load(Script(ELSEWHERE, "python", "evaluate"), Limits())
        (told,) = await run(program, port=PORT, host=1)
        assert set(told.value.values()) <= {"EACCES", "gaierror", "EAI_AGAIN", "EAI_NONAME"}, told.value


async def test_no_key_is_in_the_box(judge: Any, tmp_path: Path, tier: Tier) -> None:
    source = (
        ASKING
        + """
def evaluate(model):
    texts = [ask(model), ask(model, stream=True)]
    try:
        ask("error-401")
    except Exception as error:
        texts.append(error.read().decode())
    print(texts, dict(os.environ))
    import time
    time.sleep(1.5)
    return {"texts": texts, "variables": dict(os.environ)}
"""
    )
    record = tmp_path / "record"
    async with opened(box_grant(judge, record=str(record)), source, tier) as (sandbox, program):
        assert sandbox._active
        running = asyncio.ensure_future(run(program, model="echo"))
        while len(judge.requests) < 3:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        found = b"".join(memory(pid) for box in sandbox._boxes for pid in [box.inner, *procfs.descendants(box.inner)])
        assert b"evalcell-OPENAI_API_KEY" in found  # the search finds what is there
        assert KEY.encode() not in found
        (told,) = await running
        assert told.status == "ok", told
        whole = told.model_dump_json() + json.dumps(sandbox.manifest) + json.dumps(sandbox.config.model_dump())
    assert KEY not in whole
    assert KEY not in record.read_text()
    assert "Bearer ***" in whole
    assert oct(record.stat().st_mode & 0o777) == "0o600"


def memory(pid: int) -> bytes:
    """What a process holds in memory that it may write."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        for line in maps:
            place, rights = line.split()[:2]
            if not rights.startswith("rw") or "[v" in line:
                continue
            first, last = (int(part, 16) for part in place.split("-"))
            try:
                file.seek(first)
                found.append(file.read(last - first))
            except OSError:
                continue
    with open(f"/proc/{pid}/environ", "rb") as file:
        found.append(file.read())
    return b"".join(found)


async def test_deno_asks(judge: Any, tier: Tier) -> None:
    source = """
export async function evaluate({ model }: { model: string }) {
  const ask = (url: string) => fetch(url + "/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + process.env.OPENAI_API_KEY, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [] }),
  });
  const reply = await (await ask(Deno.env.get("OPENAI_BASE_URL")!)).json();
  const others = [];
  for (const place of ["127.0.0.1:8712", "127.0.0.1:PORT", "1.1.1.1", "localhost:8711"]) {
    try { await ask(`http://${place}`); others.push("open"); } catch (error) { others.push((error as Error).name); }
  }
  return { text: reply.choices[0].message.content, others };
}
"""
    with fake_judge() as other:
        source = source.replace("PORT", str(other.server_port))
    try:
        async with create(DenoConfig(jobs=1, judges=box_grant(judge), tier=tier)) as sandbox:
            program = await sandbox.load(Script(source, "typescript", "evaluate"), Limits())
            (told,) = await run(program, limits=Limits(timeout=1), model="slow-1.5")
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    assert told.status == "ok", told
    assert "score" in told.value["text"]
    assert set(told.value["others"]) == {"NotCapable"}


GOOD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


SIZED, CHUNKED = b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n"


class _Client:
    """A raw connection to a door."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def send(self, data: bytes, wait: float = 10) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(data)
        try:
            async with asyncio.timeout(wait):
                return await reader.read(1 << 16)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def door(judge: Any, **settings: Any) -> AsyncIterator[tuple[Broker, _Client]]:
    broker = Broker(grant(judge, secrets=(), **settings))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    opened = Door(broker, [(host_of(judge), listener, None)])
    await opened.open()
    try:
        yield broker, _Client(listener.getsockname()[1])
    finally:
        await opened.close()
        await broker.close()


async def test_a_door_serves() -> None:
    with fake_judge() as judge:
        async with door(judge) as (broker, client):
            reply = await client.send(GOOD)
            assert reply.startswith(b"HTTP/1.1 200 "), reply
            chunked = GOOD.replace(
                b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
            )
            assert (await client.send(chunked)).startswith(b"HTTP/1.1 200 ")
            assert broker.counts.calls == 2
        assert [request["body"] for request in judge.requests] == ["{}", "{}"]


def changed(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (changed(b"POST /v1", b"CONNECT api.openai.com:443 HTTP/1.1\r\nX: /v1"), 405),
        (changed(b"/v1/chat", b"http://127.0.0.1:1/v1/chat"), 405),
        (changed(b"/v1/chat", b"//127.0.0.1:1/v1/chat"), 400),
        (changed(b"/v1/chat", b"/v1/../v1/chat"), 400),
        (changed(b"POST", b"DELETE"), 405),
        (changed(b"POST", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nPOST"), 400),
        (changed(b"HTTP/1.1", b"HTTP/1.0"), 400),
        (changed(b"HTTP/1.1", b"HTTP/2"), 400),
        (changed(b"Host: x\r\n", b""), 400),
        (changed(b"Host: x", b"Host: x\r\nHost: y"), 400),
        (changed(b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 2"), 400),
        (changed(b"Content-Length: 2", b"Content-Length: 2\r\nTransfer-Encoding: chunked"), 400),
        (changed(b"Content-Length: 2", b"Content-Length: +2"), 400),
        (changed(b"Content-Length: 2", b"Content-Length: 0x2"), 400),
        (changed(b"Content-Length: 2", b"Content-Length : 2"), 400),
        (changed(b"Content-Length: 2", b"Content-Length: 99999999"), 413),
        (changed(b"Content-Length: 2", b"Transfer-Encoding: gzip, chunked"), 501),
        (changed(b"Content-Length: 2", b"Transfer-Encoding: \x0bchunked"), 400),
        (changed(b"Host: x", b"Host: x\nX: y"), 400),
        (changed(b"Host: x", b"Host: x\rX: y"), 400),
        (changed(b"Host: x", b"Host: x\r\n folded: y"), 400),
        (changed(b"Host: x", b"Host: x\r\nX: a\x00b"), 400),
        (changed(b"Host: x", b"Host: x\r\nX\x80: a"), 400),
        (changed(b"Host: x", b"Host: x\r\nUpgrade: websocket\r\nConnection: upgrade"), 417),
        (changed(b"Host: x", b"Host: x\r\nExpect: 100-continue"), 417),
        (changed(b"Host: x", b"X: " + b"y" * 70_000), 431),
        (changed(SIZED, CHUNKED + b"2;x=y\r\n{}\r\n0\r\n\r\n"), 400),
        (changed(SIZED, CHUNKED + b"2\n{}\r\n0\r\n\r\n"), 400),
        (changed(SIZED, CHUNKED + b"1\r\n{}\r\n0\r\n\r\n"), 400),
        (
            changed(SIZED, CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
            400,
        ),
        (changed(SIZED, CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n"), 400),
        (b"GET /v1/models HTTP/1.1\nHost: x\n\n", 431),
    ],
)
async def test_no_request_is_read_in_two_ways(data: bytes, status: int) -> None:
    with fake_judge() as judge:
        async with door(judge, paths=("/v1/chat/completions",)) as (_, client):
            reply = await client.send(data)
            assert reply.startswith(b"HTTP/1.1 %d " % status), reply[:200]
            assert b"x-should-retry: false" in reply
        assert not judge.requests


async def test_what_is_more_than_one_request_is_each_its_own() -> None:
    """Of two that come together the second is read as strictly, and is none of the first's body."""
    with fake_judge() as judge:
        async with door(judge) as (_, client):
            await client.send(GOOD + b"GET http://evil/ HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.1)
        assert len(judge.requests) <= 1


async def test_connections_are_bounded() -> None:
    with fake_judge() as judge:
        async with door(judge) as (_, client):
            held = [await asyncio.open_connection("127.0.0.1", client._port) for _ in range(CONNECTIONS)]
            await asyncio.sleep(0.1)
            assert await client.send(GOOD) == b""
            for _, writer in held:
                writer.close()
            await asyncio.sleep(0.1)
            assert (await client.send(GOOD)).startswith(b"HTTP/1.1 200 ")


async def test_what_is_sent_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxes.judges.door.BODIES_BYTES", 2 * LARGEST_REQUEST)
    large = GOOD.replace(b"Content-Length: 2", b"Content-Length: %d" % LARGEST_REQUEST)
    with fake_judge() as judge:
        async with door(judge) as (_, client):
            held = [await asyncio.open_connection("127.0.0.1", client._port) for _ in range(2)]
            for _, writer in held:
                writer.write(large)  # and the rest never comes
            await asyncio.sleep(0.1)
            assert (await client.send(GOOD)).startswith(b"HTTP/1.1 200 ")
            waiting = asyncio.create_task(client.send(large + b" " * (LARGEST_REQUEST - 2)))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            held[0][1].close()
            assert (await waiting).startswith(b"HTTP/1.1 200 ")
            held[1][1].close()


async def test_a_broken_stream_is_cut() -> None:
    with fake_judge() as judge:
        body = json.dumps({"model": "cut", "stream": True, "messages": [{"role": "user", "content": "x"}]}).encode()
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        async with door(judge) as (broker, client):
            reader, writer = await asyncio.open_connection("127.0.0.1", client._port)
            writer.write(request)
            got = await reader.read()
            writer.close()
            assert got.startswith(b"HTTP/1.1 200 ")
            assert not got.endswith(b"0\r\n\r\n")
            assert broker.counts.failed == 1


async def test_nothing_is_left_behind() -> None:
    source = ASKING + "def evaluate(model): return ask(model)"
    with fake_judge() as judge:
        before = sockets()
        async with opened(box_grant(judge, secrets=()), source) as (_, program):
            await run(program, model="judge")
            assert any(thread.name == "evalcell-judges" for thread in threading.enumerate())
        while sockets() > before:  # the judge closes its end when it has seen ours close
            await asyncio.sleep(0.02)
    assert not any(thread.name == "evalcell-judges" for thread in threading.enumerate())


def sockets() -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith("socket:") for link in links)


NO_NETWORK = """
import asyncio
from sandboxes import Limits, SandboxUnavailableError, Script, create
from sandboxes.judges.grant import Host, Judges
from sandboxes.process.sandbox import ProcessConfig

async def tried():
    judges = Judges(hosts=(Host(name="http://127.0.0.1:1"),))
    try:
        async with create(ProcessConfig(tier="B", jobs=1, judges=judges)) as sandbox:
            print(sandbox.identity)
    except SandboxUnavailableError as e:
        print(e)

asyncio.run(tried())
"""


def test_a_box_without_a_network_of_its_own_is_refused(tmp_path: Path) -> None:
    (line,) = told(sys.executable, WITHOUT_USERS + NO_NETWORK, tmp_path)
    assert "the process sandbox cannot start in tier B here" in line
    assert "a network of its own" in line


AS_USER = """
import asyncio, json, sys
from sandboxes import Call, Limits, Script, create
from sandboxes.judges.grant import Host, Judges
from sandboxes.process.sandbox import ProcessConfig

async def main(url, source, tier, beside):
    hosts = (Host(name=url, variables={"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "none"}),)
    judges = Judges(hosts=hosts, beside=beside)
    async with create(ProcessConfig(tier=tier, jobs=1, judges=judges)) as sandbox:
        program = await sandbox.load(Script(source, "python", "evaluate"), Limits())
        sandbox.broker.rows |= {0: ("a", 1), 1: ("b", 1)}
        async def run(number):
            async for execution in program.run([Call(id=number, arguments={"model": "slow-0.5"})], Limits()):
                return execution.status, "score" in execution.value
        both = await asyncio.gather(run(0), run(1))
        print(sandbox.manifest["tier"], sandbox.seats, both, sorted(sandbox.broker.waits))
"""


@pytest.mark.parametrize("beside", [False, True])
def test_an_ordinary_user_asks(tier: Tier, beside: bool, as_user: Callable[[str], list[str]]) -> None:  # noqa: F811
    source = ASKING + "def evaluate(model): return ask(model)"
    with fake_judge() as judge:
        lines = as_user(f"{AS_USER}\nasyncio.run(main({host_of(judge)!r}, {source!r}, {tier!r}, {beside}))")
    assert lines == [f"{tier} {16 * beside} [('ok', True), ('ok', True)] [('a', 1), ('b', 1)]"]
