"""Parameters of Python functions of no tool that are objects with attributes: `query.gold`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

from runner.core.types import Evaluator
from runner.inputs.evaluators.python.signature import annotations_of, expression

_LOOKS = ("isinstance", "type", "hasattr", "getattr", "dict", "len", "vars", "asdict")
"""What asks an object what it is, or takes it as a dict."""
_MADE = """
def _evalcell_objects(function, kinds):
    import functools, inspect, types
    def made(value, kind):
        if not isinstance(value, dict):
            return value
        if isinstance(kind, type):
            try:
                return kind(**value)
            except Exception:
                pass
            try:
                own = kind.__new__(kind)
                own.__dict__.update(value)
                return own
            except Exception:
                pass
        return types.SimpleNamespace(**value)
    @functools.wraps(function)
    def call(*args, **keywords):
        bound = inspect.signature(function).bind(*args, **keywords)
        for name in kinds.keys() & bound.arguments.keys():
            bound.arguments[name] = made(bound.arguments[name], kinds[name])
        return function(*bound.args, **bound.kwargs)
    return call
"""


def object_attributes(evaluator: Evaluator, parameter: str) -> list[str]:
    """Return the attributes that a function reads of a parameter; none where it may take something else there."""
    if evaluator.dialect is not None or evaluator.language != "python" or evaluator.is_inline:
        return []
    return list(_attributes(evaluator.source, evaluator.name, evaluator.called, parameter))


@lru_cache(16)  # a server asks before each call of a script
def _attributes(source: str, where: str, called: str, parameter: str) -> Sequence[str]:
    from runner.inputs.evaluators.foreign.evidence import PLAIN, attributes, holders
    from runner.inputs.evaluators.foreign.module import read_python

    if not any(one not in PLAIN for one in re.findall(r"\.\s*([A-Za-z_]\w*)", source)):
        return []
    module = read_python(source, where)
    found = attributes(module, called, parameter)
    for node, own in holders(module, called, parameter) if found else ():
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if name == own and attr in PLAIN - {"index"}:
                    return []
                case ast.Subscript(value=ast.Name(id=name)) if name == own:
                    return []
                case ast.Call(
                    func=ast.Name(id="hasattr" | "getattr"), args=[ast.Name(id=name), ast.Constant(value=attr), *_]
                ) if name == own and attr not in PLAIN:
                    continue  # an attribute, too
                case ast.Call(func=func, args=[ast.Name(id=name), *_]) if name == own:
                    if expression(func).rpartition(".")[2] in _LOOKS:
                        return []
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name == own:
                    found = [one for one in found if one != attr]
    return found


def with_objects(source: str, evaluator: Evaluator) -> str:
    """Return the script, in which the function that is called gets objects with attributes for a row's objects."""
    names = [one.name for one in evaluator.parameters if object_attributes(evaluator, one.name)]
    if not names:
        return source
    from runner.inputs.evaluators.foreign.module import read_python

    module = read_python(evaluator.source, evaluator.name)
    kinds: dict[str, str] = dict.fromkeys(names, "None")
    for name, kind in annotations_of(module.definition(evaluator.called)).items():
        if name in kinds and isinstance(module.names.get(kind), ast.ClassDef):
            kinds[name] = kind
    given = ", ".join(f"{name!r}: {kind}" for name, kind in kinds.items())
    called = f"globals()[{evaluator.called!r}]"
    return f"{source}{_MADE}{called} = _evalcell_objects({called}, {{{given}}})\n"
