"""Ragas' metrics that ask no model: decorated functions, classes of the script, and the package's own."""

from __future__ import annotations

import ast

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable, suggestion
from runner.core.types import Evaluator, Parameter
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import ScriptModule, maker_of, only
from runner.inputs.evaluators.foreign.reads import keywords
from runner.inputs.evaluators.foreign.types import DialectMatch, ForeignDialect, row, row_by_name
from runner.inputs.evaluators.foreign.vendor import Vendor, made_inside, packages_of, read_marked

_TITLE = "a Ragas metric"
_SIMILAR = ("rapidfuzz",)
_OWN = {
    "ExactMatch": (),
    "StringPresence": (),
    "NonLLMStringSimilarity": _SIMILAR,
    "RougeScore": ("rouge-score",),
    "BleuScore": ("sacrebleu",),
    "CHRFScore": ("sacrebleu",),
    "ChrfScore": ("sacrebleu",),
    "IDBasedContextPrecision": (),
    "IDBasedContextRecall": (),
    "NonLLMContextPrecisionWithReference": _SIMILAR,
    "NonLLMContextRecall": _SIMILAR,
}
"""The package's own metrics that ask no model, and what each needs beside the package."""
_WITH_REFERENCE = {"ExactMatch", "StringPresence", "NonLLMStringSimilarity", "RougeScore", "BleuScore"}
_WITH_REFERENCE |= {"CHRFScore", "ChrfScore"}
_VENDOR = Vendor(
    "ragas",
    ("ragas", "langchain-community<0.4"),  # 0.4.3 imports a module that newer ones do not have
    decorators=("discrete_metric", "numeric_metric", "ranking_metric"),
    bases=("SingleTurnMetric", "BaseMetric", "SimpleBaseMetric"),
    methods=("_single_turn_ascore", "ascore"),
    columns={"output": ("response",), "input": ("user_input",), "reference": ("reference",)},
    fields=("retrieved_contexts", "reference_contexts", "retrieved_context_ids", "reference_context_ids", "rubrics"),
)
_COLUMNS = {"output": ("response",), "input": ("user_input",)}
_MODELS = ("MetricWithLLM", "MetricWithEmbeddings", "SimpleLLMMetric")


def _read(module: ScriptModule, entry: str | None, named: bool) -> DialectMatch | None:
    marked = read_marked(module, entry, _VENDOR, _TITLE)
    if marked is not None:
        kind = module.classes.get(maker_of(module, marked.entry))
        if kind is None:
            maker = maker_of(module, marked.entry)
            function = made_inside(module, _VENDOR).get(maker) or module.functions[marked.entry]
            own = {"response": "output", "user_input": "input"}
            given = [one.model_copy(update={"name": own.get(one.name, one.name)}) for one in function.parameters]
            keys = keywords(module, function.name, "response")
            read = [one.model_copy(update={"name": own.get(one.name, one.name)}) for one in keys]
            function = function._replace(parameters=(*given,))
            marked = marked._replace(parameters=row_by_name(function, _COLUMNS, read=read))
        if kind is not None and any(base.rpartition(".")[2] in _MODELS for base in kind.bases):
            raise EvaluatorError(f"{module.where}:{kind.line}: {marked.entry} asks a model, and evalcell calls none")
        return marked
    every = _brought(module)
    brought = only(module, every, entry, _TITLE)
    if brought is None:
        return None
    name, metric = brought
    if metric not in _OWN:
        known, called = [*_OWN], printable(metric, 60)
        raise EvaluatorError(
            f"{module.where}: {called} of ragas is not run: it asks a model, or needs more than a row has"
            f"{suggestion(metric, known)}; those that are run: {list_names(known, 20)}"
        )
    made = [kind for one, kind in every.items() if one in module.values]  # all of them, when the script loads
    needed = [package for kind in (metric, *made) for package in _OWN.get(kind, ())]
    packages = tuple(dict.fromkeys((*packages_of(module, _VENDOR), *needed)))
    needs = ("reference",) if metric in _WITH_REFERENCE else ()
    words = row(_COLUMNS, needs)
    if metric not in _WITH_REFERENCE:
        unit = "context_ids" if metric.startswith("IDBased") else "contexts"
        fields = [Parameter(name=f"{side}_{unit}", columns=(f"{side}_{unit}",)) for side in ("retrieved", "reference")]
        words = (words[0].model_copy(update={"required": False}), *words[1:], *fields)
    return DialectMatch(name, words, signature=metric, packages=packages, docstring=module.docstring, sure=True)


def _brought(module: ScriptModule) -> dict[str, str]:
    """By the name in the script, the package's own metrics: those that it makes, else those that it imports."""
    imported = {
        name: whole.rpartition(".")[2]
        for name, whole in module.imports.items()
        if whole.startswith("ragas.metrics.") and whole.rpartition(".")[2][:1].isupper()
    }
    made = {
        name: imported[node.func.id]
        for name, node in module.values.items()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported
    }
    return made or {name: kind for name, kind in imported.items() if kind in _OWN or len(imported) == 1}


def _program(evaluator: Evaluator) -> str:
    return program("ragas", evaluator, "vendor")


DIALECT = ForeignDialect(
    name="ragas",
    title=_TITLE,
    version=1,
    read=_read,
    program=_program,
    marks="one has a decorator such as @discrete_metric, or is a subclass of SingleTurnMetric",
    arguments={"output": "response", "reference": "reference", "input": "user_input", "metadata": "its columns"},
)
