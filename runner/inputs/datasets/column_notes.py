"""What there is to say of how columns fill a script's parameters, of the first rows, before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.core.errors import MappingError
from runner.core.text import describe, list_names
from runner.core.types import Case, Evaluator
from runner.inputs.datasets.required_columns import Cases, look, of_row, row_keys_of
from runner.inputs.datasets.shapes import best_of
from runner.inputs.evaluators.column import BY_NAME, column_text
from runner.inputs.evaluators.mapping import Binding
from sandboxes.words.wording import Setting

_ROWS = 5
"""Rows that are looked at for the keys of objects."""


def default_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> list[str]:
    """Return what there is to say where a script's reference is left to its default, and a column looks like it."""
    notes = [*_key_notes(cases, evaluator, binding), *_unknown_notes(cases, evaluator, binding)]
    notes += [*_absent_notes(cases, evaluator, binding), *_config_notes(cases, evaluator, binding)]
    notes += [*_store_notes(cases, evaluator, binding)]
    optional = binding.optional
    mapped = {*binding.mapping.paths, *binding.mapping.literals}
    if not optional or evaluator.is_inline:
        return notes
    from runner.inputs.evaluators.column_suggestions import (  # here: most scripts have no such parameter
        is_reference,
        likely_columns,
    )

    wanted = {parameter: plain for parameter in optional if is_reference(plain := parameter.rpartition(".")[2])}
    if not wanted or any(is_reference(one.rpartition(".")[2]) for one in mapped - optional.keys()):
        return notes
    columns, _, first = look(cases, [set(wanted)])
    if any(not columns.keys().isdisjoint(optional[parameter]) or _has(first, parameter) for parameter in wanted):
        return notes
    taken = {column for one in optional.values() for column in one}
    taken |= {*binding.needs().values(), *(one.removeprefix("$.") for one in binding.mapping.paths.values())}
    taken |= {column for names in binding.others.values() for column in names}
    free = [column for column in columns if column not in taken and is_reference(column)]
    if not free:
        return notes
    from runner.inputs.evaluators.foreign.reads import uses_default

    wanted = {p: plain for p, plain in wanted.items() if uses_default(evaluator, p, optional[p])}
    for parameter, column in likely_columns(wanted, free).items():
        word = next((one for one in optional[parameter] if one != parameter), parameter)
        path = {parameter: column_text(column)}
        notes.append(
            f"no column has what the script reads as {list_names([word])}, and it goes on without; if "
            f"{list_names([column])} is meant, give {Setting('mapping.paths', path)}"
        )
        break
    return notes


def _has(case: Case | None, parameter: str) -> bool:
    """Whether a row has the object of which a parameter is a part, such as `doc.gold`, with that key."""
    column, _, key = parameter.removeprefix("else.").partition(".")
    value = None if case is None else case.metadata.get(column)
    return isinstance(value, dict) and key in value


def _key_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> Iterator[str]:
    """That a column has the name of the only key that a script reads of what is mapped to another."""
    for parameter in evaluator.parameters if evaluator.dialect in ("langsmith", "phoenix") else ():
        path = binding.mapping.paths.get(parameter.name, "").removeprefix("$.").removeprefix("metadata.")
        if not parameter.columns:
            continue
        key = parameter.columns[-1]
        if not path or path in (key, *BY_NAME) or parameter.name not in BY_NAME or binding.others.get(parameter.name):
            continue
        word = parameter.columns[0]
        if key in (word, "reference", "input") or key not in look(cases, [{key}])[0]:
            continue
        yield (
            f"the script reads {list_names([key])} of {list_names([word])}, and gets {list_names([path])} as "
            "such, though a column "
            f"has that very name; if that is meant, give {Setting('mapping.paths', {parameter.name: column_text(key)})}"
        )


