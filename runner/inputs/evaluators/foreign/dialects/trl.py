"""Reward functions as TRL's trainers call them: with lists, a value for each row."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from runner.core.types import Evaluator, Parameter
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.messages import reads_messages
from runner.inputs.evaluators.foreign.module import (
    ModuleFunction,
    ScriptModule,
    callable_methods,
    only,
    read_python,
    refuse_arguments,
)
from runner.inputs.evaluators.foreign.reads import keywords, uses
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect
from runner.inputs.evaluators.python.entries import refuse_unmade

_GIVEN = ("completions", "prompts", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
"""What a trainer gives beside the columns of its dataset."""


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    refuse_unmade(module.source, module.where, entry)
    kinds = {  # an instance is called as a function is
        name: kind.methods["__call__"]._replace(name=name)
        for name, kind in module.classes.items()
        if "__call__" in kind.methods
    }
    every = [*module.functions.values(), *kinds.values(), *callable_methods(module)]
    some = [module.called(entry) or kinds.get(entry)] if entry is not None else every
    found = {
        one.name: one for one in some if one and "completions" in one.names and (named or not _of_one(module, one))
    }
    if not found and named:
        found = {one.name: one for one in some if one is not None and one.accepts_any}
    alone = only(module, found, None, "a reward function of TRL", private=entry is not None)
    if alone is None:
        return None
    if alone[0] in kinds:
        refuse_arguments(module, alone[0])
    return DialectMatch.of(module, alone[1], sure=True)._replace(parameters=(*_parameters(module, alone[1]),))


def _of_one(module: ScriptModule, function: ModuleFunction) -> bool:
    """Whether it scores one completion: it is declared to return one number, or takes the prompt of one."""
    node = module.definition(function.name)
    returns = "" if node is None or isinstance(node, ast.Lambda) or not node.returns else ast.unparse(node.returns)
    return returns.strip("'\"") in ("float", "int", "bool") or {"prompt", "prompt_ids"} <= {*function.names}


def _parameters(module: ScriptModule, function: ModuleFunction) -> Iterator[Parameter]:
    """The completion, the prompt, and the columns that the function takes by their names, as it may in `**kwargs`."""
    yield Parameter(name="output", columns=("completion", "completions"))
    asks = "prompts" in function.required and uses(module, function.name, "prompts")
    yield Parameter(name="input", required=asks, columns=("prompt", "prompts"))
    own = {one.name: one.required for one in function.parameters if one.name not in _GIVEN}
    if function.accepts_any:
        read = keywords(module, function.name)
        own |= {key.name: key.required for key in read if key.name not in (*own, *_GIVEN)}
        yield Parameter(name="metadata", required=own.pop("metadata", False))
        yield Parameter(name="reference", required=own.pop("reference", False))
    for name, required in own.items():
        if name in ("output", "input"):  # a column of the dataset, beside the completion and the prompt
            yield Parameter(name=f"column.{name}", required=False, columns=(name,))
        else:
            columns = () if name in BY_NAME else (name,)
            yield Parameter(name=name, required=required, columns=columns)


def chats(evaluator: Evaluator) -> list[str]:
    """
    Return what of `completions` and `prompts` a reward gets as messages, although rows may hold texts.

    A dataset of TRL's is conversational as a whole, so that prompts are messages where completions are.
    """
    module, entry = read_python(evaluator.source, evaluator.name), evaluator.entry or ""
    if reads_messages(module, entry, "completions"):
        return ["completions", "prompts"]
    return ["prompts"] if reads_messages(module, entry, "prompts") else []


DIALECT = ForeignDialect(
    name="trl",
    title="a reward function of TRL",
    version=5,
    read=_read,
    program=lambda evaluator: program("trl", evaluator, chats=chats(evaluator)),
    marks="one takes `completions`, a list",
    arguments={
        "output": "completions",
        "reference": "reference",
        "input": "prompts",
        "metadata": "its columns by their names",
    },
    batched=True,
    higher_is_better=True,
)
