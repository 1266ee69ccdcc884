"""
Whether a function reads what a tool would give it: an object with keys, such as LangSmith's run.

A tool that gives by place fills any two parameters. A function that takes texts there may hide in an `except` of its
own that it got an object, and score every row 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.foreign.module import PATTERN, ModuleFunction, ScriptModule
from runner.inputs.evaluators.foreign.object_places import object_places
from runner.inputs.evaluators.foreign.reads import ReadKey, keys_of
from runner.inputs.evaluators.python.entries import call_name
from runner.inputs.evaluators.python.signature import CallableNode, annotations_of, key_of, loop_parts

PLAIN = {*dir(str), *dir(list), *dir(float), "get", "items", "keys", "values"}
"""What texts, lists and numbers have, and objects with any keys."""
_MOST = 50
_SET = re.compile(r"(Optional\[)?([\w.]+\.)?(set|Set|frozenset|FrozenSet|AbstractSet|MutableSet)\b")


def reads_object(module: ScriptModule, function: ModuleFunction, name: str, keys: Collection[str]) -> bool | None:
    """
    Return true if the function looks into the parameter for one of the keys, None if it does not use it, else False.

    Functions of the script that it hands the parameter to are looked at, too.
    """
    if name == PATTERN:
        return True
    if module.language == "typescript":
        return _in_javascript(module.source, name, keys)
    used = False
    for node, own in holders(module, function.name, name):
        for inner in ast.walk(node):
            if _looks_into(inner, own, keys):
                return True
            used = used or (isinstance(inner, ast.Name) and inner.id == own)
    return False if used else None


def row_keys(module: ScriptModule, entry: str, name: str) -> list[ReadKey]:
    """Return the keys that a function reads of a parameter, also by functions of the script that it hands it to."""
    found: dict[str, bool] = {}
    for node, own in object_places(module, entry, name):
        for key in keys_of(node, own):
            found[key.name] = key.required and found.get(key.name, True)
    return [ReadKey(*each) for each in found.items()]


def attributes(module: ScriptModule, entry: str, name: str) -> list[str]:
    """
    Return the attributes that a function reads of a parameter, as of an object of DSPy's: no value of a row has one.
    """
    found: dict[str, None] = {}
    for node, own in holders(module, entry, name):
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=other, ctx=ast.Store()) if other == own:
                    return []
                case ast.Attribute(value=ast.Name(id=other), attr=attr) if other == own:
                    found[attr] = None
                case ast.Call(
                    func=ast.Name(id="hasattr" | "getattr"),
                    args=[ast.Name(id=other), ast.Constant(value=str(attr)), *_],
                ) if other == own:
                    found[attr] = None
    return [attr for attr in found if attr not in PLAIN and not attr.startswith("_")]


def called_objects(module: ScriptModule, entry: str, required: Collection[str]) -> tuple[str, list[str]]:
    """
    Return what to do with a function that calls methods of what it gets; empty for any other.

    And the parameters that no column can fill, as these are called.
    """
    calls = {} if "." in entry else {name: one for name in required if (one := _calls(module, entry, name))}
    if not calls:
        return "", []
    rest = ", ".join(name for name in required if name not in calls)
    objects = ", ".join(f"`{name}`" for name in calls)
    alone = "" if entry == NAME else f" without `:{entry}`"
    return (
        f"{entry} calls {', '.join(f'`{one}`' for one in calls.values())}, and no value of a row has functions: make "
        f"{objects} in the script itself, add `def evaluate({rest}): return "
        f"{call_name(module.body, entry)}({', '.join(required)})` below, and run that{alone}",
        [*calls],
    )


def compared_texts(module: ScriptModule, entry: str, name: str) -> list[str]:
    """Return the texts that a function compares a parameter with."""
    found: dict[str, None] = {}
    for node, own in holders(module, entry, name):
        for inner in ast.walk(node):
            match inner:
                case ast.Compare(left=ast.Name(id=other), comparators=[one]) if other == own:
                    parts = one.elts if isinstance(one, ast.Tuple | ast.List | ast.Set) else [one]
                case ast.Match(subject=ast.Name(id=other), cases=cases) if other == own:
                    parts = [case.pattern.value for case in cases if isinstance(case.pattern, ast.MatchValue)]
                case _:
                    continue
            found |= {one.value: None for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return [*found]


def _calls(module: ScriptModule, entry: str, name: str) -> str:
    """A method of its own that a function calls of a parameter: `conn.execute`."""
    for node, own in holders(module, entry, name):
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr=attr)) if other == own:
                    if attr not in PLAIN:
                        return f"{name}.{attr}"
    return ""


def misfit(module: ScriptModule, entry: str, name: str, value: object) -> str:
    """
    Return what a function does with a parameter that this value cannot do; nothing where it may look at what it got.
    """
    if not isinstance(value, str | dict | list):
        return ""
    own = dir(value)
    for node, held in holders(module, entry, name):
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=other, ctx=ast.Store()) if other == held:
                    return ""
                case ast.Call(func=ast.Name(id="isinstance" | "type"), args=[ast.Name(id=other), *_]) if other == held:
                    return ""
                case ast.Call(func=ast.Name(id="hasattr"), args=[ast.Name(id=other), ast.Constant(value=attr)]) if (
                    other == held and attr in PLAIN
                ):
                    return ""
    if strange := attributes(module, entry, name):
        return f"`.{strange[0]}`"
    for node, held in holders(module, entry, name):
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id=other), attr=attr) if other == held and attr in PLAIN:
                    if attr not in own:
                        return f"`.{attr}`"
                case ast.Subscript(value=ast.Name(id=other), slice=ast.Constant(value=str(key))) if other == held:
                    if not isinstance(value, dict):
                        return f'`["{key}"]`'
    return ""


def holders(module: ScriptModule, entry: str, name: str) -> Iterator[tuple[CallableNode, str]]:
    """Yield the function and those of the script that it hands the parameter to, each with its own name for it."""
    left, seen = [(entry, name)], set[tuple[str, str]]()
    while left and len(seen) < _MOST:
        one = left.pop()
        node = module.definition(one[0])
        if one in seen or node is None:
            continue
        seen.add(one)
        yield node, one[1]
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
                left += _handed(module, inner, one[1])


def _looks_into(node: ast.AST, name: str, keys: Collection[str]) -> bool:
    if read := key_of(node):
        return isinstance(read[0], ast.Name) and read[0].id == name and read[1] in keys
    match node:
        case ast.Attribute(value=ast.Name(id=own), attr=attribute) if own == name:
            return attribute in keys or attribute not in PLAIN
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=own), ast.Constant(value=key), *_]):
            return own == name and key in keys
    return False


def _handed(module: ScriptModule, call: ast.Call, name: str) -> list[tuple[str, str]]:
    """The function of the script that is given the parameter, and as what."""
    assert isinstance(call.func, ast.Name)
    function = module.functions.get(call.func.id)
    if function is None:
        return []
    places = [at for at, one in enumerate(call.args) if isinstance(one, ast.Name) and one.id == name]
    found = [function.names[at] for at in places if at < len(function.names)]
    found += [k.arg for k in call.keywords if k.arg and isinstance(k.value, ast.Name) and k.value.id == name]
    return [(function.name, one) for one in found]


def _in_javascript(source: str, name: str, keys: Collection[str]) -> bool | None:
    own, any_key = re.escape(name), "|".join(map(re.escape, keys))
    if re.search(rf"(?<![\w$]){own}\s*(\?\.|\.|(\?\.)?\[\s*[\"'`])\s*({any_key})\b", source):
        return True
    if re.search(rf"\{{[^{{}}]*\b({any_key})\b[^{{}}]*\}}\s*=\s*{own}(?![\w$])", source):
        return True
    return False if len(re.findall(rf"(?<![\w$.]){own}(?![\w$])", source)) > 1 else None


def of_sets(module: ScriptModule, entry: str) -> list[str]:
    """Return the parameters that a function declares as sets."""
    return [name for name, kind in annotations_of(module.definition(entry)).items() if _SET.match(kind)]


def goes_through(module: ScriptModule, entry: str, name: str) -> str:
    """
    Return the function of the script to which a function hands what it goes through one by one; empty if there is none.
    """
    function = module.definition(entry)
    calls = [] if function is None else [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    each = {part for _, parts in loop_parts(function) for part, whole in parts if whole == name}
    for call in calls:
        handed = len(call.args) > 1 and any(isinstance(one, ast.Name) and one.id in each for one in call.args)
        if handed and isinstance(call.func, ast.Name) and call.func.id in module.functions:
            return call.func.id
    return ""


def goes_through_rows(module: ScriptModule, entry: str, name: str) -> bool:
    """Say whether a function takes what it is given one by one, and reads the keys of each."""
    function = module.definition(entry)
    each = {part for _, parts in loop_parts(function) for part, whole in parts if whole == name}
    return function is not None and any(
        isinstance(read[0], ast.Name) and read[0].id in each
        for node in ast.walk(function)
        if (read := key_of(node)) is not None
    )
