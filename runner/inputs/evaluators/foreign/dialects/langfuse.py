"""Langfuse's evaluators: `evaluate(ctx)` of its page, and functions of its SDK."""

from __future__ import annotations

import re

from runner.core.errors import EvaluatorError
from runner.core.text import list_names
from runner.core.types import Evaluator
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import (
    PATTERN,
    ModuleFunction,
    ScriptModule,
    callable_methods,
    only,
    read_python,
    refuse_unmade_methods,
    required_packages,
)
from runner.inputs.evaluators.foreign.reads import needs, reads
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect, row
from runner.inputs.evaluators.python.entries import refuse_unmade

PAGE = "evaluate"
_RUN = "item_results"
"""The parameter of what Langfuse calls after all rows."""
_MARKS = ("observation", "experiment", "EvaluationContext")
_KEYWORDS = ("input", "output", "expected_output", "metadata")
_JAVASCRIPT = {"input", "output", "expectedOutput", "metadata"}
"""What Langfuse's TypeScript SDK gives."""
_IMPORTED = re.compile(r"""\bfrom\s*["'](?:@langfuse/client|langfuse)["']""")
_NAME, _VALUE = (re.compile(rf"\b{word}\s*[:,}}]") for word in ("name", "value"))
_PARTS = {"observation", "experiment"}
"""What Langfuse's page gives."""
_EXPECTED = re.compile(r"item_expected_output|itemExpectedOutput")
_GUARD = re.compile(
    r"experiment\s*(is\b|[=!]==?|and\b|&&|\?\s)|(not|!)\s*\(?(\w+\.)?experiment\b|\bif\s*\(?\s*(\w+\.)?experiment\b"
)
"""How a script asks whether there is an experiment; `experiment?.` is for its types."""
_STUBS = {"langfuse", "langfuse.Evaluation", "langfuse.experiment", "langfuse.experiment.Evaluation"}


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    page = _of_page(module, named) if entry in (None, PAGE) else None
    of_sdk = _of_sdk if module.language == "python" else _of_javascript_sdk
    function = page or of_sdk(module, entry, named)
    if function is None:
        return None
    if module.language == "typescript" and page is None:
        asked = {"reference"} if "expectedOutput" in function.parts or _own_key(module, function) else ()
        found = DialectMatch.of(module, function, sure=True)
        return found._replace(parameters=row({"reference": ("expectedOutput", "expected_output")}, asked))
    packages = () if page else required_packages(module, _STUBS, {"langfuse": "langfuse"})
    summary = page is None and _RUN in function.names
    if summary and reads(module, function.name, "evaluations"):
        raise EvaluatorError(
            f"{module.where}: {function.name} reads other evaluators' evaluations, which are not there; score the rows "
            "with `evaluate`, and judge them together in `aggregate(results)`: docs/how-to/aggregates.md"
        )
    if page is None and not summary:
        _refuse_keywords(module, function)
    demand = set() if page or summary else needs(module, function, "expected_output")
    if page and _EXPECTED.search(module.source) and not _GUARD.search(module.source):
        demand.add("reference")
    found = DialectMatch.of(module, function, packages, sure=page is not None or summary)
    return found._replace(summary=summary, parameters=row({"reference": ("expected_output",)}, demand))


def _refuse_keywords(module: ScriptModule, function: ModuleFunction) -> None:
    """Refuse a function that Langfuse itself cannot call: it gives all of its keywords, each time."""
    lacking = [name for name in _KEYWORDS if name not in function.names]
    if lacking and not function.accepts_any:
        raise EvaluatorError(
            f"{module.where}:{function.line}: Langfuse calls an evaluator with {list_names(_KEYWORDS)}, and "
            f"`{function.name}` takes no {list_names(lacking)}: Langfuse logs the TypeError of that, and gives no "
            "score; add `**kwargs` to its parameters, as those that Langfuse calls have"
        )


def _of_page(module: ScriptModule, named: bool) -> ModuleFunction | None:
    """`evaluate` of one parameter that nobody else fills, in a script that uses what Langfuse gives."""
    function = module.functions.get(PAGE)
    if function is None or function.decorators:
        return None
    if function.names[:1] == (PATTERN,):  # an object of Langfuse's, and not one of a row's columns, is taken apart
        own = bool(function.parts) and {*function.parts} <= _PARTS
        return function if own and len(function.required) <= 1 else None
    if len(function.required) != 1:
        return None
    return function if any(mark in module.source for mark in _MARKS) or (function.names[0] == "ctx" and named) else None


