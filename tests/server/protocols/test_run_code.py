"""SandboxFusion's protocol: replies by the facts, and no fault of ours as a wrong program."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from runner.server.service.protocols import sandbox_fusion
from runner.server.service.settings import ServiceSettings
from sandboxes.host.cores import cores
from tests.server.http.live import Live, live
from tests.server.protocols.ours import fault
from tests.server.protocols.trainers import API_ERROR, RUNTIME_ERROR, TIMEOUT, skyrl_case, verl_case

DOUBLE = "print(int(input()) * 2)"


@pytest.fixture(scope="module", autouse=True)
def _usable(client: httpx.Client) -> None:
    if "process" not in str(client.get("/readyz").json()["sandboxes"].keys()):
        pytest.skip("there is no process sandbox here")


def ran(client: httpx.Client, code: str, **more: Any) -> dict[str, Any]:
    reply = client.post("/run_code", json={"code": code, "language": "python", **more})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    assert set(found) == {"status", "message", "compile_result", "run_result", "executor_pod_name", "files"}
    return found


def test_a_program_gets_its_input_and_its_output_comes_back(client: httpx.Client) -> None:
    found = ran(client, DOUBLE, stdin="21\n")
    seconds = found["run_result"].pop("execution_time")
    assert found == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "run_result": {"status": "Finished", "return_code": 0, "stdout": "42\n", "stderr": ""},
        "executor_pod_name": None,
        "files": {},
    }
    assert 0 < seconds < 10
    assert client.get("/v1/ping").json() == "pong"


@pytest.mark.parametrize(
    ("code", "returned", "stdout", "stderr"),
    [
        ("import sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.exit(3)", 3, "a\n", "b\n"),
        ("raise SystemExit('bad')", 1, "", "bad\n"),
        ("import sys\nsys.exit(256)", 0, "", ""),
        ("print('a', end='')\nimport os\nos._exit(7)", 7, "", ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -15, "", ""),
        ("print(__name__, __file__.endswith('main.py'))", 0, "__main__ True\n", ""),
        (
            "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
            0,
            "late\n",
            "",
        ),
        ("import atexit\natexit.register(print, 'bye')", 0, "bye\n", ""),
        ("class A:\n    def __del__(self):\n        print('gone')\n\na = A()\n", 0, "gone\n", ""),
        ("import sys\nprint(repr(sys.stdin.read()), sys.argv[1:])", 0, "'' []\n", ""),
        ("print('é😀')", 0, "é😀\n", ""),
    ],
)
def test_it_ends_as_an_interpreter_of_its_own_would(
    client: httpx.Client, code: str, returned: int, stdout: str, stderr: str
) -> None:
    found = ran(client, code)
    run = found["run_result"]
    assert (run["status"], run["return_code"], run["stdout"], run["stderr"]) == ("Finished", returned, stdout, stderr)
    assert found["status"] == ("Success" if returned == 0 else "Failed")


def test_an_exception_is_told_with_the_program_s_own_frames(client: httpx.Client) -> None:
    run = ran(client, "def f():\n    raise ValueError('no')\n\nf()\n")["run_result"]
    lines = run["stderr"].splitlines()
    assert (run["return_code"], lines[0], lines[-1]) == (1, "Traceback (most recent call last):", "ValueError: no")
    assert [line for line in lines if "File" in line and "main.py" not in line] == []
    assert "raise ValueError('no')" in run["stderr"]
    wrong = ran(client, "x = (")["run_result"]
    assert wrong["return_code"] == 1
    assert "SyntaxError" in wrong["stderr"]


def test_files_go_there_and_back(client: httpx.Client) -> None:
    code = "text = open('data/a.txt').read()\nopen('out.txt', 'w').write(text * 2)\n"
    found = ran(client, code, files={"data/a.txt": "aGk="}, fetch_files=["out.txt", "none.txt"])
    assert (found["status"], found["files"]) == ("Success", {"out.txt": "aGloaQ=="})
    assert ran(client, "import os\nprint(os.listdir())")["run_result"]["stdout"] == "['main.py']\n"


JAVASCRIPT = {
    "prints": ("console.log('a', 1, [1, 'b'], { c: { d: { e: {} } } }, null)", None),
    "reads": ("console.log(require('fs').readFileSync(0, 'utf8').split(' ').map(Number))", "1 2"),
    "reads lines": (
        "let n = 0; require('readline').createInterface({ input: process.stdin })"
        ".on('line', (l) => n += +l).on('close', () => console.log(n))",
        "20\n22\n",
    ),
    "leaves": ("process.stdin.on('data', (d) => { console.log(+d); process.exit(3); console.log('no'); })", "5"),
    "leaves where it catches": ("try { process.exit(0); } catch { console.log('no'); process.exit(1); }", None),
    "throws": ("console.log('before'); throw new TypeError('bad');", None),
    "rejects": ("Promise.reject(new Error('bad')); setTimeout(() => console.log('never'), 500);", None),
    "says it failed": ("process.exitCode = 5; console.log('x');", None),
    "waits": (
        "let n = 0; const t = setInterval(() => { console.log(n); if (++n === 3) clearInterval(t); }, 5);",
        None,
    ),
    "promises": (
        "const wait = require('util').promisify(setTimeout); (async () => { await wait(5); console.log('late'); })();",
        None,
    ),
    "asserts": ("require('assert').strictEqual(1, 2)", None),
    "groups": ("console.group('g'); console.log('in'); console.groupEnd(); console.count(); console.dir([[]]);", None),
    "asserts softly": ("console.assert(1 === 2); console.assert(1 === 2, 'no'); console.assert(true);", None),
    "syntax": ("let x = (", None),
}


@pytest.fixture(scope="module")
def node() -> str:
    return shutil.which("node") or pytest.skip("there is no Node here")


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_javascript_ends_as_by_node(client: httpx.Client, node: str, name: str) -> None:
    code, stdin = JAVASCRIPT[name]
    own = subprocess.run([node, "-e", code], input=stdin or "", capture_output=True, text=True)
    run = ran(client, code, stdin=stdin, language="nodejs")["run_result"]
    assert (run["status"], run["return_code"], run["stdout"]) == ("Finished", own.returncode, own.stdout)
    assert bool(run["stderr"]) == bool(own.stderr)


def test_what_is_no_character_is_replaced(client: httpx.Client) -> None:
    code = "console.log('a\\ud800'); console.error('b\\udfff'); throw new Error('c\\ud800')"
    run = ran(client, code, language="nodejs")["run_result"]
    assert (run["stdout"], run["stderr"][:2], "c\ufffd" in run["stderr"]) == ("a\ufffd\n", "b\ufffd", True)


def test_typescript_runs_with_its_files(client: httpx.Client) -> None:
    code = (
        "import * as fs from 'fs';\nimport { twice } from './own.js';\nenum Kind { One = 1 }\n"
        "const text: string = fs.readFileSync('data/a.txt', 'utf8');\nfs.writeFileSync('out.txt', twice(text));\n"
        "console.log(Kind.One, fs.existsSync('none'));\n"
    )
    own = base64.b64encode(b"exports.twice = (x) => x + x;").decode()
    files = {"data/a.txt": "aGk=", "own.js": own}
    found = ran(client, code, language="typescript", files=files, fetch_files=["out.txt", "none"])
    assert (found["run_result"]["stdout"], found["status"], found["files"]) == (
        "1 false\n",
        "Success",
        {"out.txt": "aGloaQ=="},
    ), found
    typed = "const x: number = 1;"
    assert ran(client, typed, language="typescript")["status"] == "Success"
    assert ran(client, "let x: = 1", language="typescript")["run_result"]["return_code"] == 1


@pytest.mark.parametrize(
    ("code", "status", "more"),
    [
        ("console.log('a'); for (;;);", "TimeLimitExceeded", {"run_timeout": 1}),
        ("console.log('a'); setTimeout(() => {}, 1e9);", "TimeLimitExceeded", {"run_timeout": 1}),
        (
            "const x = []; for (;;) x.push(new Array(1e5).fill(x.length));",
            "Finished",
            {"run_timeout": 20, "memory_limit_MB": 128},
        ),
        ("for (;;) console.log('a'.repeat(1000));", "Finished", {}),
        ("require('child_process').execSync('ls')", "Finished", {}),
    ],
)
def test_javascript_is_ended_by_its_limits(client: httpx.Client, code: str, status: str, more: Any) -> None:
    found = ran(client, code, language="nodejs", **more)
    run = found["run_result"]
    assert (found["status"], run["status"]) == ("Failed", status)
    if status == "TimeLimitExceeded":
        assert (run["return_code"], run["stdout"], run["execution_time"] >= 1) == (None, "a\n", True)
    else:
        assert run["return_code"] != 0
        assert run["stderr"]


def test_limits_end_the_program_and_nothing_else(client: httpx.Client) -> None:
    run = ran(client, "print('a', flush=True)\nwhile True:\n    pass\n", run_timeout=1)["run_result"]
    assert (run["status"], run["return_code"], run["stdout"]) == ("TimeLimitExceeded", None, "a\n")
    assert run["execution_time"] >= 1
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    assert ran(client, bomb, run_timeout=1)["run_result"]["status"] == "TimeLimitExceeded"
    assert (
        ran(client, "x = []\nwhile True:\n    x.append('a' * 10**6)\n", memory_limit_MB=128)["run_result"][
            "return_code"
        ]
        != 0
    )
    flood = ran(client, "while True:\n    print('a' * 1000)\n")["run_result"]
    assert flood["return_code"] != 0
    assert "wrote more" in flood["stderr"]
    killed = ran(client, "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)\n")
    assert (killed["status"], killed["run_result"]["return_code"]) == ("Failed", -9)
    assert ran(client, DOUBLE, stdin="1")["status"] == "Success"


def test_other_languages_and_requests_are_refused(client: httpx.Client) -> None:
    for language in ("cpp", "jest", "R"):
        found = ran(client, "x", language=language)
        assert (found["status"], found["run_result"]) == ("SandboxError", None)
        assert found["message"]
    wrong: list[Any] = [
        {},
        [],
        {"code": 1, "language": "python"},
        {"code": "", "language": "python", "run_timeout": -1},
        {"code": "", "language": "klingon"},
    ]
    for body in wrong:
        reply = client.post("/run_code", json=body)
        assert reply.status_code == 422
        assert reply.json()["detail"]
    assert client.post("/run_code", content=b"{").status_code == 400
    assert client.post("/run_code", content=b" " * (17 << 20)).status_code == 413


FAULTS = {
    "right": (DOUBLE, True),
    "wrong answer": ("print(1)", False),
    "raises": ("1 / 0", RUNTIME_ERROR),
    "slow": ("while True:\n    pass\n", TIMEOUT),
    "memory": ("x = 'a' * 10**10", RUNTIME_ERROR),
    "killed": ("import os\nos.kill(os.getpid(), 9)", RUNTIME_ERROR),
    "too much output": ("print('a' * 2_000_000)", RUNTIME_ERROR),
    "syntax": ("x = (", RUNTIME_ERROR),
}


@pytest.mark.parametrize("name", FAULTS)
def test_verl_sees_what_the_program_did(server: Live, name: str) -> None:
    code, outcome = FAULTS[name]
    assert verl_case(f"{server.url}/run_code", code, "21\n", "42", run_timeout=2) == (outcome, [200])


def test_skyrl_sees_what_the_program_did(server: Live) -> None:
    url = f"{server.url}/run_code"
    assert skyrl_case(url, DOUBLE, "21\n", 30) == (True, "42\n")
    ran_well, said = skyrl_case(url, "print('a')\n1 / 0", None, 30)
    assert not ran_well
    assert "a\n" in said
    assert "ZeroDivisionError" in said
    assert not skyrl_case(url, "while True:\n    pass\n", None, 1)[0]


def test_programs_that_are_lost_are_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_fusion, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(sandbox_fusion, "GRACE_SECONDS", 1.0)
    with live(tmp_path) as own:
        url = f"{own.url}/run_code"
        assert verl_case(url, DOUBLE, "21\n", "42")[0] is True
        for kind in ("full", "lost"):
            with fault(kind, own, monkeypatch):
                assert verl_case(url, DOUBLE, "21\n", "42", run_timeout=1) == (API_ERROR, [504] * 3), kind
            assert verl_case(url, DOUBLE, "21\n", "42")[0] is True
        with fault("stopping", own, monkeypatch):
            assert verl_case(url, DOUBLE, "21\n", "42") == (API_ERROR, [504] * 3)


def test_a_program_that_has_waited_runs_in_the_time_that_is_left(tmp_path: Path) -> None:
    with live(tmp_path) as own, ThreadPoolExecutor() as threads:
        url = f"{own.url}/run_code"
        assert skyrl_case(url, DOUBLE, "21\n", 30) == (True, "42\n")
        before = [threads.submit(skyrl_case, url, "import time\ntime.sleep(4)", None, 30) for _ in range(cores() + 1)]
        while not own.service.places.locked():
            time.sleep(0.01)
        assert skyrl_case(url, DOUBLE, "21\n", 30) == (True, "42\n")
        assert all(one.result()[0] for one in before)


def test_a_worker_that_is_lost_once_costs_no_reward(tmp_path: Path) -> None:
    with live(tmp_path) as own:
        url = f"{own.url}/run_code"
        assert verl_case(url, DOUBLE, "21\n", "42")[0] is True
        with ThreadPoolExecutor(8) as threads:
            sleeps = [
                threads.submit(verl_case, url, "import time\ntime.sleep(0.5)\nprint(4)", None, "4") for _ in range(8)
            ]
            for worker in own.service.pool._workers.values():
                assert worker.pid is not None
                os.kill(worker.pid, 9)
            assert [one.result() for one in sleeps] == [(True, [200])] * 8


def test_many_at_once_wait_in_their_order(server: Live) -> None:
    async def all_of_them(count: int) -> list[int]:
        ended = []

        async def one(client: httpx.AsyncClient, number: int) -> None:
            asked = {"code": DOUBLE, "language": "python", "stdin": str(number)}
            reply = await client.post("/run_code", json=asked)
            assert reply.json()["run_result"]["stdout"] == f"{2 * number}\n"
            ended.append(number)

        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.url, timeout=90, limits=limits) as client:
            await asyncio.gather(*(one(client, number) for number in range(count)))
        return ended

    assert sorted(asyncio.run(all_of_them(100))) == list(range(100))


@pytest.mark.parametrize(
    "told", [{}, [], "x", {"late": False, "seconds": "a", "code": {}, "stdout": 1, "stderr": None}]
)
def test_an_end_that_the_program_changed_is_no_success(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(*_: object) -> Any:
        return told

    monkeypatch.setattr(sandbox_fusion, "call_wrapper", call)
    service: Any = SimpleNamespace(settings=ServiceSettings(), places=asyncio.Semaphore(1))
    reply = asyncio.run(sandbox_fusion.run_program(service, sandbox_fusion.ProgramRequest(code="", language="python")))
    assert reply.status == "Failed"
    assert reply.run_result is not None
    assert (reply.run_result.return_code, reply.files) == (-9, {})
