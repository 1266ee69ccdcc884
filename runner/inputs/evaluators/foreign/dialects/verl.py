"""Reward functions of verl: `compute_score(data_source, solution_str, ground_truth, extra_info)`, for each row."""

from __future__ import annotations

from runner.core.types import Parameter
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import ScriptModule, only
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect
from runner.inputs.evaluators.python.entries import refuse_unmade

_ENTRY = "compute_score"
_ROLES = {"solution_str": "output", "ground_truth": "reference"}
_COLUMNS = ("data_source", "extra_info")
"""What verl gives besides; all else is the default, or the same for all rows by its config."""


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    refuse_unmade(module.source, module.where, entry)
    some = [module.called(entry)] if entry is not None else list(module.functions.values())
    found = {one.name: one for one in some if one is not None and {*_ROLES} <= {*one.names}}
    alone = only(module, found, _ENTRY if entry is None and _ENTRY in found else None, "a reward function of verl")
    if alone is None:
        return None
    function = alone[1]
    return DialectMatch.of(module, function, sure=True)._replace(
        parameters=tuple(map(_parameter, function.parameters)), accepts_any=function.accepts_any
    )


def _parameter(own: Parameter) -> Parameter:
    """The parameter, which a row's output or reference fills, or the column of a name that verl gives."""
    if own.name not in _ROLES:
        return own if own.required or own.name in _COLUMNS else own.model_copy(update={"by_name": False})
    return own.model_copy(update={"required": True, "columns": (_ROLES[own.name], own.name)})


DIALECT = ForeignDialect(
    name="verl",
    title="a reward function of verl",
    version=2,
    read=_read,
    program=lambda evaluator: program("verl", evaluator),
    marks="one takes `solution_str` and `ground_truth`",
    higher_is_better=True,
)
