"""docs/reference/python.md, from the docstrings of the public names: `make reference`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import runner
from runner.core import types
from runner.engine.scoring import shown_rows
from runner.inputs.datasets import dataset
from runner.results.store.types import DatasetInfo, EvaluatorInfo, EvaluatorVersion, RunInfo
from runner.server.service.types import RunEvent, ScriptCheck
from sandboxes import models
from sandboxes.record import Record

PAGE = Path(__file__).parent / "reference" / "python.md"
PARTS = {
    "Functions": (
        *("evaluate", "evaluate_all", "evaluate_project", "stream", "compare_runs", "compare_datasets", "plan_rows"),
        *("write_report", "evalcell_scorer", "reward", "compute_score", "inspect_scorer", "langsmith_evaluator"),
        *("audit", "check_examples", "parity", "verify", "read_evaluator", "read_requirements"),
    ),
    "What they return": (
        "Report",
        "Summary",
        "Result",
        "Comparison",
        "RowPlan",
        "ExamplesReport",
        "Parity",
        "Audit",
        "Verification",
        "Reward",
        "ComputeScore",
    ),
    "A server": ("Client", "AsyncClient"),
    "Evaluators and settings": (
        *("Evaluator", "RowScorer", "InputMapping", "Limits", "SandboxConfig", "JudgeSettings"),
        *("Categorical", "Continuous", "Freeform", "Case"),
    ),
    "Errors": (
        *("InputError", "EvaluatorError", "DatasetError", "ExamplesError", "MappingError", "OutputError"),
        *("WriteError", "UnsupportedConfigError", "SandboxError", "SandboxUnavailableError", "SandboxLostError"),
        *("RequirementError", "NotComparableError", "FailedRowsError", "ServerError"),
    ),
}
"""All public names, in the page's order."""
KEPT = (EvaluatorInfo, EvaluatorVersion, DatasetInfo, RunInfo, RunEvent, ScriptCheck)
"""What a client returns beside them."""
_HEAD = """\
# Python

The names that `from evalcell import …` offers. `make reference` makes this page from their docstrings.

Every `InputError` is a `ValueError`: something that was passed cannot be used. A `SandboxError` is the fault of neither
the caller nor the script.
"""
_WIDTH = 100


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for title, names in PARTS.items():
        lines.append(f"## {title}\n")
        for name in names:
            lines.append(f"### {name}\n")
            lines += _entry(name, getattr(runner, name))
    lines.append("## Parts of these\n")
    lines.append("Models that stand in fields of those above. They are returned, and are not imported from `runner`.\n")
    for model in _parts():
        lines.append(f"### {model.__name__}\n")
        lines += _model(model)
    lines.append("## Words\n\n| type | its values |\n|---|---|")
    lines += [f"| `{name}` | {values} |" for name, values in _words().items()]
    return "\n".join(lines).rstrip() + "\n"


def _parts() -> list[type[BaseModel | Record]]:
    """The models that fields of public ones have, and of those, in the order in which they occur."""
    public = [getattr(runner, name) for names in PARTS.values() for name in names]
    found = [one for one in (*public, *KEPT) if inspect.isclass(one) and issubclass(one, (BaseModel, Record))]
    for model in found:  # it grows
        for field in model.model_fields.values():
            found += [one for one in _models(field.annotation) if one not in found]
    return [model for model in found if model not in public]


def _models(annotation: Any) -> Iterator[type[BaseModel | Record]]:
    if inspect.isclass(annotation) and issubclass(annotation, (BaseModel, Record)):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _words() -> dict[str, str]:
    """The literals and the unions that annotations name."""
    literals = {name: value for module in (types, models, shown_rows, dataset) for name, value in vars(module).items()}
    found = {name: value for name, value in sorted(literals.items()) if get_origin(value) is Literal}
    words = {name: ", ".join(f"`{value}`" for value in get_args(alias)) for name, alias in found.items()}
    return words | {
        "Columns": "a dict of parameters and columns or paths, or an `InputMapping`",
        "Finite": "a float that is neither infinite nor NaN",
        "OutputConfig": "`Categorical`, `Continuous` or `Freeform`",
        "Path": "text, or a path as of `pathlib`",
        "Rows": "dicts, one a row, or a data frame",
        "Scorer": "a script's path, a template's name, an `Evaluator`, or a function",
    }


