"""Scripts that import another tool's package: what they are read as, without that package."""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator
from runner.inputs.evaluators.foreign.registry import find
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.resolve import choose
from sandboxes.guest.foreign.vendor import waiting

SCRIPTS = Path(__file__).parent / "vendors" / "scripts"
READ = {
    "inspect/last_number.py": ("inspect", "last_number", ("inspect-ai",)),
    "deepeval/length_ratio.py": ("deepeval", "LengthRatio", ("deepeval",)),
    "mlflow/same.py": ("mlflow", "same", ("mlflow-skinny", "pandas")),
    "mlflow/kind.py": ("mlflow", "Longer", ("mlflow-skinny", "pandas")),
    "pydantic-evals/overlap.py": ("pydantic-evals", "Overlap", ("pydantic-evals",)),
    "phoenix/words.py": ("phoenix", "words", ("arize-phoenix-evals",)),
    "phoenix/bound.py": ("phoenix", "bound", ("arize-phoenix-evals",)),
    "opik/words.py": ("opik", "Words", ("opik",)),
    "weave/words.py": ("weave", "Words", ("weave",)),
    "weave/function.py": ("weave", "same", ("weave",)),
    "ragas/shapes.py": ("ragas", "shapes", ("ragas", "langchain-community<0.4")),
    "ragas/collected.py": ("ragas", "rouge", ("ragas", "langchain-community<0.4", "rouge-score")),
}

TWO = """
import deepeval.metrics as m

class First(m.BaseMetric):
    def measure(self, test_case): ...

class Second(First):
    pass

class Third(m.BaseMetric):
    def measure(self, test_case): ...
"""


@pytest.mark.parametrize("script", READ)
def test_a_script_is_read_by_its_decorator_or_base_class(script: str) -> None:
    evaluator = runner.read_evaluator(SCRIPTS / script)
    assert (evaluator.dialect, evaluator.entry, evaluator.packages) == READ[script]
    assert choose(evaluator).config.backend == "process"


@pytest.mark.parametrize("dialect", sorted({dialect for dialect, _, _ in READ.values()}))
def test_the_part_of_a_dialect_is_one_program(dialect: str) -> None:
    script = next(name for name, (known, _, _) in READ.items() if known == dialect)
    program = ast.parse(find(dialect).program(runner.read_evaluator(SCRIPTS / script)))
    texts = [node.value for node in ast.walk(program) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    part: dict[str, Any] = {}
    exec(next(text for text in texts if "def wrap(" in text), part)
    assert callable(part["wrap"])


def read(source: str, entry: str | None = None) -> Evaluator:
    return parse_evaluator(source, "metric", "metric.py", entry=entry)


def test_of_several_the_one_that_is_meant_has_to_be_named() -> None:
    with pytest.raises(EvaluatorError, match=r"`Second`, `Third`.*`metric\.py:Second`"):
        read(TWO)
    assert read(TWO, "Third").entry == "Third"
    assert read(TWO, "Second").entry == "Second"  # its method is that of another class of the script


def test_a_package_that_the_header_names_is_not_added_again() -> None:
    for line, packages in (
        ("MLflow==3.18", ("MLflow==3.18",)),
        ("mlflow_skinny==3.17.2", ("mlflow_skinny==3.17.2",)),
        ("numpy", ("numpy", "mlflow-skinny", "pandas")),
    ):
        header = f'# /// script\n# dependencies = ["{line}"]\n# ///\n'
        source = "from mlflow.genai import scorer\n@scorer\ndef good(outputs):\n    return True\n"
        assert read(header + source).packages == packages


def test_a_metric_of_ragas_that_asks_a_model_is_refused_by_its_name() -> None:
    for source, why in (
        (
            "from ragas.metrics import Faithfulness\nscorer = Faithfulness()\n",
            "Faithfulness of ragas is not run: it asks",
        ),
        ("from ragas.metrics import AspectCritic\n", "AspectCritic of ragas is not run"),
        (
            "from ragas.metrics.base import MetricWithLLM, SingleTurnMetric\n"
            "class Mine(MetricWithLLM, SingleTurnMetric):\n    async def _single_turn_ascore(self, sample): ...\n",
            r"metric\.py:2: Mine asks a model",
        ),
        (
            "from ragas.metrics import ExactMatch, RougeScore\na = ExactMatch()\nb = RougeScore()\n",
            r"`a`, `b`, and each is a Ragas metric; say which: `metric\.py:a`",
        ),
    ):
        with pytest.raises(EvaluatorError, match=why):
            read(source)


@pytest.mark.parametrize(
    "source",
    [
        "from inspect_ai.model import get_model\nfrom inspect_ai.scorer import scorer\n\n\n@scorer(metrics=[])\n"
        "def good():\n    model = get_model()\n    async def score(state, target):\n"
        "        return await model.generate('?')\n    return score\n",
        "from inspect_ai import model, scorer\n\n\n@scorer.scorer(metrics=[])\ndef good():\n    return judge()\n\n\n"
        "def judge():\n    return model.get_model('mine')\n",
        "from inspect_ai.scorer import model_graded_qa, scorer\n\n\n@scorer(metrics=[])\ndef good():\n"
        "    return model_graded_qa()\n",
    ],
    ids=["itself", "by a helper", "by a scorer of the package"],
)
def test_a_scorer_of_inspect_that_asks_a_model_is_refused_before_it_is_installed(source: str) -> None:
    with pytest.raises(
        EvaluatorError, match=r"good asks a model by (model\.)?(get_model|model_graded_qa), and evalcell"
    ):
        read(source)


def test_what_no_row_has_is_refused_when_the_script_is_read() -> None:
    with pytest.raises(EvaluatorError, match=r"metric\.py:3: calls takes `trace`, which no row has"):
        read("from mlflow.genai.scorers import scorer\n@scorer\ndef calls(trace):\n    return 1\n")


def test_a_class_of_another_name_or_package_is_none() -> None:
    for source in (
        "class Mine:\n    def measure(self, test_case): ...\n",
        "from other import BaseMetric\nclass Mine(BaseMetric):\n    def measure(self, test_case): ...\n",
        "from deepeval.metrics import GEval\nclass Mine(GEval):\n    def measure(self, test_case): ...\n",
    ):
        with pytest.raises(EvaluatorError):
            read(source)


async def clean(seen: list[str]) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(60), 0.001)


