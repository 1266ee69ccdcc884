"""Phoenix's evaluators: functions with `@create_evaluator`, of its package for evals and of its experiments."""

from __future__ import annotations

from dataclasses import replace

from runner.core.types import Evaluator
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import ScriptModule, maker_of, read_python
from runner.inputs.evaluators.foreign.reads import asks, keys, keywords
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect, row
from runner.inputs.evaluators.foreign.vendor import Vendor, packages_of, read_marked
from runner.inputs.evaluators.python.signature import parameters

_TITLE = "a Phoenix evaluator"
_EVALS = Vendor(
    "phoenix",
    ("arize-phoenix-evals",),
    decorators=("create_evaluator",),
    distributions=("arize-phoenix",),
    by_column=(),
    makers=("bind_evaluator",),
    bound="bind",
)
_EXPERIMENTS = replace(
    _EVALS,
    bases=("Evaluator", "CodeEvaluator"),
    methods=("evaluate", "async_evaluate"),
    by_column=None,
    makers=(),
    bound="",
)
_REFERENCE = ("expected", "reference")
_FILLED = {*_REFERENCE, "input", "output", "metadata", "example", "trace_id"}


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    if not _is_of_experiments(module):
        return read_marked(module, entry, _EVALS, _TITLE)
    found = read_marked(module, entry, _EXPERIMENTS, _TITLE)
    if found is None:
        return None
    method = _method(module, found.entry)
    function = module.definition(method)
    own = {one.name: one.required for one in parameters(function.args)} if function is not None else {}
    own |= {key.name: key.required for key in keywords(module, method, "output")}
    needs = {"reference"} if any(asks(module, method, name) for name in _REFERENCE) else set[str]()
    needs |= {"input"} if own.get("input") else set()
    words = {
        "reference": (*_REFERENCE, *_alone(_read_keys(module, found.entry, *_REFERENCE))),
        "input": ("input", *_alone(_read_keys(module, found.entry, "input"))),
    }
    one = [name for name in own if name != "self"]
    given = tuple(
        parameter.model_copy(update={"required": "output" in own or (len(one) == 1 and one[0] not in _FILLED)})
        if parameter.name == "output"
        else parameter
        for parameter in row(words, needs)
    )
    evals = any(target.startswith("phoenix.evals") for target in module.imports.values())
    return found._replace(parameters=given, packages=packages_of(module, _EVALS) if evals else ())


def _is_of_experiments(module: ScriptModule) -> bool:
    """Whether a script's evaluators are those of experiments, of the server's package or of the client's."""
    marks = [mark for one in module.functions.values() for mark in one.decorators]
    marks += [base for one in module.classes.values() for base in one.bases]
    return any(module.whole_name(mark).startswith(("phoenix.experiments.", "phoenix.client.")) for mark in marks)


def _method(module: ScriptModule, entry: str) -> str:
    entry = maker_of(module, entry)
    kind = module.classes.get(entry)
    method = next((name for name in _EXPERIMENTS.methods if kind is not None and name in kind.methods), "")
    return f"{entry}.{method}" if method else entry


def _read_keys(module: ScriptModule, entry: str, *names: str) -> list[str]:
    return [key.name for key in keys(module, _method(module, entry), *names)]


def _alone(read: list[str]) -> list[str]:
    return read if len(read) == 1 and read[0] not in BY_NAME else []


def _program(evaluator: Evaluator) -> str:
    module, entry = read_python(evaluator.source, evaluator.name), evaluator.entry or ""
    if not _is_of_experiments(module):
        return program("phoenix", evaluator, "vendor")
    read = {"reference": _read_keys(module, entry, *_REFERENCE), "input": _read_keys(module, entry, "input")}
    alone = {word: keys[0] for word, keys in read.items() if len(keys) == 1}
    return program("phoenix", evaluator, "vendor", "phoenix_experiments", experiment=alone)


DIALECT = ForeignDialect(
    "phoenix", _TITLE, 2, _read, _program, "one has the decorator @create_evaluator", {"reference": "expected"}
)
