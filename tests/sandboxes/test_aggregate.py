"""`aggregate` in each sandbox: a call like any other, in which a script does what it likes."""

from __future__ import annotations

import pytest

from runner.core.types import Result
from runner.engine.aggregate import Aggregation
from runner.engine.scoring.figures import Figures
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes import Call
from tests.sandboxes.backends import LIMITS, Backend
from tests.sandboxes.languages import Each
from tests.sandboxes.shared import SHARED

AGGREGATES = {
    "figures": Each(
        "n = len(results)\n    return {'n': n, 'k': k, 'sum': sum(len(r['arguments']['x']) for r in results)}",
        "return { n: results.length, k, sum: results.reduce((all, r) => all + r.arguments.x.length, 0) };",
    ),
    "hangs": Each("while True: pass", "while (true);"),
    "raises": Each("return 1 / (k - 2)", "throw new Error(`no ${k}`);"),
    "returns-text": Each("return 'x' * 1000", "return 'x'.repeat(1000);"),
    "ends": Each("import os; os._exit(3)", "self.close(); while (true);"),
}
FAILS = {"hangs": "timeout", "raises": "raised", "returns-text": "invalid_result", "ends": "crash"}
ROWS = 2000
"""Several MB of rows: more than any pipe holds."""


def source(body: str, language: str) -> str:
    if language == "python":
        return f"def evaluate(x, k=1): pass\ndef aggregate(results, k=1):\n    {body}\n"
    return (
        "export const evaluate = ({ x, k = 1 }: any) => 1;\n"
        f"async function aggregate(results: any[], {{ k = 1 }} = {{}}) {{ {body} }}\n"
    )


def figures(backend: Backend, body: Each[str], rows: int, timeout: float = 30) -> Figures:
    language = backend.language
    evaluator = parse_evaluator(source(body[language], language), "tried", language=language)

    async def run() -> Figures:
        sandbox = await SHARED.sandbox(backend, backend.isolation)
        aggregation = Aggregation(evaluator, {"k": 2}, LIMITS, timeout, seed=None)
        for number in range(1, rows + 1):
            one = Result(
                id=str(number), number=number, evaluator="e", version="v", sandbox="s", outcome="scored", score=1
            )
            aggregation.watch(one, Call(id=number, arguments={"x": "é\n" * 500, "k": 2}))
            aggregation.add(one)
        await aggregation.run(sandbox)
        return aggregation.figures

    return SHARED.run(run())


@pytest.mark.needs("runs")
def test_aggregate_gets_all_rows(backend: Backend) -> None:
    found = figures(backend, AGGREGATES["figures"], ROWS)
    assert found.aggregate_error is None
    assert found.aggregates == {"n": ROWS, "k": 2, "sum": ROWS * 1000}


@pytest.mark.needs("runs")
@pytest.mark.parametrize("way", FAILS)
def test_what_aggregate_does_wrong_is_told(backend: Backend, way: str) -> None:
    found = figures(backend, AGGREGATES[way], 9, timeout=0.5 if way == "hangs" else 30)
    assert found.aggregates == {}
    assert found.aggregate_error is not None
    assert found.aggregate_error.kind in (FAILS[way], "raised" if way == "ends" else FAILS[way])
