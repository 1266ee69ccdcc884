"""lm-eval's `process_results(doc, results)`, for each row."""

from __future__ import annotations

import re

from runner.core.types import Parameter
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import ScriptModule, only
from runner.inputs.evaluators.foreign.reads import keys
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect

_ENTRY = "process_results"
_NAME = re.compile(r"(^|_)process_results?(_|$)")
_PARAMETERS = ("doc", "results")


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    some = [module.called(entry)] if entry is not None else list(module.functions.values())
    found = {
        one.name: one
        for one in some
        if one is not None
        and len(one.required) == 2
        and (one.names[:2] == _PARAMETERS or _is_one(one.name, one.names) or (named and entry))
    }
    alone = only(module, found, _ENTRY if entry is None and _ENTRY in found else None, "a function of lm-eval")
    if alone is None:
        return None
    function = alone[1]
    read = [key.name for key in keys(module, function.name, function.names[0]) if key.name not in BY_NAME]
    parameters = (
        Parameter(name="output", columns=("results", "filtered_resps")),
        *(Parameter(name=word, required=False) for word in ("reference", "input", "metadata")),
        Parameter(name="doc", required=False, columns=("doc",)),
        *(Parameter(name=f"doc.{key}", required=False, columns=(key,)) for key in read),
    )
    return DialectMatch.of(module, function, sure=True)._replace(parameters=parameters)


def _is_one(name: str, names: tuple[str, ...]) -> bool:
    """Tasks name it as they like, and the second parameter too: `mmlu_process_result(doc, result)`."""
    return _NAME.search(name) is not None and names[0] == "doc"


DIALECT = ForeignDialect(
    name="lm-eval",
    title="a function of lm-eval",
    version=1,
    read=_read,
    program=lambda evaluator: program("lm_eval", evaluator, "vendor"),
    marks="one is `process_results(doc, results)`",
    arguments={"output": "results", "reference": "doc.reference", "input": "doc.input", "metadata": "doc"},
)