def _unknown_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> Iterator[str]:
    """That a script reads of its tool's object what that has not, by a name that no column has."""
    known = {"promptfoo": "its context", "deepeval": "its test case"}
    if evaluator.dialect not in known or evaluator.is_inline:
        return
    from runner.inputs.evaluators.column_suggestions import is_reference

    own = {name: columns for name, columns in binding.optional.items() if name not in BY_NAME}
    if evaluator.dialect == "promptfoo":
        own = {name: columns for name, columns in own.items() if name.startswith("context.")}
    own = {name: columns for name, columns in own.items() if not is_reference(name.rpartition(".")[2])}
    columns = look(cases, [{*names} for names in own.values()])[0] if own else {}
    taken = {*BY_NAME, *(column for names in binding.others.values() for column in names)}
    left = [name for name, names in own.items() if columns.keys().isdisjoint(names)]
    if left and columns.keys() - taken:
        words = list_names([name.rpartition(".")[2] for name in left])
        yield (
            f"the script reads {words} of {known[evaluator.dialect]}, which no column has, and goes on without; if "
            f"one is meant, give {Setting('mapping.paths', {left[0]: 'COLUMN'})}"
        )


def _config_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> Iterator[str]:
    """That an assertion of promptfoo's reads of its config what nothing sets."""
    if evaluator.dialect != "promptfoo" or evaluator.is_inline:
        return
    from runner.inputs.evaluators.foreign.dialects.promptfoo import settings_read

    read = settings_read(evaluator)
    case = cases.look(0) if read else None
    config = case.metadata.get("config") if case is not None and not case.broken else None
    known = {*binding.mapping.paths, *binding.mapping.literals, *(config if isinstance(config, dict) else ())}
    if left := [name for name in read if name not in known]:
        given = " ".join(str(Setting("mapping.literals", {name: ...})) for name in left[:4])
        yield f"the script reads {list_names(left, 4)} of `context.config`, which nothing sets; give {given}"


def _absent_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> Iterator[str]:
    """That a script asks an object for a key that no row's has, and goes on with what it has for that."""
    if (
        evaluator.language != "python"
        or not evaluator.evaluates
        or evaluator.is_inline
        or ".get(" not in evaluator.source
    ):
        return
    from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES, plain_name  # here: few ask so
    from runner.inputs.evaluators.foreign.dialects.langsmith import keys_read
    from runner.inputs.evaluators.foreign.reads import object_keys

    every: dict[str, dict[str, None]] = {}
    for case in (one for at in range(_ROWS) if (one := cases.look(at)) is not None and one.broken is None):
        try:
            given = binding.arguments(case)[1]
        except MappingError:
            continue
        for name, value in given.items():
            if isinstance(value, dict):
                every.setdefault(name, {}).update(dict.fromkeys(map(str, value)))
    of_langsmith = keys_read(evaluator) if evaluator.dialect == "langsmith" and every else {}
    for name, have in every.items():
        words = binding.others.get(name, (name,))
        if evaluator.dialect is None:
            read = [key.name for key in row_keys_of(evaluator, name)]
        else:
            read = of_langsmith.get(name) or object_keys(evaluator, name, words)
        mapped = {one.rpartition(".")[2] for one in (*binding.mapping.paths, *binding.mapping.literals)}
        lacking = [key for key in read if key not in have and key not in mapped]
        free = [key for key in have if key not in read]
        sides = [key for key in lacking if plain_name(key) in OUTPUTS | REFERENCES]
        if not free or not (sides or lacking == read) or not lacking:
            continue
        first = (sides or lacking)[0]
        word = words[0] if name in BY_NAME else name
        yield (
            f"the script reads {list_names([first])} of {list_names([word])}, which has none in the first rows, and "
            f"goes on without; it has {list_names(free, 6)}; if one is meant, give "
            f"{Setting('mapping.paths', {f'{word}.{first}': 'COLUMN'})}"
        )


