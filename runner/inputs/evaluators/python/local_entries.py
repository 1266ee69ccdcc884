"""What to do with a scorer that stands in another function of a Python script."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection

from runner.core.text import list_names, printable
from runner.inputs.evaluators.column_suggestions import OUTPUTS, plain_name
from runner.inputs.evaluators.python.entries import HANDS_ON, SCORES, Entry, entry_of, likely, returned_function
from runner.inputs.evaluators.python.signature import CallableNode, FunctionNode, names_of, of_classes, parameters


def local_step(body: list[ast.stmt], name: str | None = None) -> str:
    """
    Say what to do with a function that stands in another one: with this name, or one that likely scores a row.

    Empty where there is none.
    """
    tops, local = names_of(body), dict[Entry, tuple[str, list[str]]]()
    known = tops.keys() | {*dir(builtins)}
    for top, outer in tops.items():
        if not isinstance(outer, CallableNode | ast.ClassDef):
            continue
        own_methods = {id(one) for one in outer.body} if isinstance(outer, ast.ClassDef) else set()
        nodes = [one for one in ast.walk(outer) if isinstance(one, FunctionNode) and one is not outer]
        inner = [one for one in nodes if id(one) not in own_methods and name in (None, one.name)]
        if (
            name is None
            and isinstance(outer, CallableNode)
            and isinstance(made := returned_function(outer), FunctionNode)
        ):
            own_entry = entry_of(made, parameters(made.args))._replace(name=made.name)
            if any(plain_name(one.name) in OUTPUTS for one in own_entry.parameters) and SCORES.search(top + made.name):
                given = ", ".join(f"{one.name}=…" for one in parameters(outer.args) if one.required)
                line = f"scorer = {top}({given})"
                return f"`{printable(own_entry.words, 100)}`, which {top} makes: add `{line}` to the end of the script"
            continue
        kinds = {id(one): kind.name for kind in ast.walk(outer) if isinstance(kind, ast.ClassDef) for one in kind.body}
        methods = of_classes(outer)
        for node in inner:
            own = ".".join(filter(None, (kinds.get(id(node)), node.name)))
            entry = entry_of(node, parameters(node.args)[id(node) in methods :])._replace(name=own)
            if name is not None or _judges_locally(entry):
                local[entry] = (top, _lacking(node, known))
    if not local:
        return ""
    first, *others = local
    top, read = local[first]
    needs = f", with what it takes of that, {list_names(read, 4)}," if read else ""
    also = [f"`{printable(one.words, 60)}` (line {one.line})" for one in others[:4]]
    rest = f" (local, too: {', '.join(also)})" if also else ""
    return (
        f"`{printable(first.words, 100)}` (line {first.line}) that is local to `{printable(top, 60)}`, and nobody but "
        f"that can call it: copy it out{needs} to the top level of the script{rest}"
    )


def local_scorer(body: list[ast.stmt]) -> str:
    """Say what to do with a function of another one that it hands to what runs scorers; empty where there is none."""
    for outer in names_of(body).values():
        inside = [*ast.walk(outer)] if isinstance(outer, CallableNode) else []
        local = {one.name for one in inside if isinstance(one, FunctionNode) and one is not outer}
        for word in (word for call in inside if isinstance(call, ast.Call) for word in call.keywords):
            for each in getattr(word.value, "elts", [word.value]) if word.arg in HANDS_ON else ():
                if isinstance(each, ast.Name) and each.id in local:
                    return local_step(body, each.id)
    return ""


def _lacking(node: FunctionNode, known: Collection[str]) -> list[str]:
    """What a function in another one takes of that."""
    nodes = [*ast.walk(node)]
    own = {one.arg for one in nodes if isinstance(one, ast.arg)}
    own |= {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.name for one in nodes if isinstance(one, FunctionNode | ast.ExceptHandler) and one.name}
    own |= {a.asname or a.name for one in nodes if isinstance(one, ast.Import | ast.ImportFrom) for a in one.names}
    return [*dict.fromkeys(one.id for one in nodes if isinstance(one, ast.Name) and one.id not in own | {*known})]


def _judges_locally(entry: Entry) -> bool:
    """Whether a function in another one is a scorer by its name and by what it takes."""
    words = {plain_name(one) for one in entry.required}
    return bool(likely([entry])) and bool(words & (OUTPUTS | {"run", "outputs"}))
