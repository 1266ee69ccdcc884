"""Reward functions as TRL's trainers call them: with lists, a value for each row."""

from __future__ import annotations

from runner.evaluators.foreign.guest import program
from runner.evaluators.foreign.module import ScriptModule
from runner.evaluators.foreign.types import ForeignDialect, Found
from runner.types import Evaluator


def _read(module: ScriptModule, entry: str | None, named: bool) -> Found | None:
    some = [module.called(entry)] if entry is not None else list(module.functions.values())
    found = [one for one in some if one is not None and "completions" in one.names]
    if not found and named and len(some) == 1 and some[0] is not None:
        found = [some[0]]
    if len(found) != 1:
        return None
    return Found.of(module, found[0], sure=True)


def _program(evaluator: Evaluator) -> str:
    return program("trl", evaluator)


DIALECT = ForeignDialect(
    name="trl",
    title="a reward function of TRL",
    version=2,
    read=_read,
    program=_program,
    arguments={
        "output": "completions",
        "reference": "reference",
        "input": "prompts",
        "metadata": "its columns by their names",
    },
    batched=True,
    higher_is_better=True,
)
