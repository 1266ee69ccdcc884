"""The mapping as questions: for each parameter the dataset's columns to choose from, and a value of the one chosen."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from runner.core.errors import MappingError, PathError
from runner.core.types import Evaluator, InputMapping, Parameter
from runner.inputs.evaluators.column import BY_NAME, Column, column_text, parse_source
from runner.inputs.evaluators.column_suggestions import is_setting
from runner.inputs.evaluators.mapping import bind
from runner.inputs.evaluators.roles import ROLES, resolve
from runner.results.store.store import Store
from runner.results.store.types import KeptMapping
from runner.server.http.web import forms

COLUMN, OTHER, OF = "map:", "path:", "mapping_of"
"""Fields of a form: a parameter's column, its path or value, and the dataset that these were chosen for."""
_FIELDS = 40
_COLUMNS = 200
"""Columns that can be chosen; others are written as a path."""


class MappingField(NamedTuple):
    """A parameter, and what fills it."""

    name: str
    itself: str
    """What fills it where no column is chosen, in words."""
    column: str
    """The column that is chosen; empty: none."""
    other: str
    """The path, or the value after `=`, if no column is chosen."""
    sample: Any
    """Of the first row; `shown` says whether there is one."""
    shown: bool
    lacks: bool
    """Whether somebody must choose."""
    likely: bool
    """Whether it was chosen by its name."""
    is_setting: bool


class MappingForm(NamedTuple):
    """The questions of one evaluator and dataset."""

    dataset: str
    fields: tuple[MappingField, ...] = ()
    columns: tuple[str, ...] = ()
    text: str = ""
    """The mapping, as an address has it."""
    id_column: str = ""

    @property
    def words(self) -> str:
        """Return the same on the command line, with a space before; empty where nothing is chosen."""
        mapping = forms.mapping(self.text)
        words = [word for name, path in mapping.paths.items() for word in ("--map", f"{name}={path}")]
        for name, value in mapping.literals.items():
            words += ["--set", f"{name}={json.dumps(value, ensure_ascii=False)}"]
        words += ["--id", self.id_column] if self.id_column else []
        return f" {shlex.join(words)}" if words else ""

    @property
    def lacks(self) -> list[str]:
        """Return the parameters for which somebody must choose."""
        return [one.name for one in self.fields if one.lacks]


def of_form(form: Mapping[str, str]) -> str:
    """Return the mapping of a form as text: by its fields, or as it is written."""
    names = [name.partition(":")[2] for name in form if name.startswith((COLUMN, OTHER))]
    if not names:
        return form.get("mapping", "")
    if form.get(OF, "") != form.get("dataset", ""):
        return ""  # they are columns of another dataset
    lines = []
    for name in dict.fromkeys(names):
        other, column = form.get(OTHER + name, "").strip(), form.get(COLUMN + name, "")
        if other.startswith("="):
            lines.append(f"{name} := {other[1:].strip()}")
        elif other or column:
            lines.append(f"{name} = {other or column_text(column)}")
    return "\n".join(lines)


def is_remembered(form: Mapping[str, str]) -> bool:
    """Say whether a form or an address leaves the mapping to what is kept."""
    if OF in form:
        return form[OF] != form.get("dataset", "")
    return not any(name.startswith(("mapping", COLUMN, OTHER)) for name in form)


def kept_mapping(store: Store, dataset: str, name: str) -> KeptMapping:
    """Return what is kept for the evaluator of this name, or else what serves all on the dataset. Blocks."""
    return (store.mapping(dataset, name) if name else None) or store.mapping(dataset) or KeptMapping()


def known_part(evaluator: Evaluator, mapping: InputMapping) -> InputMapping:
    """Return the mapping without names that the evaluator does not have, as of a parameter that was renamed."""
    if evaluator.accepts_any:
        return mapping
    names = {one.name for one in evaluator.parameters} | {c for one in evaluator.parameters for c in one.columns}
    found = resolve(evaluator, mapping)
    taken = names | {role for role in ROLES if role not in found.unread}

    def choose(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name in taken or name.partition(".")[0] in taken}

    part = InputMapping(paths=choose(mapping.paths), literals=choose(mapping.literals))
    return InputMapping() if resolve(evaluator, part).unread else part