def _of_sdk(module: ScriptModule, entry: str | None, named: bool) -> ModuleFunction | None:
    refuse_unmade(module.source, module.where, entry)
    every = [*module.functions.values(), *callable_methods(module)]
    some = [module.called(entry)] if entry is not None else every
    found = {
        one.name: one for one in some if one is not None and (_is_ours(module, one) or (named and _takes_keywords(one)))
    }
    rows = {name: one for name, one in found.items() if _RUN not in one.names}
    if not rows and entry is None and "langfuse" in module.source:
        refuse_unmade_methods(module, lambda one: _RUN not in one.names and _is_ours(module, one))
    alone = only(module, rows or found, None, "a Langfuse evaluator")  # what judges all rows is asked for by its name
    return None if alone is None else alone[1]


def _of_javascript_sdk(module: ScriptModule, entry: str | None, named: bool) -> ModuleFunction | None:
    """A function of the object that Langfuse's TypeScript SDK gives, which returns one `{name, value}`, or several."""
    some = [module.called(entry)] if entry is not None else list(module.functions.values())
    found = {one.name: one for one in some if one is not None and _is_javascript(module, one, named)}
    alone = only(module, found, None, "a Langfuse evaluator")
    return None if alone is None else alone[1]


def _is_javascript(module: ScriptModule, function: ModuleFunction, named: bool) -> bool:
    own = {*function.parts}
    if len(function.required) != 1 or not (own <= _JAVASCRIPT if own else _own_key(module, function, "output")):
        return False
    returns = _NAME.search(module.source) is not None and _VALUE.search(module.source) is not None
    return named or _IMPORTED.search(module.source) is not None or ("expectedOutput" in own and returns)


def _own_key(module: ScriptModule, function: ModuleFunction, key: str = "expectedOutput") -> bool:
    """Whether a function in JavaScript reads this of the object that it does not take apart."""
    return re.search(rf"(?<![\w$.]){re.escape(function.names[0])}[?!]*\.{key}\b", module.source) is not None


def _takes_keywords(function: ModuleFunction) -> bool:
    """One that can be called with Langfuse's keywords, which are more than those that it knows."""
    return bool(function.names or function.accepts_any) and {*function.required} <= {*_KEYWORDS}


def _is_ours(module: ScriptModule, function: ModuleFunction) -> bool:
    """A function of Langfuse's keywords; of those that others have, too, only in a script that uses Langfuse."""
    own = function.names
    if _RUN in own:
        return set(function.required) <= {_RUN}
    if function.accepts_any and {*function.required} <= {*_KEYWORDS} and module.uses(function.name, "langfuse"):
        return True
    if "output" not in own:
        return False
    if "expected_output" in own:  # Langfuse calls it with all of its keywords
        return function.accepts_any or {*own} >= {*_KEYWORDS} or module.uses(function.name, "langfuse")
    others = module.uses(function.name, "autoevals", "braintrust", "braintrust_core")
    shared = function.accepts_any and "input" in own
    return shared and ("langfuse" in module.source.lower() if not others else module.uses(function.name, "langfuse"))


def _program(evaluator: Evaluator) -> str:
    if evaluator.language == "python":
        module = read_python(evaluator.source, evaluator.name)
    else:
        from runner.inputs.evaluators.foreign.javascript import read_javascript  # here: as where it is read

        module = read_javascript(evaluator.source, evaluator.name)
    page = evaluator.entry == PAGE and _of_page(module, True) is not None
    return program("langfuse", evaluator, page=page, summary=not evaluator.evaluates)


DIALECT = ForeignDialect(
    name="langfuse",
    title="a Langfuse evaluator",
    version=6,
    read=_read,
    program=_program,
    languages=("python", "typescript"),
    marks="one is `evaluate(ctx)`, which reads `ctx.observation`, or takes `output`, `expected_output` and `**kwargs`, "
    "in TypeScript an object of `output` and `expectedOutput`",
    arguments={
        "output": "observation.output (output)",
        "reference": "experiment.item_expected_output (expected_output)",
        "input": "observation.input (input)",
        "metadata": "observation.metadata and experiment.item_metadata (metadata)",
    },
)
