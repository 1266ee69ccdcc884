"""Braintrust's scorers: a `handler`, any function, and scorers of autoevals."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from runner.errors import EvaluatorError
from runner.evaluators.foreign.guest import brings, program
from runner.evaluators.foreign.module import ScriptModule, dotted, needed
from runner.evaluators.foreign.reads import uses
from runner.evaluators.foreign.types import ForeignDialect, Found, row
from runner.text import listed
from runner.types import Evaluator

_ENTRY = "handler"
_WORDS = {"input", "output", "expected", "metadata", "trace", "id", "tags"}
"""What Braintrust calls a function with."""
_BASES = {"autoevals.Scorer", "autoevals.score.Scorer", "braintrust.Scorer", "braintrust.score.Scorer"}
_EVALS = tuple(
    f"{module}.{name}" for module in ("braintrust", "braintrust.framework") for name in ("Eval", "EvalAsync")
)
_STUBS = {
    *(
        "braintrust",
        "braintrust.framework",
        *_EVALS,
        "braintrust.Score",
        "braintrust.Scorer",
        "braintrust.score.Score",
        "braintrust.score.Scorer",
    ),
    *("braintrust_core.score.Score", "braintrust_core.score.Scorer", "autoevals", "autoevals.Score"),
    *("autoevals.Scorer", "autoevals.score.Score", "autoevals.score.Scorer"),
    "autoevals.serializable_data_class.SerializableDataClass",
}
_COMPARING = {"ExactMatch", "Levenshtein", "LevenshteinScorer", "NumericDiff", "JSONDiff", "ListContains"}
"""Scorers of autoevals that say little or raise without an expected value."""
_PACKAGES = {"autoevals": "autoevals", "braintrust": "braintrust", "braintrust_core": "braintrust"}


def _read(module: ScriptModule, entry: str | None, named: bool) -> Found | None:
    packages = needed(module, _STUBS, _PACKAGES)
    name = _seen(module, named) if entry is None else _asked(module, entry, named)
    if name is None:
        return None
    function = module.called(name)
    words = f"{name}(output, expected)" if function is None else function.words
    docstring = module.docstring or ("" if function is None else function.docstring)
    sure = name == _ENTRY or (entry is None and name in _users(module) and {*module.functions[name].names} <= _WORDS)
    needs = {
        word
        for word, own in (("reference", "expected"), ("input", "input"))
        if function is not None and own in function.required and uses(module, name, own)
    }
    if module.imports.get(name, "").rpartition(".")[2] in _COMPARING:
        needs.add("reference")
    parameters = row({"reference": ("expected",)}, needs)
    return Found(name, parameters, signature=words, packages=packages, docstring=docstring, sure=sure)


def _asked(module: ScriptModule, entry: str, named: bool) -> str | None:
    """The entry: a function, a method, a scorer's class, or a scorer that is imported."""
    function, scorers = module.called(entry), _scorers(module)
    if entry in scorers or (function is not None and "expected" in function.names):
        return entry
    return entry if named and (function is not None or entry in module.values) else None


def _seen(module: ScriptModule, named: bool) -> str | None:
    if _ENTRY in module.functions:
        return _ENTRY
    if (listed_scores := _of_eval(module)) is not None:
        return listed_scores
    scorers = _scorers(module)
    own = [name for name, one in module.functions.items() if {"output", "expected"} <= {*one.names}]
    own = own or [name for name in _users(module) if {"input", "output"} <= {*module.functions[name].names}]
    found = own or [name for name in scorers if name in module.classes] or ([] if module.functions else scorers)
    if not found and named:
        found = list(module.functions)
    return found[0] if len(found) == 1 else None


def _of_eval(module: ScriptModule) -> str | None:
    """The scorer of the `Eval(…, scores=[…])` at the script's top level. Raises EvaluatorError for others than one."""
    names: dict[str, bool] = {}  # with whether the script has such a name
    for each in _listed(module):
        name = dotted(each.func if isinstance(each, ast.Call) else each)
        known = module.called(name) is not None or any(
            name in kind for kind in (module.classes, module.imports, module.values)
        )
        names[name or f"<line {each.lineno}>"] = known
    if len(names) > 1 or not all(names.values()):
        first = next((name for name, known in names.items() if known), None)
        step = (
            "give the one to run a name in the script, as `from autoevals import Levenshtein` does, and say which: "
            f"`{module.where}:Levenshtein`"
            if first is None
            else f"say which: `{module.where}:{first}`, or in its header, [tool.evalcell], "
            f'dialect = "braintrust" and entry = "{first}"'
        )
        scorers = "scorers" if len(names) > 1 else "scorer"
        raise EvaluatorError(f"{module.where}: its Eval has the {scorers} {listed(names, 6)}; {step}")
    return next(iter(names), None)


def _listed(module: ScriptModule) -> Iterator[ast.expr]:
    """What stands in the lists of scores."""
    for statement in module.body:
        for node in ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign) else ():
            if isinstance(node, ast.Call) and module.whole_name(dotted(node.func)) in _EVALS:
                scores = next((one.value for one in node.keywords if one.arg == "scores"), None)
                yield from scores.elts if isinstance(scores, ast.List | ast.Tuple) else ()


def _scorers(module: ScriptModule) -> list[str]:
    """The script's classes that are scorers, and the package's own that it imports."""
    own = {name: one.bases for name, one in module.classes.items()}
    found = [name for name, bases in own.items() if any(base in _BASES for base in bases)]
    found += [name for name, bases in own.items() if any(base in found for base in bases) and name not in found]
    brought = [name for name, what in module.imports.items() if _is_scorer(what)]
    return [*found, *brought]


def _users(module: ScriptModule) -> list[str]:
    """The script's functions that use a scorer which it imports by its name."""
    brought = {name for name, what in module.imports.items() if _is_scorer(what)}
    return [
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in module.functions
        if any(isinstance(one, ast.Name) and one.id in brought for one in ast.walk(node))
    ]


def _is_scorer(name: str) -> bool:
    """A class of autoevals itself, which is imported by its name."""
    return name.startswith("autoevals.") and name not in _STUBS and name.rpartition(".")[2][:1].isupper()


def _program(evaluator: Evaluator) -> str:
    return program("braintrust", evaluator, real=brings(evaluator, *_PACKAGES))


DIALECT = ForeignDialect(
    name="braintrust",
    title="a Braintrust scorer",
    version=2,
    read=_read,
    program=_program,
    arguments={"output": "output", "reference": "expected", "input": "input", "metadata": "metadata"},
    higher_is_better=True,
)