async def task(seen: list[str]) -> None:
    async def ghost() -> None:
        while True:
            seen.append("ghost")
            await asyncio.sleep(0)

    async def parent() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("ended")
            left.append(asyncio.ensure_future(ghost()))

    left = [asyncio.ensure_future(parent())]
    await asyncio.sleep(0)


async def timer(seen: list[str]) -> None:
    asyncio.get_running_loop().call_later(0.001, seen.append, "timer")


async def soon(seen: list[str]) -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, seen.append, "soon")


async def thread(seen: list[str]) -> None:
    await asyncio.to_thread(seen.append, "thread")


async def factory(seen: list[str]) -> None:
    asyncio.get_running_loop().set_task_factory(lambda loop, work, **more: asyncio.Task(work, loop=loop))


async def handler(seen: list[str]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append("handler"))


async def raised(seen: list[str]) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("leaves", "shared"),
    [(clean, True), *((leaves, False) for leaves in (task, timer, soon, thread, factory, handler, raised))],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rows_of_a_process_share_an_event_loop_unless_one_leaves_something_on_it(
    leaves: Callable[[list[str]], Awaitable[None]], shared: bool
) -> None:
    loops, seen = [], list[str]()

    async def call(**row: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        if row["output"] == 1:
            await leaves(seen)
        if row["output"] == 2:
            before = seen[:]
            await asyncio.sleep(0.01)
            assert seen == before  # nothing of the row before goes on
        return row["output"]

    called = waiting(call)
    with contextlib.suppress(SystemExit) if leaves is raised else contextlib.nullcontext():
        assert [called(output=number) for number in range(2)] == [0, 1]
    assert [called(output=number) for number in (2, 3)] == [2, 3]
    assert (loops[2] is loops[1], loops[3] is loops[2]) == (shared, True)
    assert loops[1].is_closed() is not shared
    loops[3].close()
    asyncio.set_event_loop(None)


def test_a_ragas_script_has_what_each_metric_that_it_makes_needs() -> None:
    made = "from ragas.metrics import BleuScore, ExactMatch\n\nnear = BleuScore()\nexact = ExactMatch()\n"
    assert "sacrebleu" in parse_evaluator(made, "one.py", entry="exact").packages
    imported = "from ragas.metrics import BleuScore, ExactMatch\n"
    assert "sacrebleu" not in parse_evaluator(imported, "one.py", entry="ExactMatch").packages
