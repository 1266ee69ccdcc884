"""Scripts with clients of their own where no host serves them an address: their requests go between calls."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import JudgeSettings, SandboxConfig, UnsupportedConfigError, evaluate
from sandboxes import Limits
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessSandbox
from sandboxes.process.sandbox import ProcessConfig
from tests.containers import local
from tests.judges.judge import KEY, VARIABLE, fake_judge, host_of
from tests.judges.test_door import ASKING, memory
from tests.judges.test_runs import SWALLOWS
from tests.remote import served

KEYS = [KEY.encode(), base64.b64encode(KEY.encode()).rstrip(b"=")]
GATHERS = """
import asyncio, json, os

async def ask(text):
    host, port = os.environ["OPENAI_BASE_URL"].removeprefix("http://").removesuffix("/v1").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": text}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\\r\\nhost: {host}\\r\\ntransfer-encoding: chunked\\r\\n"
    head += f"authorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n\\r\\n{len(body):x}\\r\\n"
    writer.write(head.encode() + body + b"\\r\\n0\\r\\n\\r\\n")
    head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().lower()
    size = int(head.partition("content-length:")[2].split()[0])
    writer.close()
    return json.loads(await reader.readexactly(size))["choices"][0]["message"]["content"]

async def evaluate(output):
    texts = await asyncio.gather(*(ask(text) for text in ("same", "same", "a", "b", output)))
    return {"score": len(set(texts)), "label": await ask(texts[-1])}
"""


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv(VARIABLE, KEY)
    with fake_judge(require_key=KEY) as judge:
        yield judge


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if boxes of this machine had no way to the host, either."""
    without_door(monkeypatch)


def without_door(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProcessSandbox, "capabilities", ProcessSandbox.capabilities.model_copy(update={"judges": False}))


def run(judge: Any, source: str, *outputs: str, sandbox: SandboxConfig | None = None, **more: Any) -> Any:
    script, rows = Path("script.py"), [{"id": str(at), "output": one} for at, one in enumerate(outputs)]
    script.write_text(source)
    host = host_of(judge)
    names = ("budget", "record", "replay", "judge_timeout")
    settings = {name: more.pop(name) for name in names if name in more}
    judges = JudgeSettings(judge=(f"{host}/v1",), secret=(f"{VARIABLE}@{host}",), **settings)
    limits = Limits(timeout=60, load_timeout=60)
    sandbox = sandbox or SandboxConfig(backend="process", jobs=2)
    return evaluate(script, rows, judges=judges, limits=limits, sandbox=sandbox, seed=1, **more)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plain(report: Any) -> list[dict[str, Any]]:
    return [one.model_dump(exclude={"duration_ms", "waiting_ms", "exchanges"}) for one in report.results]


@pytest.mark.parametrize("source", [GATHERS, SWALLOWS], ids=["asyncio", "urllib"])
def test_rows_and_records_are_those_of_the_door(judge: Any, tier: Tier, source: str) -> None:
    given = (source, "judge", "say-1", "judge+x")
    config = ProcessConfig(tier=tier, jobs=2)
    door = run(judge, *given, sandbox=config, record="door.jsonl")
    asked = len(judge.requests)
    with pytest.MonkeyPatch.context() as patch:
        without_door(patch)
        rounds = run(judge, *given, sandbox=config, record="rounds.jsonl")
        again = run(judge, *given, sandbox=config, replay="door.jsonl")
    assert len(judge.requests) == 2 * asked
    assert {one.outcome for one in door.results} == {"scored"}
    for other in (rounds, again, run(judge, *given, sandbox=config, replay="rounds.jsonl")):
        assert plain(other) == plain(door)
    assert len(judge.requests) == 2 * asked
    assert lines("rounds.jsonl") == lines("door.jsonl")


def lines(record: str) -> list[tuple[Any, ...]]:
    """What a record says, in no order."""
    found = map(json.loads, Path(record).read_text().splitlines())
    return sorted((one["row"], one["key"], one["n"], json.dumps(one["request"]), one["status"]) for one in found)


