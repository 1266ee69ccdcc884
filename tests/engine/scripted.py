"""Cases, and sandboxes that play what a test scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from runner.core.types import Case, Evaluator, InputMapping, Parameter, Result
from runner.engine.local import score
from sandboxes.base import Call, Execution, Limits, Program, SandboxConfig, Script
from sandboxes.fake import Answer, FakeProgram, FakeSandbox, ok

SCRIPT = Evaluator(name="e", source="", parameters=(Parameter(name="output"),), version="abc")


def case(number: int, output: object = None, broken: str | None = None) -> Case:
    return Case(
        number=number,
        id=f"row{number}",
        where=f"data.jsonl:{number}",
        output=output,
        present=frozenset({"output"}),
        broken=broken,
    )


def rows(count: int) -> list[Case]:
    return [case(n, output=n) for n in range(1, count + 1)]


def echo(call: Call) -> Execution:
    """Returns the argument as the score."""
    return Execution(call=call.id, status="ok", value=call.arguments["output"])


def fake(answer: Answer = ok, **config: object) -> FakeSandbox:
    return FakeSandbox(SandboxConfig.model_validate({"backend": "fake", **config}), answer)


def scored(
    cases: Iterable[Case],
    sandbox: FakeSandbox,
    evaluator: Evaluator = SCRIPT,
    seed: int | None = None,
    mapping: InputMapping | None = None,
) -> list[Result]:
    async def collect() -> list[Result]:
        async with sandbox:
            return [r async for r in score(evaluator, cases, sandbox, seed=seed, mapping=mapping)]

    return asyncio.run(collect())


class Custom(FakeSandbox):
    """Runs a program of the test's own."""

    def __init__(self, program: Callable[[], FakeProgram], **config: object) -> None:
        super().__init__(SandboxConfig.model_validate({"backend": "fake", **config}))
        self.program = program

    async def load(self, script: Script, limits: Limits) -> Program:
        self.programs.append(self.program())
        return self.programs[-1]
