"""Refuse a dataset that lacks columns which a run needs, before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from runner.core.errors import ColumnsError, MappingError
from runner.core.text import list_names, printable, suggestion, weight
from runner.core.types import Case, Evaluator
from runner.inputs.evaluators.column import BY_NAME, column_text
from runner.inputs.evaluators.mapping import Binding
from runner.inputs.evaluators.parameters import about
from runner.inputs.evaluators.roles import ALSO_SETTINGS
from sandboxes.words.wording import Setting

if TYPE_CHECKING:
    from runner.inputs.evaluators.foreign.module import ScriptModule
    from runner.inputs.evaluators.foreign.reads import ReadKey

ROWS = 100
"""Rows that are looked at for a column that the first one lacks."""
SIZE = 16 << 20
"""Characters and values in them, at most: they are held until they are scored."""
PLACEHOLDER = "COLUMN"
COLUMNS = 1000
"""Columns that are looked at for a near name."""

_NUMBER = re.compile(r"\d+")
_NAMED = 20  # columns in a message


class Cases(Protocol):
    """Cases of which the first can be looked at."""

    header: tuple[str, ...]
    """The columns, if they are known before the rows are read."""

    def look(self, at: int) -> Case | None:
        """Return the case at this place, from 0; None beyond the end."""
        ...


def refuse_lacking(
    name: str,
    cases: Cases,
    bindings: Iterable[tuple[Evaluator, Binding]],
    others: Mapping[str, str] | None = None,
) -> None:
    """
    Look at the header, or else at the first rows, until they have all columns that the run needs.

    `others` are needed besides: what for, by column. A column that single rows lack fails those rows.

    Raises:
        ColumnsError: If a parameter has no column in any of the rows.
        MappingError: For one of the others.
    """
    others = others or {}
    pairs = [(evaluator, binding, _needs(binding)) for evaluator, binding in bindings]
    wanted = [_enough(binding, name, column) for _, binding, needs in pairs for name, column in needs.items()]
    wanted += [{column} for column in others]
    if not wanted:
        return
    columns, rows, row = look(cases, wanted)
    named = [column for column in columns if column != "metadata"]
    for evaluator, binding, needs in pairs:
        lacking = {
            parameter: column
            for parameter, column in needs.items()
            if columns.keys().isdisjoint(_enough(binding, parameter, column))
        }
        if lacking and (rows or cases.header):
            raise _error(_place(name, rows), named, row, evaluator, binding, lacking)
    for column, use in others.items() if rows or cases.header else ():
        if column not in columns:
            path = _likely_path(column, row, named)
            near = _meant(path) if path or column.startswith("$") else suggestion(column, named[:COLUMNS])
            there = f"the columns are {list_names(named, _NAMED)}"
            raise MappingError(f"{_place(name, rows)} has no {list_names([column])} {use}{near}; {there}")


def _needs(binding: Binding) -> dict[str, str]:
    """As the binding's own, with what columns of a script's keys may fill, of which there must be one."""
    return {**binding.needs(), **{name: name for name in binding.keys}}


def _enough(binding: Binding, parameter: str, column: str) -> set[str]:
    """
    The columns of which one is enough. Those of an output's keys are only proposed.

    A column such as `answer` may have the right one.
    """
    keys = () if parameter == "output" else binding.keys.get(parameter, ())
    return {column, *binding.others.get(parameter, ()), *keys}


def _place(name: str, rows: int) -> str:
    return name if rows < 2 else f"{name}, in its first {rows} rows,"


def kept_columns(cases: Cases) -> tuple[tuple[str, ...], bool]:
    """
    Return all columns but the id, as far as the header or the first rows have them, and whether no row has others.
    """
    columns, *_ = look(cases, None)
    complete = bool(cases.header) and "metadata" not in cases.header
    return tuple(name for name in columns if name not in ("id", "metadata")), complete


def look(cases: Cases, needs: Sequence[set[str]] | None) -> tuple[dict[str, None], int, Case | None]:
    """
    Return the columns of the first rows, in their order, the number of rows that have any, and the first of these.

    One of each set is wanted; None wants all columns.
    """
    header = cases.header
    first = None
    columns = dict.fromkeys(header)
    if not columns.keys() <= set(BY_NAME):
        columns["metadata"] = None
    rows = size = read = 0
    most = ROWS if not header or "metadata" in header else 0  # a file with a header has no other columns
    while (
        (not rows or needs is None or any(columns.keys().isdisjoint(one) for one in needs))
        and read < most
        and size < SIZE
    ):
        if (case := cases.look(read)) is None:
            break
        read += 1
        if case.broken is None:
            first = first or case
            rows += 1
            names = (*sorted(case.present, key=BY_NAME.index), *case.metadata, *case.unread)
            columns |= dict.fromkeys(names)
        if read > 1:
            size += weight((case.input, case.output, case.reference, case.metadata))
    return columns, rows, first


def _error(
    name: str, own: list[str], row: Case | None, evaluator: Evaluator, binding: Binding, lacking: Mapping[str, str]
) -> MappingError:
    from runner.inputs.evaluators.column_suggestions import is_setting, likely_columns
    from runner.inputs.evaluators.python.attributes import object_attributes

    named = binding.own & lacking.keys()
    settings = {p.name: p.declared for p in evaluator.parameters if p.declared is not None and p.name in named}
    parameters = [name for name in lacking if name not in settings]
    asked = binding.mapping.paths
    paths = {p: path for p in parameters if (path := _likely_path(asked[p], row, own))}
    # A column that another parameter has is not the likeliest for this one.
    taken = set(binding.needs().values()) - set(lacking.values())
    taken |= {column for columns in binding.others.values() for column in columns}
    free = [column for column in own if column not in taken and column != "id"]
    unread = [p for p in parameters if p == lacking[p] and not _reads(evaluator, p)]
    sought = [p for p in parameters if p not in paths and p not in unread]
    likely = likely_columns({p: lacking[p].removeprefix("$.") for p in sought}, free)
    names = {p: (*binding.others.get(p, ()), p) for p in sought if p not in likely}
    paths |= dict(_inside(names, row))
    given = {*binding.mapping.literals, *binding.needs(), *own}
    optional = [
        p.name
        for p in evaluator.parameters
        if not p.required and p.name in BY_NAME[:3] and p.name not in given
        if {*binding.keys.get(p.name, ())}.isdisjoint(own)
    ]
    optional += [p for p in binding.optional if p not in optional and _may_be_meant(evaluator, p, binding.optional[p])]
    likely |= likely_columns(
        dict(zip(optional, optional, strict=True)), [column for column in free if column not in likely.values()]
    )
    every = dict.fromkeys(parameters, PLACEHOLDER)
    likely |= _other_way(own, {**binding.needs(), **likely}, [p for p in sought if p not in likely and p not in paths])
    every |= {parameter: column_text(column) for parameter, column in likely.items()} | paths
    every |= _of_example(evaluator, [one for one in free if one not in likely.values()])
    why = _why(name, own, lacking, every, settings, binding.by_role)
    whole_objects = {p for p, path in paths.items() if _is_whole(evaluator, p, binding.others.get(p, ()), path, row)}
    sought_parts = {p: column for p, column in (dict.fromkeys(lacking, "") | likely).items() if p not in whole_objects}
    parts = dict(_parts(evaluator, binding, sought_parts, row, own))
    keys = {p: row_keys_of(evaluator, p) for p in parameters if every[p] == PLACEHOLDER}
    for p, read in keys.items():
        if whole := of_row(read, own):
            parts[p] = {f"{p}{key}": path for key, path in whole.items()}
    objects_of = {p: attrs for p in lacking if (attrs := object_attributes(evaluator, p))}
    attributes = [attr for attrs in objects_of.values() for attr in attrs]
    for p, attrs in objects_of.items():
        sure = [attr for attr in attrs if attr in own and attributes.count(attr) == 1]
        parts[p] = {f"{p}.{attr}": column_text(attr) if attr in sure else PLACEHOLDER for attr in attrs}
    objects, unmapped = ("", []) if any(keys.values()) or parts else _of_objects(evaluator)
    why += f"; {objects}" if objects else ""
    for p in keys:
        if len(parameters) == 1 and not keys[p] and (alone := _all_rows(evaluator, p, own)):
            why += f"; {alone}"
    why += "".join(f"; the script reads {list_names(k.name for k in keys[p])} of `{p}`" for p in keys if keys[p])
    why += _same_columns(likely, [one for one in free if one not in likely.values()])
    stuck = [p for p in keys if p not in (*unread, *parts, *BY_NAME, *unmapped) and not keys[p] and not is_setting(p)]
    if stuck and len(stuck) < len(evaluator.parameters) and evaluator.dialect is None:
        why += f"; a value for all rows is given by {Setting('mapping.literals', {stuck[0]: 'VALUE'})}"
    several = {p: binding.keys[p] for p in lacking if p in binding.keys}
    why += "".join(f"; the script reads {list_names(read)} of it" for read in several.values())
    every = {one: path for name, path in every.items() for one, path in parts.get(name, {name: path}).items()}
    words = {
        p: columns[0] for p, columns in binding.others.items() if p in lacking and p in BY_NAME and columns[0] != p
    }
    if words:
        why += f" ({', '.join(f'`{word}` of the script is `{p}` here' for p, word in words.items())}"
        null = [p for p in words if p != "output"]
        why += f"; if it can do without, give `{null[0]}` the value null)" if null else ")"
    elif evaluator.dialect == "promptfoo" and (
        aside := [p for p in lacking if "." not in p and every.get(p) == PLACEHOLDER]
    ):
        why += f" (if the script can do without, give `{aside[0]}` the value null)"
    values = [
        p
        for p, path in every.items()
        if path == PLACEHOLDER and (p in unread or (is_setting(p) and p in lacking.values()))
    ]
    why += f"; the script never reads {list_names(unread)}: any value will do" if unread else ""
    if unmapped:  # no mapping would do
        return MappingError(why)
    paths = _by_roles({p: path for p, path in every.items() if p not in values}, binding.by_role)
    texts = {p: _compared_texts(evaluator, p) for p in values}
    for p, some in texts.items():
        why += f"; `{p}` is compared with {list_names([json.dumps(one) for one in some], 4)}" if some else ""
    examples = {p: some[0] for p, some in texts.items() if some}
    return ColumnsError(why, paths, (*settings, *values), examples)


def _other_way(own: Sequence[str], bound: Mapping[str, str], left: Sequence[str]) -> dict[str, str]:
    """
    Return what to map where `output` has the right answer: beside a column such as `prediction`, and without another.
    """
    from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES, is_answer, plain_name

    answers = [one for one in own if plain_name(one) in ("output", "outputs")]
    models = [one for one in own if plain_name(one) in OUTPUTS - REFERENCES and one not in answers]
    lacking = [one for one in left if is_answer(one)]
    if (len(answers), len(models), len(lacking)) != (1, 1, 1):
        return {}
    return {p: models[0] for p, column in bound.items() if column == answers[0]} | {lacking[0]: answers[0]}


def _same_columns(likely: Mapping[str, str], free: Sequence[str]) -> str:
    """Other columns that do as well as a likely one, as they differ by a number alone: `hyp1` and `hyp2`."""
    said = ""
    for parameter, column in likely.items():
        same = [one for one in free if one != column and _NUMBER.sub("", one) == _NUMBER.sub("", column)]
        said += f"; {list_names(same, 4)} would do for `{parameter}` as well" if same else ""
    return said


def _of_example(evaluator: Evaluator, columns: list[str]) -> dict[str, str]:
    """The right answer of an example that a TypeScript function of no tool may be given: it is what it judges by."""
    asked = any(p.name == "example" and not p.required for p in evaluator.parameters)
    if not asked or evaluator.dialect is not None or evaluator.language == "python" or evaluator.entry is None:
        return {}
    from runner.inputs.evaluators.column_suggestions import likely_columns
    from runner.inputs.evaluators.typescript.entries import keys_of

    if "outputs" not in keys_of(evaluator.source, evaluator.entry, "example"):
        return {}
    column = likely_columns({"example": "reference"}, columns).get("example")
    return {"example.outputs": PLACEHOLDER if column is None else column_text(column)}


def _may_be_meant(evaluator: Evaluator, parameter: str, names: Collection[str]) -> bool:
    """Whether a parameter with a default of nothing is a part of a row by its name, and the script reads it."""
    from runner.inputs.evaluators.column_suggestions import INPUTS, OUTPUTS, is_answer, plain_name
    from runner.inputs.evaluators.foreign.reads import uses_default

    known = is_answer(parameter) or plain_name(parameter) in (OUTPUTS | INPUTS) - {*ALSO_SETTINGS}
    return known and evaluator.dialect is None and uses_default(evaluator, parameter, names)


def _by_roles(paths: Mapping[str, str], by_role: Mapping[str, str]) -> dict[str, str]:
    """The same, with the role in place of a parameter's name: it is right for other evaluators too."""
    found: dict[str, str] = {}
    for name, path in paths.items():
        role = by_role.get(name, name)
        found[name if found.get(role, path) != path else role] = path
    return found


