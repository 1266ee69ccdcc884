"""
Other tools' released clients, unmodified, against `evalcell serve`: scores, failures, and never a failure as a score.

`make test-vendors` runs this. It installs the tools, so that no other tests do.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.inputs.foreign.vendors.environment import HERE, TIME, node, python
from tests.server.http.served import Served
from tests.server.http.test_langfuse import PYTHON, TYPESCRIPT, asked
from tests.server.protocols.test_opik import RULES
from tests.server.protocols.test_opik import metric as of_stand_in
from tests.server.protocols.test_saved import SAME

SECRET = "a-secret-of-32-characters-or-so."
NAME = "code-based-eval-executor-python"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("state"), EVALCELL_LANGFUSE_SECRET=SECRET)
    try:
        found.post("/v1/evaluators", json={"name": "same", "source": SAME})
        found.post("/v1/evaluate", json={"evaluator": "same", "rows": [{"output": "a", "reference": "a"}]})
        yield found
    finally:
        found.end()


def client(command: Sequence[str | Path], lines: Sequence[Any], **variables: str) -> list[Any]:
    """What a client prints for what it reads, a line each."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | variables
    done = subprocess.run([*command], input=text, capture_output=True, text=True, timeout=TIME, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "[", "n"))]


def metric(*returned: str) -> str:
    """A metric that needs no class of the stand-in for the package."""
    return of_stand_in(*returned).replace("from opik.evaluation.metrics import Aaa\n", "")


@pytest.mark.timeout(900)
def test_langfuse_s_client_of_aws_lambda(served: Served) -> None:
    folder = node("aws-lambda")
    command = [folder / "bin" / "node", HERE / "oracles" / "aws_lambda_client.mjs", folder]
    keys = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": SECRET}
    bodies = [
        asked(PYTHON),
        asked(TYPESCRIPT, "TYPESCRIPT"),
        asked("def evaluate(ctx):\n    return {}['k']\n"),
        asked("def evaluate(ctx):\n    while True:\n        pass\n"),
        asked("def evaluate(ctx):\n    x = 'a' * 10**10\n"),
        asked("x ="),
        {},
    ]
    url = f"{served.url}/v1/langfuse/lambda"
    client([*command, url, NAME], bodies[:2], **keys)  # the first ones of a language may come too late
    found = client([*command, url, NAME], bodies, **keys)
    assert ["scores" in one for one in found] == [True, True, *[False] * 5]
    codes = [one.get("error", one).get("code", one.get("name")) for one in found[2:]]
    assert codes == [
        *("USER_CODE_ERROR", "TIMEOUT", "USER_CODE_ERROR", "INVALID_SOURCE"),
        "InvalidParameterValueException",
    ]
    (wrong,) = client([*command, url, NAME], bodies[:1], **{**keys, "AWS_SECRET_ACCESS_KEY": "x" * 40})
    assert wrong == {"name": "AccessDeniedException", "status": 403, "attempts": 1}


@pytest.mark.timeout(900)
def test_opik_s_package_in_the_sandbox(served: Served) -> None:
    until = time.monotonic() + TIME
    body: dict[str, Any] = {"code": metric(), "data": {"output": "4", "reference": "4"}}
    while (reply := httpx.post(served.url + RULES, json=body, timeout=120)).status_code == 503:
        assert time.monotonic() < until, reply.text  # it is being installed
    if reply.status_code != 200:
        pytest.skip(f"opik: {reply.text[:300]}")
    assert reply.json() == {"scores": [{"name": "same", "value": 1.0, "reason": "compared", "scoring_failed": False}]}
    thread = (
        "from opik.evaluation.metrics import BaseMetric, Equals\n"
        "from opik.evaluation.metrics.score_result import ScoreResult\n"
        "class Count(BaseMetric):\n    def score(self, data):\n        return [ScoreResult('n', len(data)), 1]\n"
    )
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    body = {"code": thread, "data": said, "type": "trace_thread"}
    reply = httpx.post(served.url + RULES, json=body, timeout=120)
    assert [one["value"] for one in reply.json()["scores"]] == [2]
    for code in (metric("1 / 0"), "x =", "x = 1", metric("'text'")):
        reply = httpx.post(served.url + RULES, json={"code": code, "data": {}}, timeout=120)
        assert reply.status_code == 400
        assert reply.json()["error"]


@pytest.mark.timeout(900)
def test_verl_s_scores(served: Served) -> None:
    command: list[str | Path] = [python("trainers"), HERE / "oracles" / "verl_client.py", f"{served.url}/run_code"]
    double = {"inputs": ["21\n", "4\n", "0\n"], "outputs": ["42\n", "8", "0"]}
    added = {"inputs": ["1\n2", "3\n4"], "outputs": ["3", "7"], "fn_name": "add"}
    programs = [
        ("print(int(input()) * 2)", double),
        ("n = int(input())\nprint(n * 2 if n else 1)", double),
        ("1 / 0", double),
        ("while True: pass", double),
        ("x = 'a' * 10**11", double),
        ("class Solution:\n    def add(self, a, b):\n        return a + b", added),
    ]
    found = client(command, programs)
    assert [score for score, _ in found] == [1.0, pytest.approx(2 / 3), 0.0, 0.0, 0.0, 1.0]
    statuses = [cases[0] for _, cases in found]
    assert statuses == ["success", "success", "runtime_error", "timeout", "runtime_error", "success"]


@pytest.mark.timeout(900)
def test_openrlhf_s_rewards(served: Served) -> None:
    command: list[str | Path] = [
        python("trainers"),
        HERE / "oracles" / "openrlhf_client.py",
        f"{served.url}/v1/openrlhf/same",
    ]
    asked = [(f"<s>Q: 2+2?\nA:{answer}</s>", "Q: 2+2?\nA:", "4") for answer in ("4", "5", "boom")]
    right, wrong, failed = client(command, asked)
    assert [one[0]["rewards"] if isinstance(one, list) else one for one in (right, wrong)] == [[1.0], [0.0]]
    assert "raised" in failed or failed == [None]


@pytest.mark.timeout(900)
def test_promptfoo_s_webhook(served: Served, tmp_path: Path) -> None:
    folder = node("promptfoo")
    hook = f"{served.url}/v1/promptfoo/same?reference=expected"
    cases = [
        ("Paris", "webhook"),
        ("Rome", "webhook"),
        ("Rome", "not-webhook"),
        ("boom", "webhook"),
        ("boom", "not-webhook"),
    ]
    tests = [
        {"vars": {"said": said, "expected": "Paris"}, "assert": [{"type": f"{inverse}webhook", "value": hook}]}
        for said, inverse in cases
    ]
    config, output = tmp_path / "config.json", tmp_path / "output.json"
    config.write_text(json.dumps({"prompts": ["{{said}}"], "providers": ["echo"], "tests": tests}))
    main = folder / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
    own = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(
        [folder / "bin" / "node", main, "eval", "-c", config, "-o", output, "--no-cache", "--no-progress-bar"],
        capture_output=True,
        text=True,
        timeout=TIME,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **own},
    )
    assert output.exists(), done.stderr[-3000:]
    rows = json.loads(output.read_text())["results"]["results"]
    found = [(row["success"], row["score"]) for row in rows]
    assert found == [(True, 1), (False, 0), (True, 1), (False, 0), (False, 0)]
    reasons = [row["gradingResult"]["reason"] for row in rows]
    assert all("Webhook error" in reason for reason in reasons[3:]), reasons