def keep(store: Store, dataset: str, evaluator: Evaluator, name: str, choice: KeptMapping) -> None:
    """
    Keep the mapping for the evaluator of this name, and what is named by roles for all evaluators. Blocks.

    Raises NotStoredError for a dataset that is gone.
    """
    if choice == (store.mapping(dataset, name) or KeptMapping()):
        return
    store.set_mapping(dataset, name, choice)
    resolved = resolve(evaluator, choice.mapping)
    roles = {resolved.roles.get(name, name): path for name, path in resolved.asked.paths.items()}
    every = store.mapping(dataset) or KeptMapping()
    paths = {**every.mapping.paths, **{role: path for role, path in roles.items() if role in ROLES}}
    id_column = choice.id_column or every.id_column
    store.set_mapping(dataset, "", KeptMapping(mapping=InputMapping(paths=paths), id_column=id_column))


def questions(
    evaluator: Evaluator,
    choice: KeptMapping,
    dataset: str,
    columns: Sequence[str],
    row: Mapping[str, Any] | None,
    likely: Mapping[str, str],
) -> MappingForm:
    """
    Return a question for each parameter.

    `row` is the first of the dataset, and `likely` has what was chosen by names alone.

    Raises:
        MappingError: The mapping cannot be used.
    """
    resolved = resolve(evaluator, choice.mapping)
    asked, roles = resolved.asked, resolved.roles
    binding = bind(evaluator, choice.mapping)
    guessed = set(resolve(evaluator, InputMapping(paths=dict(likely))).asked.paths) if likely else set()
    names = {one.name for one in evaluator.parameters}
    more = [Parameter(name=name) for name in (*asked.paths, *asked.literals) if name not in names]
    found = []
    for parameter in islice((*evaluator.parameters, *more), _FIELDS):
        name = parameter.name
        same = next((one for one in binding.others.get(name, (name,)) if one in columns), "")
        column, other = "", ""
        if name in asked.literals:
            other = f"= {json.dumps(asked.literals[name], ensure_ascii=False)}"
        elif name in asked.paths:
            column = column_of(asked.paths[name])
            other = "" if column else asked.paths[name]
        itself, by = _itself(parameter, evaluator, same)
        shown = column or ("" if other else by)
        found.append(
            MappingField(
                name,
                itself,
                column,
                other,
                (row or {}).get(shown),
                bool(row) and shown in (row or {}),
                not (itself or column or other) or (bool(column) and bool(columns) and column not in columns),
                name in guessed,
                not (same or column or name in roles)
                and (parameter.declared is not None or (not parameter.required and is_setting(name))),
            )
        )
    return MappingForm(
        dataset, tuple(found), tuple(columns[:_COLUMNS]), forms.mapping_text(choice.mapping), choice.id_column
    )


def _itself(parameter: Parameter, evaluator: Evaluator, same: str) -> tuple[str, str]:
    """What fills a parameter that nobody maps, in words, and the column of it; nothing where somebody must choose."""
    name, header = parameter.name, evaluator.mapping
    if name in header.literals:
        return f"{json.dumps(header.literals[name], ensure_ascii=False)} by the script's header", ""
    if name in header.paths:
        return f"{header.paths[name]} by the script's header", column_of(header.paths[name])
    if same:
        return same, same
    if name == "metadata":
        return "all other columns", ""
    return ("" if parameter.required else "its default"), ""


def column_of(path: str) -> str:
    """Return the column that a mapping names; empty for what is inside one."""
    try:
        source = parse_source(path)
    except (PathError, MappingError):
        return ""
    if isinstance(source, Column):
        return source.name
    keys = list(source.keys or ())
    if len(keys) == 2 and keys[0] == "metadata":
        return str(keys[1])
    return str(keys[0]) if len(keys) == 1 and keys[0] in BY_NAME and keys[0] != "metadata" else ""
