"""Hosts as scripts write them: `https://…` in a box is the broker's, whose key and name it never learns."""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Execution, Limits, Script
from sandboxes.boxes.launch import Tier
from sandboxes.deno.sandbox import DenoConfig
from sandboxes.errors import SandboxUnavailableError
from sandboxes.judges.exchange import JudgeReply, JudgeRequest
from sandboxes.judges.grant import Host, Judges, Secret
from sandboxes.judges.host_doors import written_hosts
from sandboxes.judges.record import Places, RecordWriter, exchange_line
from sandboxes.process.sandbox import ProcessConfig
from sandboxes.registry import create
from tests.judges.judge import KEY, VARIABLE, fake_judge, host_of, text_of
from tests.judges.test_broker import _certificate as certificate

NAME = "judge.example"
BODY = {"model": "echo", "messages": [{"role": "user", "content": "?"}]}
POSTS = f"""
import json, os, urllib.request

def post(url, body={BODY!r}):
    headers = {{"Authorization": "Bearer " + os.environ["{VARIABLE}"], "Content-Type": "application/json"}}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        return reply.read().decode()

def evaluate(url):
    return post(url)
"""
FETCHES = f"""
export async function evaluate({{ url }}: {{ url: string }}) {{
  const headers = {{ Authorization: "Bearer " + Deno.env.get("{VARIABLE}"), "Content-Type": "application/json" }};
  const reply = await fetch(url, {{ method: "POST", headers, body: JSON.stringify({json.dumps(BODY)}) }});
  return await reply.text();
}}
"""
CLIENTS = {
    "requests": "import requests\ndef ask(url, body, key):\n"
    "    return requests.post(url + '/chat/completions', json=body, headers={'Authorization': 'Bearer ' + key}).text",
    "httpx": "import httpx\ndef ask(url, body, key):\n"
    "    return httpx.post(url + '/chat/completions', json=body, headers={'Authorization': 'Bearer ' + key}).text",
    "aiohttp": "import aiohttp, asyncio\nasync def post(url, body, key):\n"
    "    async with aiohttp.ClientSession() as s:\n"
    "        headers = {'Authorization': 'Bearer ' + key}\n"
    "        async with s.post(url + '/chat/completions', json=body, headers=headers) as reply:\n"
    "            return await reply.text()\n"
    "def ask(url, body, key):\n    return asyncio.run(post(url, body, key))",
    "openai": "import openai\ndef ask(url, body, key):\n    client = openai.OpenAI(base_url=url, api_key=key)\n"
    "    return client.chat.completions.create(**body).model_dump_json()",
}


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A judge behind TLS, whose name only this process can resolve."""
    pytest.importorskip("cryptography")
    pem = certificate(tmp_path, NAME)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv(VARIABLE, KEY)
    lookup = socket.getaddrinfo

    def here(host: Any, *more: Any, **named: Any) -> Any:
        return lookup("127.0.0.1" if host == NAME else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    with fake_judge(cert=str(pem), require_key=KEY) as judge:
        yield judge


def grant(judge: Any) -> Judges:
    name = f"https://{NAME}:{judge.server_port}"
    return Judges(hosts=(Host(name=name),), secrets=(Secret(variable=VARIABLE, host=name),))


async def run(judges: Judges, source: str, *urls: str, tier: Tier | None = None, **more: Any) -> list[Execution]:
    typescript = source == FETCHES
    config = (DenoConfig if typescript else ProcessConfig)(jobs=1, judges=judges, tier=tier, **more)
    sandbox = create(config)
    try:
        async with sandbox:
            script = Script(source, "typescript" if typescript else "python", "evaluate")
            program = await sandbox.load(script, Limits(load_timeout=60))
            assert program.loaded.status == "ok", program.loaded
            calls = [Call(id=number, arguments={"url": url}) for number, url in enumerate(urls)]
            found = [one async for one in program.run(calls, Limits(timeout=30))]
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    return sorted(found, key=lambda one: one.call)


@pytest.mark.parametrize("source", [POSTS, FETCHES], ids=["urllib", "fetch"])
async def test_a_written_host_is_the_brokers_and_no_other_is_there(judge: Any, source: str) -> None:
    port = judge.server_port
    written, other, elsewhere, plain = await run(
        grant(judge),
        source,
        f"https://{NAME}:{port}/v1/chat/completions",
        f"https://{NAME}:{port + 1 if port < 65535 else port - 1}/v1/chat/completions",
        "https://other.example/v1/chat/completions",
        f"http://{NAME}:{port}/v1/chat/completions",
        tier="A",
    )
    assert written.status == "ok", written
    assert "Bearer ***" in text_of(written.value.encode())
    assert KEY not in str(written)
    assert {other.status, elsewhere.status, plain.status} == {"error"}
    (request,) = judge.requests
    headers = dict(request["headers"])
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["host"] == f"{NAME}:{port}"


async def test_a_box_without_a_file_of_hosts_has_none(judge: Any) -> None:
    (written,) = await run(grant(judge), POSTS, f"https://{NAME}:{judge.server_port}/v1/chat/completions", tier="B")
    assert written.status == "error"
    assert not judge.requests


async def test_a_known_service_is_answered_from_a_record_at_its_own_port(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    host, path = "api.openai.com", "/v1/chat/completions"
    request = JudgeRequest(host, "POST", path, "", (), json.dumps(BODY).encode())
    writer = RecordWriter(str(tmp_path / "record"), more=False)
    reply = JudgeReply(200, (("content-type", "application/json"),), b'{"a": 1}')
    writer.write(exchange_line(Places().next(request), request, reply, None, 0))
    writer.close()
    judges = Judges(
        hosts=(Host(name=host),),
        secrets=(Secret(variable=VARIABLE, host=host),),
        replay=str(tmp_path / "record"),
    )
    (replayed,) = await run(judges, POSTS, f"https://{host}{path}", tier="A")
    assert replayed.value == '{"a": 1}', replayed


async def test_a_local_judge_is_where_a_script_writes_it() -> None:
    os.environ.setdefault(VARIABLE, KEY)
    with fake_judge() as judge:
        name = host_of(judge)
        judges = Judges(hosts=(Host(name=name, variables={VARIABLE: "none"}),))
        (written,) = await run(judges, POSTS, f"{name}/v1/chat/completions", tier="A")
        assert written.status == "ok", written
        assert len(judge.requests) == 1


async def test_two_names_of_one_place_leave_the_box_as_strong(judge: Any) -> None:
    port = host_of(judge).rpartition(":")[2]
    names = (f"http://127.0.0.1:{port}", f"http://localhost:{port}", "judge.example", "https://127.0.1.3:443")
    judges = Judges(hosts=tuple(Host(name=name) for name in names))
    async with create(ProcessConfig(jobs=1, judges=judges)) as sandbox:
        assert "in use" not in str(sandbox.manifest["not_available"])


def test_the_authority_is_for_the_granted_names_alone() -> None:
    pytest.importorskip("cryptography")
    from cryptography import x509

    names = ("api.openai.com", "https://judge.example:8443", "https://127.0.0.1:9443", "http://10.0.0.7:80")
    found = written_hosts(Judges(hosts=tuple(Host(name=name) for name in names)))
    assert [(door.name, door.port, door.tls) for door in found.doors] == [
        ("api.openai.com", 443, True),
        ("judge.example", 8443, True),
        ("127.0.0.1", 9443, True),
    ]
    assert len({door.address for door in found.doors}) == 3
    authority = x509.load_pem_x509_certificate(found.authority)
    allowed = authority.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees
    assert allowed is not None
    assert [str(one.value) for one in allowed] == ["api.openai.com", "judge.example", "127.0.0.1/32"]
    assert b"PRIVATE" not in b"".join(found.files().values())
    for door, own in zip(found.doors, found.contexts, strict=True):
        assert own is not None
        _shake(own, found.authority, door.name)
        for strange in ("other.example", "sub.judge.example"):
            with pytest.raises(ssl.SSLCertVerificationError):
                _shake(own, found.authority, strange)
    again = written_hosts(Judges(hosts=(Host(name=names[0]),)))
    with pytest.raises(ssl.SSLCertVerificationError):  # each sandbox has its own
        _shake(again.contexts[0], found.authority, "api.openai.com")


def _shake(server: Any, authority: bytes, name: str) -> None:
    """Shake hands in memory."""
    client = ssl.create_default_context(cadata=authority.decode())
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname=name), server.wrap_bio(there, back, server_side=True)]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                raise
            except ssl.SSLError:
                pass  # the server was told
    assert ends[0].version() is not None


@pytest.mark.thorough("it installs clients; test_a_written_host_is_the_brokers stands for them")
@pytest.mark.parametrize("client", CLIENTS)
async def test_clients_trust_the_authority(judge: Any, client: str) -> None:
    body = {"model": "judge", "messages": [{"role": "user", "content": "?"}]}
    source = (
        f"import os\n{CLIENTS[client]}\ndef evaluate(url):\n    return ask(url, {body!r}, os.environ['{VARIABLE}'])\n"
    )
    url = f"https://{NAME}:{judge.server_port}/v1"
    (written,) = await run(grant(judge), source, url, tier="A", packages=(client,))
    assert written.status == "ok", written
    assert "score" in text_of(written.value.encode())