def _parts(
    evaluator: Evaluator, binding: Binding, likely: Mapping[str, str], row: Case | None, every: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """By parameter of which a script reads keys, where the likely column is no object: a column for each key."""
    from difflib import get_close_matches  # here: few wait for it

    from runner.inputs.evaluators.column_suggestions import likely_columns
    from runner.inputs.evaluators.foreign.reads import object_keys

    for parameter, column in likely.items():
        own = every
        value = None if row is None else getattr(row, column, None) if column in BY_NAME else row.metadata.get(column)
        if isinstance(value, dict):
            continue
        if several := binding.keys.get(parameter, ()):
            close = {key: get_close_matches(key, own, 1, 0.8) for key in several}
            if not {*several}.isdisjoint(own):
                name = binding.others.get(parameter, (parameter,))[0]
                yield parameter, {f"{name}.{key}": column_text(n[0]) for key, n in close.items() if n}
            continue
        read = object_keys(evaluator, parameter, binding.others.get(parameter, ()))
        # A column that is the output is not the reference, too, though both are read by its name.
        taken = {one for other, one in likely.items() if other != parameter}
        own = [one for one in every if one not in taken]
        if not column:
            near = {key: key for key in read if key in own}
            left = [key for key in read if key not in near]
            near |= likely_columns(dict(zip(left, left, strict=True)), [one for one in own if one not in near])
            if near:
                more = [one for one in own if one not in read] if _reads_more(evaluator, parameter) else ()
                each = {key: near.get(key, PLACEHOLDER) for key in read} | {one: one for one in more}
                yield parameter, {f"{parameter}.{key}": column_text(column) for key, column in each.items()}
        elif len(read) == 1 and (value is not None or read[0] in own):
            yield parameter, {f"{parameter}.{read[0]}": column_text(read[0] if read[0] in own else column)}
        elif not {*read}.isdisjoint(own):
            close = {key: get_close_matches(key, own, 1, 0.6) for key in read}
            if _reads_more(evaluator, parameter):  # all columns, since no one can say which it does without
                close |= {column: [column] for column in own if column not in close}
            yield parameter, {f"{parameter}.{key}": column_text(n[0]) if n else PLACEHOLDER for key, n in close.items()}


def _reads_more(evaluator: Evaluator, parameter: str) -> bool:
    if evaluator.language != "typescript" or evaluator.dialect is not None or evaluator.entry is None:
        return False
    from runner.inputs.evaluators.typescript.entries import reads_more

    return reads_more(evaluator.source, evaluator.entry, parameter)


def _own_module(evaluator: Evaluator) -> ScriptModule | None:
    """A Python script of no tool, as a module. One in TypeScript takes an object anyway."""
    if evaluator.dialect is not None or evaluator.language != "python":
        return None
    from runner.inputs.evaluators.foreign.module import read_python

    return read_python(evaluator.source, evaluator.name)


def _reads(evaluator: Evaluator, parameter: str) -> bool:
    """Whether a script does anything with a parameter; only a function of no tool in Python is looked at."""
    if parameter in BY_NAME or (module := _own_module(evaluator)) is None:
        return True
    from runner.inputs.evaluators.foreign.reads import uses

    return uses(module, evaluator.called, parameter)


def row_keys_of(evaluator: Evaluator, parameter: str) -> list[ReadKey]:
    """
    Return the keys that a function of no tool reads of a parameter: then it takes the row, or a part, as an object.
    """
    if (module := _own_module(evaluator)) is None:
        return []
    from runner.inputs.evaluators.foreign.evidence import row_keys

    return row_keys(module, evaluator.called, parameter)


def _compared_texts(evaluator: Evaluator, parameter: str) -> list[str]:
    """The texts with which a function of no tool compares a parameter."""
    if (module := _own_module(evaluator)) is None:
        return []
    from runner.inputs.evaluators.foreign.evidence import compared_texts

    return compared_texts(module, evaluator.called, parameter)


def _of_objects(evaluator: Evaluator) -> tuple[str, list[str]]:
    """As `called_objects`, for a function of no tool."""
    if (module := _own_module(evaluator)) is None:
        return "", []
    from runner.inputs.evaluators.foreign.evidence import called_objects

    return called_objects(module, evaluator.called, [one.name for one in evaluator.parameters if one.required])


def _all_rows(evaluator: Evaluator, parameter: str, columns: Sequence[str]) -> str:
    """What to do with a function of no tool that goes through all rows; empty for any other."""
    if evaluator.dialect is None and evaluator.language == "typescript" and evaluator.entry is not None:
        from runner.inputs.evaluators.typescript.entries import arrays_of  # here: the parser takes time to import

        arrays, called = arrays_of(evaluator.source, evaluator.entry)
        own = ["metadata", *(one for one in BY_NAME[:3] if one in columns)]
        line = f"export function evaluate({{ {', '.join(own)} }}) {{ return {called}([{{ ...{', '.join(own)} }}]); }}"
        return f"`{parameter}` is an array: if that is of all rows, add `{line}` to the script" * (parameter in arrays)
    if (module := _own_module(evaluator)) is None:
        return ""
    from runner.inputs.evaluators.foreign.evidence import goes_through_rows
    from runner.inputs.evaluators.python.entries import call_name

    called = evaluator.called
    if not goes_through_rows(module, called, parameter):
        return ""
    name, first = call_name(module.body, called), "name it otherwise and " if called == "evaluate" else ""
    return (
        f"`{called}` goes through a list of objects: if these are the rows, of which each call gets one, {first}define "
        f"`def evaluate(row): return {name}([row])`, or a part of that, and give "
        f"{Setting('mapping.paths', {'row': '$.metadata'})}"
    )


def of_row(keys: Sequence[ReadKey], columns: Sequence[str]) -> dict[str, str]:
    """
    Return what makes the object whose keys are read: all of the row, as "", or a column for each key, as ".answer".

    All of it also gives what few rows have, and is not enough for a key that has another name among the columns.
    """
    from runner.inputs.evaluators.column_suggestions import likely_columns

    names = [key.name for key in keys]
    if {*BY_NAME}.isdisjoint(names) and all(key.name in columns for key in keys if key.required):
        return {"": "$.metadata"} if not {*names}.isdisjoint(columns) else {}
    lacking = {name: name for name in names if name not in columns and name not in ("id", "metadata")}
    likely = likely_columns(lacking, [column for column in columns if column not in names])
    if not likely and lacking.keys() >= {*names}:
        return {}
    return {
        f".{key.name}": column_text(likely.get(key.name, key.name)) if found else PLACEHOLDER
        for key in keys
        if (found := key.name in likely or key.name not in lacking) or key.required
    }


def _inside(parameters: Mapping[str, Collection[str]], row: Case | None) -> Iterator[tuple[str, str]]:
    """By parameter, given the names by which it is known: the path of a key of such a name in an object."""
    from runner.inputs.evaluators.column_suggestions import step

    whole = [] if row is None else [(f"$.{one}", getattr(row, one)) for one in BY_NAME[:3] if one in row.present]
    whole += [] if row is None else [(f"$.metadata{step(name)}", value) for name, value in row.metadata.items()]
    for parameter, names in parameters.items():
        for column, value in whole:
            key = next((one for one in names if isinstance(value, dict) and one in value), None)
            if key is not None:
                yield parameter, f"{column}{step(key)}"
                break


def _is_whole(evaluator: Evaluator, parameter: str, names: Sequence[str], path: str, row: Case | None) -> bool:
    """Whether a row has an object at a path that was found in it, with all keys that the script reads of it."""
    from runner.inputs.evaluators.foreign.reads import object_keys

    value: Any = None if row is None else {**{one: getattr(row, one) for one in BY_NAME[:3]}, "metadata": row.metadata}
    from runner.inputs.evaluators.column import parse_source

    for key in parse_source(path, trusted=True).keys or ():
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, dict) and {*object_keys(evaluator, parameter, names)} <= value.keys()


