"""Scripts of other tools beside the same script as one of our own, row by row in Wasm and in Deno."""

from __future__ import annotations

import asyncio
import os
import statistics
from typing import Any

from benchmarks.measure import Figures, children, run_time
from runner.core.types import Evaluator
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.program import program
from sandboxes import Call, Limits, Program, SandboxConfig
from sandboxes.registry import create

COUNT = 200
ROUNDS = 7
BAR = 1.2
WORK = """
    import json
    import re
    wanted = [word.lower() for word in re.findall("[A-Za-z]+", {reference})]
    found = [word.lower() for word in re.findall("[A-Za-z]+", json.loads(json.dumps({output})))]
    share = sum(word in found for word in wanted) / len(wanted)
"""
TEXT = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 8
ROW: dict[str, Any] = {"output": TEXT, "reference": TEXT[::2], "input": {"q": "x"}, "metadata": {"topic": "t", "n": 1}}
_RESULT = 'return {"score": share, "label": "pass" if share > 0 else "fail", "explanation": "found"}'
NATIVE = f"def evaluate(output, reference, input, metadata):{WORK.format(output='output', reference='reference')}    "
NATIVE += _RESULT + "\n"


def _foreign(head: str, result: str, output: str = "output", reference: str = "reference") -> str:
    return f"{head}{WORK.format(output=output, reference=reference)}    {result}\n"


SCRIPTS = {
    "promptfoo": _foreign(
        "def get_assert(output, context):",
        'return {"pass": share > 0, "score": share, "reason": "found"}',
        reference='context["vars"]["expected"]',
    ),
    "langsmith": _foreign(
        "def found(inputs, outputs, reference_outputs):",
        'return {"key": "found", "score": share, "comment": "found"}',
        'outputs["output"]',
        'reference_outputs["output"]',
    ),
    "langfuse": _foreign(
        "def evaluate(ctx):",
        'return EvaluationResult(scores=[Score(name="found", value=share, comment="found")])',
        "ctx.observation.output",
        "ctx.experiment.item_expected_output",
    ),
    "braintrust": _foreign(
        "from autoevals import Score\n\n\ndef handler(input, output, expected, metadata):",
        'return Score(name="found", score=share, metadata={"text": "found"})',
        reference="expected",
    ),
    "openai": _foreign("def grade(sample, item):", "return share", 'sample["output_text"]', 'item["reference"]'),
}


def figure_dialects(figures: Figures) -> None:
    asyncio.run(_wasm(figures))


async def _seconds(loaded: Program, calls: list[Call]) -> float:
    """Of processor time, of this process and of the worker: other programs of the machine do not count."""

    def spent() -> float:
        return sum(map(run_time, [os.getpid(), *children(os.getpid())]))

    began = spent()
    async for found in loaded.run(calls, Limits()):
        assert found.status == "ok", found
    return spent() - began


async def _wasm(figures: Figures) -> None:
    async with create(SandboxConfig(backend="wasm", jobs=1)) as opened:

        async def loaded(source: str) -> tuple[Any, Evaluator]:
            evaluator = parse_evaluator(source, "script")
            found = await opened.load(program(evaluator), Limits())
            assert found.loaded.status == "ok", found.loaded
            return found, evaluator

        native, _ = await loaded(NATIVE)
        calls = [Call(id=number, arguments=ROW) for number in range(COUNT)]
        for name, source in SCRIPTS.items():
            foreign, evaluator = await loaded(source)
            assert evaluator.dialect == name
            ratios, took = [], []
            for _ in range(ROUNDS):
                ours, theirs = await _seconds(native, calls), await _seconds(foreign, calls)
                ratios.append(theirs / ours)
                took.append(ours / COUNT)
            ratio = statistics.median(ratios)
            figures.add(
                f"a row of a script of {name} beside one of our own, wasm",
                f"{ratio:.2f} times ({min(ratios):.2f} to {max(ratios):.2f})",
                f"≤ {BAR}",
                f"{statistics.median(took) * 1e6:.0f} µs",
                met=ratio <= BAR,
            )
            await foreign.close()
        await native.close()
