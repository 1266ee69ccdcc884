"""
What a dataset's columns are to an evaluator: `output=prediction` fills whatever takes the output.

So a mapping names a column once, for all evaluators. docs/rules.md has the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from runner.core.types import Evaluator, InputMapping, Parameter
from runner.inputs.evaluators.column import BY_NAME, is_bare

ROLES = ("output", "reference", "input", "metadata", "context", "contexts")
"""The words for them; the last two say the same."""
_ROW = ROLES[:4]
"""Those by which headers and scripts of other tools take a row."""
_ROOT = re.compile(r"""\$\s*(?:\.\s*(\w+)|\[\s*["'](\w+)["']\s*\])""")
"""The column at which a path begins; in a filter, none of a header's does."""
_SETTINGS = "labels targets task source message request docs documents correct result solution"
ALSO_SETTINGS = frozenset(_SETTINGS.split())
"""Customary names of columns that are as often those of settings, where a parameter has a default."""


class ResolvedMapping(NamedTuple):
    """A mapping in the words of one evaluator."""

    evaluator: Evaluator
    """In its header, a path into a role's column goes into the column that has this role."""
    asked: InputMapping
    """By parameter."""
    roles: Mapping[str, str]
    """By parameter that takes one: its role."""
    by_role: Mapping[str, str]
    """Those that messages call by it."""
    unread: Mapping[str, Any]
    """Roles that no parameter takes, with what they were mapped to."""


def resolve(evaluator: Evaluator, caller_mapping: InputMapping) -> ResolvedMapping:
    """
    Give the parameters that take a role what it is mapped to, but those that are mapped by their own names.

    If nothing of the mapping is taken, it stays as it is, and is refused as unknown.
    """
    names = dict.fromkeys((*caller_mapping.paths, *caller_mapping.literals))
    wanted = [name for name in names if name in ROLES]
    roles = _declared(evaluator)
    own = {parameter.name for parameter in evaluator.parameters}
    mapped = {parameter for parameter in own if any(f"{name}.".startswith(f"{parameter}.") for name in names)}
    by_role = {name: role for name, role in roles.items() if name in evaluator.mapping.paths}
    if wanted:
        customary = {name: role for role, name in _customary(evaluator, roles).items()}
        # Of a script of another tool, which has a word for the role too, such a name is first that of a column.
        beside = {name: role for name, role in customary.items() if role in own}
        roles |= {name: role for name, role in customary.items() if name not in beside}
        by_role |= {name: role for name, role in roles.items() if role in map(_plain, wanted)}
    by_role = {name: role for name, role in by_role.items() if name not in mapped and role not in own}
    if not wanted:
        return ResolvedMapping(evaluator, caller_mapping, roles, by_role, {})
    paths, literals, headed = dict(caller_mapping.paths), dict(caller_mapping.literals), dict(evaluator.mapping.paths)
    unread: dict[str, Any] = {}
    also: dict[str, str] = {}
    for word in wanted:
        role = _plain(word)
        if word in own and roles.get(word) != role:  # the header takes this parameter from elsewhere
            continue
        takers = [name for name, one in roles.items() if one == role]
        parts = [name for name, path in headed.items() if name not in (*mapped, *takers) and _is_part(path, role)]
        headed |= {name: _moved(headed[name], paths[word]) for name in parts if word in paths}
        if word in caller_mapping.paths and is_bare(column := caller_mapping.paths[word]):
            also |= {name: column for name, one in beside.items() if one == role and name not in mapped}
        for values, given in ((paths, caller_mapping.paths), (literals, caller_mapping.literals)):
            if word in given:
                values |= {name: given[word] for name in takers if name not in mapped}
        if word in own or (evaluator.accepts_any and not takers and not parts):
            continue
        value = paths.pop(word, None)
        value = literals.pop(word, value)
        if not takers and not parts:
            unread[word] = value
    if unread.keys() == names.keys():
        return ResolvedMapping(evaluator, caller_mapping, roles, by_role, {})
    if headed != evaluator.mapping.paths:
        mapping = InputMapping(paths=headed, literals=evaluator.mapping.literals)
        evaluator = evaluator.model_copy(update={"mapping": mapping})
    if also:
        parameters = (
            one.model_copy(update={"columns": (*(one.columns or (one.name,)), also[one.name])})
            if one.name in also
            else one
            for one in evaluator.parameters
        )
        evaluator = evaluator.model_copy(update={"parameters": tuple(parameters)})
    return ResolvedMapping(
        evaluator,
        InputMapping(paths=paths, literals=literals),
        roles,
        by_role,
        unread,
    )


def takes(evaluator: Evaluator, role: str) -> bool:
    """Say whether a parameter takes this role; any name may be given to a function of our own with `**kwargs`."""
    if role not in ROLES:
        return False
    found = resolve(evaluator, InputMapping(paths={role: role, "": ""}))  # of one alone, nothing is left out
    left = role in found.asked.paths and all(one.name != role for one in evaluator.parameters)
    return role not in found.unread and not (left and evaluator.dialect)


def unknown(evaluator: Evaluator, roles: Mapping[str, str]) -> list[str]:
    """Return the parameters of which it is not known what they take."""
    header = evaluator.mapping
    known = {*roles, *header.paths, *header.literals, *BY_NAME}
    return [one.name for one in evaluator.parameters if one.declared is None and one.name not in known]


def in_words(path: str, columns: Mapping[str, str]) -> str:
    """Return a column or path in which a role may stand for its column: `reference`, and `$.output.text`."""
    return next(
        (_moved(path, column) for role, column in columns.items() if _is_part(path, role)), columns.get(path, path)
    )


def _plain(word: str) -> str:
    return "context" if word == "contexts" else word


def _declared(evaluator: Evaluator) -> dict[str, str]:
    """By parameter, the role that the header or the tool's words give it, or its own name."""
    header = evaluator.mapping
    found: dict[str, str] = {}
    for parameter in evaluator.parameters:
        name = parameter.name
        words = [word for word in parameter.columns if word in _ROW and "." not in name]
        if name in header.paths:
            words = [word for word in _ROW if _is_whole(header.paths[name], word)]
        elif name in header.literals:
            continue
        elif name in ROLES:
            words = [_plain(name)]
        found |= {name: words[0]} if words else {}
    return found


def _customary(evaluator: Evaluator, roles: Mapping[str, str]) -> dict[str, str]:
    """By role that no parameter is declared for, the one whose name is customary for it: `prediction`, `gold`."""
    asks = [one.name for one in evaluator.parameters if one.required or evaluator.dialect is None]
    left = [role for role in ("output", "reference", "input", "context") if role not in map(roles.get, asks)]
    names = [one.name for one in evaluator.parameters if _may_take(one, evaluator) and one.name not in roles]
    if not left or not names:
        return {}
    from runner.inputs.evaluators.column_suggestions import customary  # here: most mappings need it not

    return customary(left, names)


def _may_take(parameter: Parameter, evaluator: Evaluator) -> bool:
    name, header = parameter.name, evaluator.mapping
    if name in header.paths or name in header.literals or name.startswith(("else.", "column.")):
        return False
    return parameter.required or (name.rpartition(".")[2].lower() not in ALSO_SETTINGS)


def _rooted(path: str) -> str:
    if path.startswith("$"):
        return path
    return f"${path}" if path.startswith(("[", ".")) else f"$.{path}"


def _is_whole(path: str, role: str) -> bool:
    found = _ROOT.fullmatch(_rooted(path))
    return found is not None and role in found.groups()


def _is_part(path: str, role: str) -> bool:
    found = None if is_bare(path) or role not in _ROW[:3] else _ROOT.match(_rooted(path))
    return found is not None and role in found.groups()  # other columns are keys of `metadata`


def _moved(path: str, column: str) -> str:
    """A path of a header in the column that has its role: `$.output.text` in `reply` is `$.metadata["reply"].text`."""
    root = _rooted(column)
    if is_bare(column):
        root = f"$.{column}" if column in BY_NAME else f"$.metadata[{json.dumps(column)}]"
    return root + _ROOT.sub("", _rooted(path), count=1)
