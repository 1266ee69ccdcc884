"""Opik's rules: how they are called, and no fault as a score. A small package stands in for Opik's, which is large."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import find_uv
from tests.packages.wheels import wheel
from tests.server.http.live import Live, live
from tests.server.protocols.ours import fault

RULES = "/v1/opik/v1/private/evaluators/python"
PACKAGE = {
    "opik/__init__.py": "",
    "opik/evaluation/__init__.py": "",
    "opik/evaluation/metrics/__init__.py": (
        "from .base_metric import BaseMetric\n\n\nclass Aaa(BaseMetric):\n    pass\n"
    ),
    "opik/evaluation/metrics/base_metric.py": (
        "class BaseMetric:\n    def __init__(self, name=None):\n        self.name = name\n"
    ),
    "opik/evaluation/metrics/score_result.py": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass ScoreResult:\n    name: str\n    value: float\n"
        "    reason: str | None = None\n    scoring_failed: bool = False\n"
    ),
}
METRIC = """\
from opik.evaluation.metrics import Aaa
from opik.evaluation.metrics import base_metric, score_result


class Same(base_metric.BaseMetric):
    def __init__(self):
        super().__init__(name="same")

    def score({parameters}):
        return {returned}
"""
RESULT = "score_result.ScoreResult(name=self.name, value=float(output == reference), reason='compared')"


def metric(returned: str = RESULT, parameters: str = "self, output, reference, **_") -> str:
    return METRIC.format(returned=returned, parameters=parameters)


@pytest.fixture(scope="module")
def opik(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    try:
        find_uv()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("opik")
    (folder / "index").mkdir()
    wheel(folder / "wheels", "opik", "1.0", PACKAGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_DEFAULT_INDEX", (folder / "index").as_uri())
        patch.setenv("UV_FIND_LINKS", str(folder / "wheels"))
        patch.setenv("EVALCELL_CACHE_DIR", str(folder / "cache"))
        with live(folder) as server:
            assert backend(server, {"code": metric(), "data": {}}, tries=60)[0] == 200
            yield server


def backend(server: Live, body: Any, tries: int = 5, pause: float = 0.2) -> tuple[int, Any]:
    """What Opik's backend gets, which asks again after 503 and 504."""
    for left in range(tries, 0, -1):
        reply = httpx.post(server.url + RULES, json=body, timeout=60)
        if reply.status_code not in (503, 504) or left == 1:
            break
        time.sleep(pause)
    return reply.status_code, reply.json()


def test_a_trace_is_scored(opik: Live) -> None:
    found = backend(opik, {"code": metric(), "data": {"output": "4", "reference": "4", "more": 1}})
    assert found == (200, {"scores": [{"name": "same", "value": 1.0, "reason": "compared", "scoring_failed": False}]})


def test_what_was_not_logged_is_none(opik: Live) -> None:
    assert backend(opik, {"code": metric(), "data": {}})[1]["scores"][0]["value"] == 1.0
    kept = metric("score_result.ScoreResult('n', float(output == 'own'))", "self, output='own'")
    assert backend(opik, {"code": kept, "data": {}})[1]["scores"][0]["value"] == 1.0
    only = metric("score_result.ScoreResult('n', float(output is None))", "self, *, output")
    assert backend(opik, {"code": only, "data": {}})[1]["scores"][0]["value"] == 1.0
    spans = metric("score_result.ScoreResult('n', 1)", "self, *, spans")  # Opik sends them where a rule asks for them
    assert "missing 1 required keyword-only argument: 'spans'" in backend(opik, {"code": spans, "data": {}})[1]["error"]


