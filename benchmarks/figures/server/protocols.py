"""Langfuse's evaluators by the protocol of AWS Lambda, beside the same by `/v1/evaluate`, in turns."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measure import Figures
from tests.server.http.served import Served

REQUESTS, WARM = 400, 20
BAR = 1.2
"""Times the p99 of `/v1/evaluate`."""
LAMBDA = "/v1/langfuse/lambda/2015-03-31/functions/code-based-eval-executor-python/invocations"
_SOURCE = (
    "def evaluate(ctx):\n"
    "    same = ctx.observation.output == ctx.experiment.item_expected_output\n"
    "    return {'scores': [{'name': 'same', 'value': float(same), 'data_type': 'NUMERIC'}]}\n"
)
_OWN = "def evaluate(output, reference):\n    return float(output == reference)\n"


def _asked() -> dict[str, tuple[str, dict[str, Any]]]:
    text = "some words of an answer " * 40
    observation: dict[str, Any] = {"input": text, "output": text, "metadata": None, "toolCalls": []}
    payload = {"observation": observation, "experiment": {"itemExpectedOutput": text, "itemMetadata": None}}
    return {
        "lambda": (LAMBDA, {"runtime": {"language": "PYTHON"}, "code": {"source": _SOURCE}, "payload": payload}),
        "evaluate": ("/v1/evaluate", {"source": _OWN, "rows": [{"output": text, "reference": text}]}),
    }


def figure_lambda(figures: Figures, requests: int = REQUESTS) -> None:
    """One client, one request after the other, in turns: what happens on the machine happens to both."""
    seconds: dict[str, list[float]] = {name: [] for name in _asked()}
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder))
        try:
            with httpx.Client(base_url=server.url, timeout=60) as client:
                for number in range(WARM + requests):
                    for name, (path, body) in _asked().items():
                        began = time.perf_counter()
                        reply = client.post(path, json=body)
                        took = time.perf_counter() - began
                        assert reply.status_code == 200, reply.text
                        assert "error" not in reply.json(), reply.text
                        seconds[name] += [took] if number >= WARM else []
        finally:
            server.end()
    p50, p99 = ({name: statistics.quantiles(one, n=100)[at] for name, one in seconds.items()} for at in (49, 98))
    ratio = p99["lambda"] / p99["evaluate"]
    figures.add(
        "Langfuse by Lambda, p99 of a request",
        f"{p99['lambda'] * 1e3:.1f} ms, {ratio:.2f} times /v1/evaluate",
        f"≤ {BAR} times",
        f"/v1/evaluate {p99['evaluate'] * 1e3:.1f} ms; medians {p50['lambda'] * 1e3:.1f} and "
        f"{p50['evaluate'] * 1e3:.1f} ms; {requests:,} of each",
        met=ratio <= BAR,
    )