def _store_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> Iterator[str]:
    """That a scorer of Inspect's reads what a solver left in the sample's store, and no column has it."""
    if evaluator.dialect != "inspect" or "store" not in evaluator.source or "store" in binding.mapping.paths:
        return
    from runner.inputs.evaluators.foreign.dialects.inspect import store_read

    columns = look(cases, [{"store"}])[0]
    if "store" not in columns and (read := store_read(evaluator, columns)):
        yield (
            f"the scorer reads a sample's store, by `{read}`, which no column holds, so it gets what an empty store "
            "gives; samples of an Inspect log have a column `store`; if another one is meant, give "
            f"{Setting('mapping.paths', {'store': 'COLUMN'})}"
        )


def setting_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> list[str]:
    """Note that a column fills what is a number by its default, in a function that was named and knows no dataset."""
    if not binding.optional or evaluator.dialect is not None or evaluator.language != "python" or not evaluator.entry:
        return []
    from runner.inputs.evaluators.foreign.module import read_python  # here: few name their function
    from runner.inputs.evaluators.python.signature import numbers

    function = read_python(evaluator.source, evaluator.name).definition(evaluator.called)
    own = {} if function is None else {p: n for p, n in numbers(function.args).items() if p in binding.optional}
    columns = look(cases, [{name} for name in own])[0] if own else {}
    return [
        f"the column {list_names([name])} is given to `{name}` of {evaluator.called}, which has the "
        f"default {number}; if that is not meant, give {Setting('mapping.literals', {name: number})}"
        for name, number in own.items()
        if name in columns
    ]


def misfit_notes(cases: Cases, evaluator: Evaluator, binding: Binding) -> list[str]:
    """Note that a function of no tool gets a text where it looks into an object, or the other way round."""
    if evaluator.dialect is not None or evaluator.language != "python" or not evaluator.evaluates:
        return []
    case = cases.look(0)
    try:
        values = {} if case is None or case.broken else binding.arguments(case)[1]
    except MappingError:
        return []
    if not values:
        return []
    shapes = [*_shapes(evaluator, values), *_numbers(evaluator, values)]
    own = re.compile(rf"\b(?:{'|'.join(map(re.escape, values))})\.(\w+)")
    looks = any(mark in evaluator.source for mark in ('["', "['", "attr(", ".get("))
    looks = looks or any(not hasattr(str, attr) for attr in own.findall(evaluator.source))
    values = {p: value for p, value in values.items() if isinstance(value, dict | list) or (looks and value != "")}
    if not values:
        return shapes
    from runner.inputs.evaluators.foreign.evidence import misfit  # here: few scripts may do so
    from runner.inputs.evaluators.foreign.module import read_python
    from runner.inputs.evaluators.python.attributes import object_attributes

    module, notes = read_python(evaluator.source, evaluator.name), shapes
    for p, value in values.items():
        if isinstance(value, dict) and object_attributes(evaluator, p):
            continue
        if use := misfit(module, evaluator.called, p, value):
            kind = "a text" if isinstance(value, str) else "an object" if isinstance(value, dict) else "a list"
            whole = of_row(row_keys_of(evaluator, p), list(look(cases, None)[0])) if kind == "a text" else {}
            give = f"map nothing to `{p}`, and be told what"
            if "" in whole:
                give = f"give {Setting('mapping.paths', {p: whole['']})}"
            step = f"; if the row itself is meant, {give}" if whole else ""
            if (several := _several(p, value)) and "." not in evaluator.called:
                first = "name it otherwise, and " if evaluator.called == "evaluate" else ""
                line = best_of(evaluator, p, several)
                step = f"; for the best of several {first}add `{line}` to the script, and run that"
            notes.append(f"`{p}` is {kind} in the first row, and the script asks it for {use}, as none has{step}")
    return notes