def test_a_thread_is_one_argument_or_keywords(opik: Live) -> None:
    code = metric("[score_result.ScoreResult('n', len(data)), 'dropped']", "self, data")
    body: dict[str, Any] = {"code": code, "data": [{"role": "user", "content": "a"}], "type": "trace_thread"}
    assert [one["value"] for one in backend(opik, body)[1]["scores"]] == [1]
    code = metric("score_result.ScoreResult('n', len(messages) + len(spans))", "self, messages, spans")
    body = {"code": code, "data": {"messages": [1], "spans": [2, 3]}, "type": "trace_thread"}
    assert backend(opik, body)[1]["scores"][0]["value"] == 3


def test_what_is_no_number_is_no_score(opik: Live) -> None:
    for value in ("float('nan')", "float('inf')", "None", "'high'"):
        code = metric(f"[score_result.ScoreResult('n', {value}), score_result.ScoreResult('m', 0)]", "self, **_")
        scores = backend(opik, {"code": code, "data": {}})[1]["scores"]
        assert [(one["value"], one["scoring_failed"]) for one in scores] == [(None, value != "None"), (0, False)]
        status, said = backend(opik, {"code": code.replace(", score_result.ScoreResult('m', 0)", ""), "data": {}})
        assert status == 400
        assert "didn't return any usable 'opik.evaluation.metrics.ScoreResult'" in said["error"]
        assert ("which is no finite number" in said["error"]) == (value != "None")


def test_why_a_rule_failed_is_among_the_first_500_characters(opik: Live) -> None:
    code = metric("fail(30)") + (
        "\ndef fail(depth):\n    if depth:\n        return fail(depth - 1)\n    try:\n        {}['k']\n"
        "    except KeyError as error:\n        raise ValueError('no such key') from error\n"
    )
    words = backend(opik, {"code": code, "data": {}})[1]["error"][:500]
    assert "ValueError: no such key\ncaused by: KeyError: 'k'\n  File " in words


FAULTS = {
    "syntax": ({"code": "x = (", "data": {}}, 400, "Field 'code' contains invalid Python code: "),
    "unloaded": ({"code": "1 / 0", "data": {}}, 400, "ZeroDivisionError: division by zero"),
    "no metric": ({"code": "x = 1", "data": {}}, 400, "doesn't contain a subclass implementation of 'opik"),
    "raises": (
        {"code": metric("1 / 0"), "data": {}},
        400,
        "The provided 'code' and 'data' fields can't be evaluated: ",
    ),
    "no result": ({"code": metric("1"), "data": {}}, 400, "didn't return any 'opik.evaluation.metrics.ScoreResult'"),
    "memory": ({"code": metric("b'x' * 2**40"), "data": {}}, 400, "can't be evaluated: "),
    "killed": ({"code": metric("__import__('os')._exit(1)"), "data": {}}, 400, "can't be evaluated: "),
    "no code": ({"data": {}}, 400, "Field 'code' is missing in the request"),
    "code is no text": ({"code": 1, "data": {}}, 400, "Field 'code' must be a string"),
    "no data": ({"code": "x"}, 400, "Field 'data' is missing in the request"),
    "no JSON": ([], 400, ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_rule_does_wrong_is_told_its_user(opik: Live, name: str) -> None:
    body, status, words = FAULTS[name]
    found, said = backend(opik, body)
    assert found == status
    assert set(said) == {"error"}
    assert said["error"].startswith("400 Bad Request: ")
    assert words in said["error"]


def test_a_slow_rule_has_a_status_of_its_own(opik: Live) -> None:
    loop = metric("sum(1 for _ in iter(int, 1))")
    assert backend(opik, {"code": loop, "data": {}}, tries=1)[0] == 504


def test_faults_of_ours_are_tried_again(opik: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"code": metric(), "data": {}}
    for kind in ("full", "lost"):
        with fault(kind, opik, monkeypatch):
            assert backend(opik, body, tries=2)[0] == 503, kind
        assert backend(opik, body, tries=60)[0] == 200
    with fault("stopping", opik, monkeypatch):  # for good: the last test of this server
        assert backend(opik, body, tries=2)[0] == 503