def _entry(name: str, found: Any) -> Iterator[str]:
    if inspect.isfunction(found):
        yield from _function(name, found)
    elif issubclass(found, (BaseModel, Record)):
        yield from _model(found)
    elif not issubclass(found, BaseException):
        yield from _class(name, found)
    else:
        (parent,) = found.__bases__
        yield f"{_text(found)} A subclass of `{parent.__name__}`.\n"


def _function(name: str, function: FunctionType) -> Iterator[str]:
    words = _signature(name, inspect.signature(function))
    yield f"```python\n{'async ' if inspect.iscoroutinefunction(function) else ''}{words}\n```\n"
    yield f"{_text(function)}\n"


def _signature(name: str, said: inspect.Signature) -> str:
    """On one line if it fits, else with a line for each parameter."""
    each = [str(one) for one in said.parameters.values() if one.name != "self"]
    kinds = [one.kind for one in said.parameters.values() if one.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        each.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    # The words of the source: annotations there are text.
    each = [re.sub(r"^(\*{0,2}\w+): (['\"])(.*?)\2", r"\1: \3", one) for one in each]
    returned = said.return_annotation
    end = "" if returned is said.empty else f" -> {returned}"
    short = f"{name}({', '.join(each)}){end}"
    if len(short) > _WIDTH:
        short = "\n".join([f"{name}(", *(f"    {one}," for one in each), f"){end}"])
    return short


def _class(name: str, found: type) -> Iterator[str]:
    """What it is made with, and its methods; those of a class that has the same are named alone."""
    made = inspect.signature(found).replace(return_annotation=inspect.Signature.empty)
    yield f"```python\n{_signature(name, made)}\n```\n"
    yield f"{_text(found)}\n"
    if name.startswith("Async"):
        return
    for own, member in vars(found).items():
        if inspect.isfunction(member) and not own.startswith("_"):
            yield from (f"#### {name}.{own}\n", *_function(own, member))


def _model(model: type[BaseModel | Record]) -> Iterator[str]:
    yield f"{_text(model)}\n"
    yield "| field | type | default | |\n|---|---|---|---|"
    said = _attributes(model)
    for name, field in model.model_fields.items():
        kind, text = said[name]
        default = _default(field.get_default(call_default_factory=True))
        yield f"| `{name}` | `{kind}` | {default} | {text} |".replace("  |", " |")
    for name, member in vars(model).items():
        if isinstance(member, property) and not name.startswith("_"):
            assert isinstance(member.fget, FunctionType)
            kind = inspect.signature(member.fget).return_annotation
            yield f"| `{name}` | `{_cell(kind)}` | a property | {_line(_text(member.fget))} |"
    yield ""
    for name, member in vars(model).items():
        if inspect.isfunction(member) and not name.startswith("_") and _text(member):
            yield from (f"#### {model.__name__}.{name}\n", *_function(name, member))


def _attributes(model: type[BaseModel | Record]) -> dict[str, tuple[str, str]]:
    """Each field's type, as it is written, and the docstring below it."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(model.__mro__):
        if base in (BaseModel, Record) or not issubclass(base, (BaseModel, Record)):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                below = after.value if isinstance(after, ast.Expr) else None
                text = below.value if isinstance(below, ast.Constant) and isinstance(below.value, str) else ""
                found[node.target.id] = (_cell(ast.unparse(node.annotation)), _line(text))
    return found


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    return "a default one" if isinstance(value, BaseModel | Record) else f"`{value!r}`"


def _text(found: Any) -> str:
    """Return the docstring, with its sections as Markdown."""
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", inspect.cleandoc(found.__doc__ or ""), flags=re.MULTILINE)
    texts = [parts[0].strip()]
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        body = textwrap.dedent(text).strip()
        if title == "Example":
            texts.append(f"```pycon\n{body}\n```")
        elif title == "Returns":
            texts.append(f"Returns: {body}")
        else:
            lines = [
                re.sub(r"^([\w*, ]+): ", _names, line) if line[:1].strip() else f"  {line.strip()}"
                for line in body.splitlines()
            ]
            texts.append("\n".join(lines if title == "Args" else ["Raises:\n", *lines]))
    return "\n\n".join(texts)


def _names(head: re.Match[str]) -> str:
    return f"- {', '.join(f'`{name}`' for name in head[1].split(', '))}: "


def _line(text: str) -> str:
    return _cell(" ".join(text.split()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"made {PAGE}", file=sys.stderr)