def _several(name: str, value: Any) -> str:
    """
    The expression of a list of texts in a value: itself, or those in objects, as SQuAD has them in two ways.

    Nothing of any other.
    """
    if isinstance(value, dict):
        keys = [key for key, one in value.items() if _are_texts(one)]
        return f"{name}[{json.dumps(keys[0])}]" if len(keys) == 1 else ""
    if not isinstance(value, list) or not value:
        return ""
    if _are_texts(value):
        return name
    if not all(isinstance(one, dict) for one in value):
        return ""
    keys = [key for key, one in value[0].items() if isinstance(one, str) and all(key in other for other in value)]
    return f"(own[{json.dumps(keys[0])}] for own in {name})" if len(keys) == 1 else ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _numbers(evaluator: Evaluator, values: Mapping[str, Any]) -> Iterator[str]:
    """That a text is compared with a number: to Python no text equals one."""
    numbers = {p: value for p, value in values.items() if type(value) in (int, float)}
    for p, value in values.items():
        if not isinstance(value, str) or not re.fullmatch(r"\s*[-+]?\d+(\.\d+)?\s*", value):
            continue
        for other, number in numbers.items():
            pairs = "|".join(rf"\b{a}\s*[=!]=\s*{b}\b(?!\s*[.(\[])" for a, b in ((p, other), (other, p)))
            if re.search(pairs, evaluator.source) and not re.search(rf"\b{p}\s*=[^=]", evaluator.source):
                yield (
                    f"`{p}` is the text {describe(value, 20)} in the first row, and `{other}` the number {number}: to "
                    f"Python no text equals a number; compare `float({p})` in the script, or put the file right"
                )


def _shapes(evaluator: Evaluator, values: Mapping[str, Any]) -> Iterator[str]:
    """That a set is declared where JSON has a list, and that a text is gone through as the values of all rows are."""
    sets = "et[" in evaluator.source or "set" in evaluator.source
    if not sets and not re.search(r"\bfor\b", evaluator.source):
        return
    from runner.inputs.evaluators.foreign.evidence import goes_through, of_sets
    from runner.inputs.evaluators.foreign.module import read_python
    from runner.inputs.evaluators.python.entries import entries_of, likely
    from runner.inputs.evaluators.python.lists import list_parameters
    from runner.inputs.evaluators.python.row_function import renaming, row_line
    from runner.inputs.evaluators.python.row_values import place_of_rows

    module, called = read_python(evaluator.source, evaluator.name), evaluator.called
    if names := [name for name in of_sets(module, called) if isinstance(values.get(name), list)]:
        way = f"add `{row_line(evaluator, {name: f'set({name})' for name in names})}` to the script, and run that"
        if called == "evaluate" or "." in called:
            way = f"make it one there, as by `{names[0]} = set({names[0]})`"
        yield f"{list_names(names)} of {called} is declared as a set, and a row has a list; {way}"
    plain = [p for p, some in values.items() if isinstance(some, list) and not any(isinstance(o, list) for o in some)]
    lists = [p for p, some in values.items() if isinstance(some, list)]
    if place := place_of_rows(module, called, lists) if lists else "":
        yield (
            f"{called} returns a value for each part of {list_names(lists)}, as of all rows, and the first row has a "
            f"list there; if that is the row's own, {renaming(called)}add "
            f"`{row_line(evaluator, {one: f'[{one}]' for one in lists}, place)}` to the script, and run that"
        )
    elif inner := list_parameters(module, called, plain):
        by = next(iter(inner.values()))
        how = f"gives each part of {list_names(inner)} to `{by}`, which goes through it"
        how = how if by else f"goes through {list_names(inner)} together, and through each part"
        yield (
            f"{called} {how}: it takes a list of lists, as of several sentences, and the first row has one; if so, "
            f"add `{row_line(evaluator, {one: f'[{one}]' for one in inner})}` to the script, and run that"
        )
    for p in (p for p, value in values.items() if isinstance(value, str)):
        if by := goes_through(module, called, p):
            entries = entries_of(evaluator.source, evaluator.name)
            others = [one for key, one in entries.items() if key not in (called, by)]
            some = [one for one in likely(others) if len(one.required) > 1][:3]
            if some:
                yield (
                    f"{called} goes through `{p}`, which is a text in the first row, and gives each part to `{by}`, "
                    f"as if it had the values of all rows; {list_names([one.words for one in some])} likely score a "
                    f"row: name the one to run after the file, such as FILE:{some[0].name}"
                )