def test_what_a_script_does_with_its_way_out_is_no_score(judge: Any, rounds: None) -> None:
    """It swallows what ends its call, says that it was answered, or asks what it may not: rows are lost or failed."""
    swallows = ASKING + "def evaluate(output):\n    try: ask(output)\n    except BaseException: pass\n    return 1\n"
    assert [one.outcome for one in run(judge, swallows, "judge", "error-500", judge_timeout=1).results] == [
        "scored",
        "lost",
    ]
    forged = "def evaluate(output, **more):\n    return {'ask': [%s]}\n"
    for ask in ("{}", "{'http': [8712, 'GET /', ''], 'headers': []}", "{'http': [8711, 'GET /', 1], 'headers': []}"):
        (one,) = run(judge, forged % ask, "x").results
        assert (one.outcome, "no request" in str(one.error)) == ("failed", True), one.error
    many = "{'http': [8711, 'POST /v1/models', ''], 'headers': []}"
    (one,) = run(judge, forged % ", ".join([many] * 65), "x").results
    assert "65 judges at once" in str(one.error)
    (one,) = run(
        judge, ASKING + "import time\ndef evaluate(output): return ask(output, user=str(time.time()))\n", "j"
    ).results
    assert (one.outcome, "must ask the same again" in str(one.error)) == ("failed", True)


def test_nothing_else_is_to_be_had(judge: Any, rounds: None) -> None:
    source = (
        "import socket\ndef evaluate(output):\n    found = []\n"
        "    for place in (('127.0.0.1', 8712), ('127.0.0.1', PORT), ('1.1.1.1', 443), ('127.0.0.1', 8711)):\n"
        "        try: socket.create_connection(place, 1).close(); found.append('open')\n"
        "        except OSError as error: found.append(type(error).__name__)\n"
        "    return ' '.join(found)\n"
    )
    (one,) = run(judge, source.replace("PORT", str(judge.server_port)), "x").results
    assert one.label == "PermissionError PermissionError PermissionError open"


def test_what_is_no_http_is_refused_at_once(judge: Any, rounds: None) -> None:
    source = (
        "import socket\ndef evaluate(output):\n    asking = socket.create_connection(('127.0.0.1', 8711))\n"
        "    asking.sendall(b'POST / HTTP/1.1\\r\\n' + output.encode())\n"
        "    return asking.recv(99).split()[1].decode()\n"
    )
    chunked, longest = "Transfer-Encoding: chunked\r\n\r\n", "a" * (64 << 10)
    wrong = (f"{chunked}-5\r\nx", f"{chunked}x\r\n", "Content-Length: -5\r\n\r\n", f"a: {longest}")
    assert [one.label for one in run(judge, source, *wrong).results] == ["400"] * len(wrong)


def test_what_counts_the_results_has_the_variables_and_asks_nobody(judge: Any, rounds: None) -> None:
    source = ASKING + "CLIENT = os.environ['OPENAI_API_KEY']\ndef evaluate(output): return len(ask(output))\n"
    report = run(judge, source + "def aggregate(results): return {'count': len(results)}\n", "judge", "judge+x")
    assert report.summary.aggregates == {"count": 2}
    report = run(judge, source + "def aggregate(results): return {'count': len(ask('judge'))}\n", "judge")
    assert "aggregate cannot ask a judge" in str(report.summary.aggregate_error)
    assert len(judge.requests) == 3


@pytest.mark.rotating("clients' requests between calls", "remote", "judges")
@pytest.mark.parametrize("name", ["docker", "e2b", "modal", "vercel", "daytona"])
def test_a_client_asks_from_another_machine(judge: Any, name: str, tmp_path: Path) -> None:
    if name == "docker" and (why := local.missing()):
        pytest.skip(why)
    config = local.config() if name == "docker" else served.config(name)
    source = SWALLOWS.replace("def evaluate", "import os\n\ndef evaluate").replace(
        "    try:", "    print(*os.environ.values())\n    try:"
    )
    report = run(judge, source, *["judge"] * 60, sandbox=config, budget="requests=20", output="run/")
    assert sorted(one.outcome for one in report.results) == ["lost"] * 40 + ["scored"] * 20
    assert len(judge.requests) == 20
    held = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    held += [memory(served.server(name)._process.pid)] if name != "docker" else []  # what was sent to machines
    assert b"evalcell-OPENAI_API_KEY" in b"".join(held)
    assert not [key for key in KEYS for data in held if key in data]


@pytest.mark.parametrize(("on", "backend"), [("ray", "deno"), (None, "e2b"), ("ray", "wasm")])
def test_where_no_client_can_ask_it_says_how(judge: Any, on: str | None, backend: str) -> None:
    script = "script.py" if backend == "wasm" else "script.ts"
    Path("script.py").write_text("def evaluate(output):\n    return output\n")
    Path("script.ts").write_text("export const evaluate = ({ output }: { output: string }) => output;\n")
    judges = JudgeSettings(judge=(f"{host_of(judge)}/v1",))
    with pytest.raises(UnsupportedConfigError, match=r"has no way to a judge.*ask by `.*evalcell_judge") as refused:
        evaluate(script, [{"output": "x"}], judges=judges, sandbox=backend, on=on)
    assert ("from evalcell_judge import" in str(refused.value)) == (backend == "wasm")