def _likely_path(path: str, row: Case | None, columns: list[str]) -> str | None:
    """The path that is meant by one at which there is nothing; None for one that is no more than a column, too."""
    if not path.startswith("$"):
        return None
    from runner.inputs.evaluators.column import parse_source
    from runner.inputs.evaluators.column_suggestions import likely_path

    keys = parse_source(path, trusted=True).keys
    found = likely_path(keys, row, columns) if keys and len(keys) > 1 else None
    return None if found == path else found


def _meant(path: str | None) -> str:
    return f" (did you mean `{printable(path, 200)}`?)" if path and path != PLACEHOLDER else ""


def _why(
    name: str,
    columns: list[str],
    lacking: Mapping[str, str],
    likely: Mapping[str, str],
    settings: Mapping[str, Any],
    by_role: Mapping[str, str],
) -> str:
    words = []
    plain = [p for p, column in lacking.items() if column in (p, by_role.get(p)) and p not in settings]
    if plain:
        words.append(f"no column for {list_names(dict.fromkeys(by_role.get(p, p) for p in plain))}")
    for parameter, column in lacking.items():
        if parameter not in plain and parameter not in settings:
            is_path = column.startswith("$")
            what = f"nothing at {list_names([column])}" if is_path else f"no column {list_names([column])}"
            words.append(f"{what}{_meant(likely[parameter])}, which `{by_role.get(parameter, parameter)}` is mapped to")
    text = f"{name} has {', and '.join(words)}" if words else ""
    for setting, declared in settings.items():
        text += f"{'; ' if text else ''}evaluate needs `{setting}` ({about(declared)})"
    if plain == ["ctx"]:
        text += " (a script of Langfuse's page takes one; if it is such, make that its dialect, `langfuse`)"
    # Nothing in a message may be obeyed by a terminal, and a name may be long.
    return f"{text}; the columns are {list_names(columns, _NAMED)}" if columns else f"{text}; it has no columns"
