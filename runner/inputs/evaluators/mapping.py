"""Fill an evaluator's arguments from a case, by RFC 9535 paths, literals and names. docs/rules.md has the rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from runner.core.errors import MappingError, PathError
from runner.core.text import describe, list_names, printable, suggestion
from runner.core.types import Case, Evaluator, InputMapping, Parameter, ParameterSpec
from runner.inputs.evaluators.column import BY_NAME, Column, Source, column_text, needed_column, parse_source
from runner.inputs.evaluators.parameters import NotAcceptedError, as_json, coerce_value
from runner.inputs.evaluators.roles import ROLES, ResolvedMapping, resolve, unknown
from sandboxes.words.wording import Setting

if TYPE_CHECKING:
    from runner.inputs.evaluators.paths.rfc9535 import FilterWork

_ABSENT = object()
_FEW = 16
"""Parameters that may each have the whole row, however large it is."""
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[^\s.\[\]]+)?")
"""What a script that takes any name may be given: `threshold`, and a part of an object, `item.price`."""
_OUTPUT = re.compile(r"""\$(\.output|\[["']output["']\])(?![\w-])""")


class _Source(NamedTuple):
    """
    Where one parameter's value comes from: a literal, a path, or the column of its name.

    The literal of a column is what stands in for it where a row lacks it.
    """

    name: str
    required: bool
    positional: bool
    path: Source | None = None
    literal: Any = None
    names: tuple[str, ...] = ()
    """The columns that fill it by a name: it gets the first that a row has."""
    given_as: str = ""
    """The name by which a function that takes lists is told that it is no list: `set.threshold`."""
    declared: ParameterSpec | None = None
    part: tuple[str, tuple[str, ...]] | None = None
    """The parameter and the keys into it, where the value is a part of an object: `reference.label`."""
    may_lack: bool = False
    """True for a part that is left out where a row lacks its column, as the script asks whether it is there."""

    @property
    def row(self) -> bool:
        """True for a column of `BY_NAME`, which binds by itself; any other of the parameter's name is in `metadata`."""
        return bool(self.names) and self.name in BY_NAME

    @property
    def places(self) -> tuple[Column, ...]:
        """The same, but for the name of a key, such as `item.answer`, for which others stand."""
        alone = len(self.names) == 1
        return tuple(Column(one) for one in self.names if alone or one != self.name or "." not in one)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns to read; None for all."""
        found = [one.columns for one in ((self.path,) if self.path else self.places)]
        return None if None in found else frozenset().union(*(columns or () for columns in found))


class Binding:
    """The sources of one evaluator's parameters, for any number of cases."""

    def __init__(
        self,
        sources: Iterable[_Source],
        timeout: float | None = None,
        resolved: ResolvedMapping | None = None,
    ) -> None:
        self._timeout = timeout
        self.roles: Mapping[str, str] = {} if resolved is None else resolved.roles
        """By parameter that takes one: its role."""
        self.by_role: Mapping[str, str] = {} if resolved is None else resolved.by_role
        """Those that messages call by it."""
        self.notes = [] if resolved is None else [*_unread(resolved)]
        """What is mapped and not used."""
        self._sources = tuple(sources)
        self._has_paths = any(source.path for source in self._sources)
        self._counted = not self.singular or len(self._sources) > _FEW
        plain = all(
            one.row and len(one.names) == 1 and not one.positional and one.declared is None for one in self._sources
        )
        self._columns = frozenset(one.name for one in self._sources) if plain else None
        """The columns that the parameters get as they are, if that is all there is to do."""

    def arguments(self, case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the values that go by position only, and those by keyword. Raises MappingError for this row."""
        if self._columns is not None and self._columns <= case.present:  # as of most rows
            return (), {source.name: getattr(case, source.name) for source in self._sources}
        document = _document(case) if self._has_paths else {}
        work = self._work() if self._counted else None
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        objects: dict[str, dict[str, Any]] = {}
        skipped = None
        for source in self._sources:
            name = source.name
            value = _value(source, document, case, work)
            if source.part is not None:
                name, keys = source.part
                first = name not in objects
                into = objects.setdefault(name, {})
                for key in keys[:-1]:
                    into = into.setdefault(key, {})
                into |= {} if value is _ABSENT else {keys[-1]: value}
                if not first:
                    continue
                value = objects[name]
            if value is _ABSENT:
                skipped = name if source.positional else skipped
                continue
            if not source.positional:
                keywords[source.given_as or name] = value
            elif skipped:
                raise MappingError(
                    f"{case.where}: `{name}` cannot be given without `{skipped}`, as both go by position; "
                    f"add a column `{skipped}`, or map it"
                )
            else:
                positional.append(value)
        return tuple(positional), keywords

    def _work(self) -> FilterWork:
        from runner.inputs.evaluators.paths.rfc9535 import (
            work_of,  # here: few evaluators need it, and its import is long
        )

        return work_of(self._timeout)

    @property
    def singular(self) -> bool:
        """True if each parameter gets a literal or one place of the row: to fill it takes time that grows with both."""
        paths = [source.path for source in self._sources]
        return all(path is None or isinstance(path, Column) or path.singular for path in paths)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that are needed, which always include the id; None for all."""
        found = {"id"}
        for source in self._sources:
            if _is_literal(source):
                continue
            if (named := source.columns) is None:
                return None
            found |= named
        return frozenset(found)

    @property
    def json_columns(self) -> tuple[str, ...]:
        """The columns of parameters that are declared as lists or objects, in which text is read as JSON."""
        declared = (one for one in self._sources if not _is_literal(one) and _takes_json(one.declared))
        return tuple(column for one in declared for column in one.columns or ())

    def needs(self) -> dict[str, str]:
        """
        Return, by parameter, the column without which each row fails. One that no row can have is told by its path.

        Parameters without which `evaluate` can be called are not among them. `others` has more columns that will do.
        """
        found = {}
        for source in self._sources:
            if source.names and source.required and source.name != "id":
                found[source.name] = source.name
            elif source.path and (column := needed_column(source.path)) not in (None, "id"):
                found[source.name] = column
        return found

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """By parameter that columns may fill key by key, as no mapping does: the keys that a script reads of it."""
        names = [source.name for source in self._sources]
        found: dict[str, list[str]] = {}
        for name in names:
            _, alias, key = (*name.split(".", 2), "", "")[:3] if name.startswith("else.") else ("", "", "")
            owner = next((one.name for one in self._sources if key and alias in one.names), None)
            if owner is not None and not any(one.startswith(f"{alias}.") for one in names):
                found.setdefault(owner, []).append(key)
        return {owner: (*keys,) for owner, keys in found.items()}

    @property
    def optional(self) -> dict[str, tuple[str, ...]]:
        """By parameter that a row may leave to its default of nothing: the columns that fill it by a name."""
        return {
            source.name: source.names
            for source in self._sources
            if source.names and not source.required and source.literal is None
        }

    @property
    def others(self) -> dict[str, tuple[str, ...]]:
        """By parameter that a script of another tool knows by more names than its own: all its columns."""
        return {source.name: source.names for source in self._sources if {*source.names} - {source.name}}

    @property
    def mapping(self) -> InputMapping:
        """
        The whole mapping, with columns that bind by name as paths.

        Of a parameter with a default, for which rows may have a column of its own, it has the header's default at most.
        """
        maybe = {s.name for s in self._sources if s.names and not (s.row or s.required)}
        paths = [s for s in self._sources if not _is_literal(s) and s.name not in maybe]
        literals = {s.name: s.literal for s in self._sources if _is_literal(s)}
        literals |= {s.name: s.literal for s in self._sources if s.name in maybe and s.literal is not None}
        columns = {s.name: s.path or Column(s.name if s.row else s.names[0]) for s in paths}
        return InputMapping(paths={name: column.text for name, column in columns.items()}, literals=literals)

    @property
    def own(self) -> frozenset[str]:
        """The parameters that get a column of their very name, where a row has it, and that is none of `BY_NAME`."""
        return frozenset(source.name for source in self._sources if source.names and not source.row)

    @property
    def own_columns(self) -> frozenset[str]:
        """The columns beside `BY_NAME` that fill a parameter by a name, where a row has them."""
        named = (place.name for source in self._sources for place in source.places)
        return frozenset(named).difference(BY_NAME)

    @property
    def outputs(self) -> frozenset[str]:
        """The parameters that get the output to be scored: by their role, or as they are mapped to its column."""
        mapped = (name for name, path in self.mapping.paths.items() if _OUTPUT.match(path))
        aliases = [alias for one in self._sources if one.name == "output" for alias in one.names]
        parts = tuple(f"{head}{one}." for one in aliases for head in ("", "else."))
        mapped_parts = (one.name for one in self._sources if one.name.startswith(parts))
        roles = (name for name, role in self.roles.items() if role == "output")
        return frozenset({"output", *mapped, *mapped_parts, *roles})

    @property
    def beside(self) -> dict[str, frozenset[str]]:
        """By parameter that gets all other columns: those among them that an output gets as they are."""
        outputs = self.outputs
        named = [one.path.name for one in self._sources if one.name in outputs and isinstance(one.path, Column)]
        columns = frozenset(named).difference(BY_NAME)
        return {name: columns for name, role in self.roles.items() if role == "metadata" and columns}

    def describe(self) -> dict[str, str]:
        """Return the source of each parameter's value, in words."""
        named = {one.name: one for one in self._sources}
        own = {(own := name.removeprefix("else.")): named.get(own, one) for name, one in named.items()}
        return {name: _words(source) for name, source in own.items()}


def bind(evaluator: Evaluator, mapping: InputMapping | None = None, *, timeout: float | None = None) -> Binding:
    """
    Fill the evaluator's parameters by `mapping` over what its header maps, and by the columns of their names.

    A name of `mapping` is a parameter, or a role such as `output`, which all that take it get.

    `timeout` is that of a call: paths that look at many places of a row may take a part of it.

    Raises:
        MappingError: For a name that is not a parameter, and a path or literal that cannot be used.
    """
    if evaluator.dialect == "langsmith":
        from runner.inputs.evaluators.foreign.dialects.langsmith import in_row_words  # here: as for other dialects

        mapping = in_row_words(mapping or InputMapping())
        evaluator = evaluator.model_copy(update={"mapping": in_row_words(evaluator.mapping)})
    resolved = resolve(evaluator, mapping or InputMapping())
    evaluator, asked = resolved.evaluator, resolved.asked
    for own in (evaluator.mapping, asked):
        _refuse_unknown(evaluator, own)
    if aliases := _aliases(evaluator):
        parts = evaluator.dialect != "langsmith"  # its part in the guest takes `outputs.answer` itself
        asked = _renamed(asked, aliases, parts)
        evaluator = evaluator.model_copy(update={"mapping": _renamed(evaluator.mapping, aliases, parts)})
    parameters = (*evaluator.parameters, *_any_names(evaluator, asked))
    sources = (one for parameter in parameters for one in _sources(parameter, evaluator, asked))
    binding = Binding(sources, timeout, resolved)
    if evaluator.dialect is not None and (others := [one.name for one in parameters[len(evaluator.parameters) :]]):
        from runner.inputs.evaluators.foreign.accepted_names import unread  # here: as above

        binding.notes += [note] if (note := unread(evaluator, others)) else []
    return binding


def _unread(resolved: ResolvedMapping) -> Iterator[str]:
    for role, value in resolved.unread.items():
        others = unknown(resolved.evaluator, resolved.roles)
        step = f"; if {list_names(others, 3)} does, map it by its own name" if others else ""
        source = list_names([value]) if isinstance(value, str) else "its value"
        yield f"no parameter of {_signature(resolved.evaluator)} takes `{role}`, and {source} is not read for it{step}"


def _signature(evaluator: Evaluator) -> str:
    called = evaluator.called if evaluator.entry is None or "<" in evaluator.entry else evaluator.entry
    return f"{called}({', '.join(parameter.name for parameter in evaluator.parameters)})"


def _sources(parameter: Parameter, evaluator: Evaluator, asked: InputMapping) -> Iterator[_Source]:
    """The source of a parameter, or those of the parts of the object that it gets."""
    head = f"{parameter.name}."
    every: list[str] = []
    for own in (asked, evaluator.mapping):
        names = (*own.paths, *own.literals)
        every = [name for name in names if name.startswith(head)]
        if every and parameter.name in names:
            raise MappingError(
                f"`{printable(parameter.name, 60)}` and its part `{printable(every[0], 60)}` are both mapped; map the "
                "whole or its parts"
            )
        if every or parameter.name in names:
            break
    if not every:
        if (source := _source(parameter, evaluator, asked)) is not None:
            yield source
        return
    wholes = [one for one in every for other in every if other.startswith(f"{one}.") and _nests(evaluator, other)]
    if wholes:
        raise MappingError(f"`{printable(wholes[0], 60)}` and a part of it are both mapped; map the whole or its parts")
    asks = _asks(evaluator, parameter.name)
    parts = [
        _source(Parameter(name=name, positional_only=parameter.positional_only), evaluator, asked) for name in every
    ]
    same = all(one is None or _is_literal(one) for one in parts)
    given_as = _given_as(evaluator, parameter.name) if same else parameter.name
    for source in parts:
        if source is not None:
            key = source.name.removeprefix(head)
            keys = (*key.split("."),) if _nests(evaluator, source.name) else (key,)
            yield source._replace(given_as=given_as, part=(parameter.name, keys), may_lack=keys[0] in asks)


def _nests(evaluator: Evaluator, name: str) -> bool:
    """Whether `reference.a.b` is the key `b` of `a`, and not a key `a.b`, which the script then has in quotes."""
    key = name.partition(".")[2]
    return "." in key and not any(f"{quote}{key}{quote}" in evaluator.source for quote in "\"'`")


def _asks(evaluator: Evaluator, parameter: str) -> set[str]:
    """The keys of a parameter without which a function of no tool does: `row.get("note")`."""
    if evaluator.dialect is not None or evaluator.language != "python":
        return set()
    from runner.inputs.evaluators.foreign.evidence import row_keys  # here: few mappings have parts
    from runner.inputs.evaluators.foreign.module import read_python

    module = read_python(evaluator.source, evaluator.name)
    return {key.name for key in row_keys(module, evaluator.called, parameter) if not key.required}


def _aliases(evaluator: Evaluator) -> dict[str, str]:
    """By the script's own word: the row's word that it is here, `reference` for Braintrust's `expected`."""
    rows = [one for one in evaluator.parameters if one.name in BY_NAME]
    return {alias: one.name for one in rows for alias in one.columns if alias != one.name}


def _renamed(mapping: InputMapping, aliases: Mapping[str, str], parts: bool) -> InputMapping:
    """The mapping in the row's words; with `parts`, `expected.label` too. One that says both keeps the row's."""

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in values.items():
            head, dot, key = name.partition(".")
            word = f"{aliases[head]}{dot}{key}" if head in aliases and (not dot or parts) else name
            if name not in aliases or word not in values:
                found[word] = value
        return found

    return InputMapping(paths=renamed(mapping.paths), literals=renamed(mapping.literals))


def _given_as(evaluator: Evaluator, name: str) -> str:
    """How a value that is the same for all rows is told from a column, where a function takes lists."""
    if evaluator.dialect is None or name in BY_NAME:
        return name
    from runner.inputs.evaluators.foreign.registry import find  # here: a script of our own needs it not

    return f"set.{name}" if find(evaluator.dialect).batched else name


def _source(parameter: Parameter, evaluator: Evaluator, asked: InputMapping) -> _Source | None:
    name, declared = parameter.name, parameter.declared
    made = partial(_Source, name, positional=parameter.positional_only, declared=declared)
    constant = partial(made, required=True, given_as=_given_as(evaluator, name))
    for mapping, trusted in ((asked, True), (evaluator.mapping, False)):
        if name in mapping.literals:
            return constant(literal=_accepted(name, declared, _literal(name, mapping.literals[name])))
        if name in mapping.paths:
            try:
                path = parse_source(mapping.paths[name], trusted=trusted)
            except PathError as error:
                raise MappingError(f"`{name}`: {error}") from None
            return made(required=True, path=path)
    default = None if declared is None else declared.default
    if not parameter.by_name:
        return None if default is None else constant(literal=default)
    together = evaluator.aggregate.parameters if evaluator.aggregate else ()
    if not (parameter.required or parameter.columns or name in BY_NAME) and any(name == one.name for one in together):
        return None if default is None else constant(literal=default)  # `aggregate` needs one for all rows
    paths = {**evaluator.mapping.paths, **asked.paths}
    # What another is mapped to is its own; and `outputs.answer` gives a part of `output`.
    aliases = (one for one in parameter.columns if name not in BY_NAME or one not in paths.values())
    names = tuple(dict.fromkeys((*aliases, name)))
    given = (*paths, *evaluator.mapping.literals, *asked.literals)
    in_parts = any(f"{one}.".startswith(f"{column}.") for one in given for column in parameter.columns)
    return made(required=parameter.required and not in_parts, literal=default, names=names)


def _literal(name: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise MappingError(f"`{name}`: the literal {describe(value, 60)} is not a JSON value") from None


def _refuse_unknown(evaluator: Evaluator, mapping: InputMapping) -> None:
    names = [parameter.name for parameter in evaluator.parameters]
    for name in (*mapping.paths, *mapping.literals):
        head, dot, key = name.partition(".")
        if name in names or (dot and key and head in names):
            continue
        if (why := drop_reason(evaluator, name)) is not None:
            raise MappingError(why)
        if not evaluator.accepts_any:
            if name in ROLES:
                why = f", nor one that is known to take it; {_step(evaluator, mapping.paths.get(name))}"
            else:
                why = f"{suggestion(name, (*names, *ROLES))}; its parameters are {list_names(names)}"
            raise MappingError(f"{_signature(evaluator)} has no parameter `{printable(name, 60)}`{why}")
        if not _DOTTED.fullmatch(name):
            raise MappingError(f"`{printable(name, 60)}` cannot be a parameter's name; use letters, digits and _")


def drop_reason(evaluator: Evaluator, name: str) -> str | None:
    """Return why a script of another tool would never see what is mapped to a name beside a row's; None if it may."""
    if evaluator.dialect is None or name.partition(".")[0] in {*_aliases(evaluator), *BY_NAME}:
        return None
    from runner.inputs.evaluators.foreign.accepted_names import refusal  # here: few mappings name what no row has

    return refusal(evaluator, name)


def _step(evaluator: Evaluator, column: str | None) -> str:
    """What to do about a role that nothing is known to take."""
    if others := unknown(evaluator, {}):
        own = Setting("mapping.paths", {others[0]: printable(column or "COLUMN")})
        return f"map the one that does by its own name ({list_names(others)}), such as {own}"
    names = [one.name for one in evaluator.parameters]
    return f"leave it out, or map one that there is ({list_names(names)})" if names else "leave it out"


def _any_names(evaluator: Evaluator, asked: InputMapping) -> list[Parameter]:
    """The parameters that are mapped into `**kwargs`."""
    known = {parameter.name for parameter in evaluator.parameters}
    own = evaluator.mapping
    names = (*own.paths, *own.literals, *asked.paths, *asked.literals)
    heads = {name: name.partition(".")[0] for name in names}
    others = {name: head for name, head in heads.items() if head not in known and name not in known}
    if evaluator.dialect is not None and others:
        from runner.inputs.evaluators.foreign.accepted_names import splits  # here: as above

        others = {
            name: (".".join(name.split(".")[:2]) if _nests(evaluator, name) else name)
            if splits(evaluator, head)
            else head
            for name, head in others.items()
        }
    return [Parameter(name=name) for name in dict.fromkeys(others.values())]


def _document(case: Case) -> dict[str, Any]:
    """The document that paths query: the columns that the row has."""
    return {column: getattr(case, column) for column in BY_NAME if column in case.present}


def _value(source: _Source, document: dict[str, Any], case: Case, work: FilterWork | None) -> Any:
    """The parameter's value in this case, or _ABSENT. Raises MappingError for this row."""
    name = source.name
    if source.names:
        column = next((one for one in source.names if _has(case, one)), None)
        if column is None:
            if source.required:
                raise MappingError(_lacks(case, source))
            return _ABSENT if source.literal is None else source.literal
        value = getattr(case, column) if column in BY_NAME else case.metadata[column]
    elif source.path:
        if source.may_lack and isinstance(source.path, Column) and not _has(case, source.path.name):
            return _ABSENT
        value = _look_up(source.path, document, name, case, work)
    else:
        return source.literal
    try:
        if isinstance(value, str) and _takes_json(source.declared):
            value = _from_json(value)
        return _accepted(name, source.declared, value)
    except MappingError as error:
        step = "" if source.path or source.row else f", or give all rows a value: {_for_all(name)}"
        raise MappingError(f"{case.where}: {error}; put the row right, or map another with {_to(name)}{step}") from None


def _has(case: Case, column: str) -> bool:
    """Whether the row has the column; each has an id."""
    return column in case.present or column == "id" if column in BY_NAME else column in case.metadata


def _accepted(name: str, declared: ParameterSpec | None, value: Any) -> Any:
    try:
        return value if declared is None else coerce_value(declared, value)
    except NotAcceptedError as error:
        raise MappingError(f"`{name}` {error}") from None


def _takes_json(declared: ParameterSpec | None) -> bool:
    """Whether a text can only be meant as JSON: in CSV, lists and objects are texts."""
    return (
        declared is not None
        and not {"array", "object"}.isdisjoint(declared.types)
        and ({"string", "any"}.isdisjoint(declared.types))
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _from_json(text: str) -> Any:
    """The list or object that the text is; any other text as it is."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text


def _is_literal(source: _Source) -> bool:
    return not (source.path or source.names)


def _look_up(path: Source, document: dict[str, Any], name: str, case: Case, work: FilterWork | None) -> Any:
    if path.first == "id":  # every row has one, be it the row's number
        document = {"id": case.id}
    try:
        return path.value(document, work)
    except PathError as error:
        raise MappingError(f"{case.where}: `{name}`: {error}{_in_metadata(path, case)}") from None


def _in_metadata(path: Source, case: Case) -> str:
    """The path that is meant, if it can be told, or nothing."""
    from runner.inputs.evaluators.column_suggestions import likely_path  # here: few rows lack what a path looks for

    if (near := likely_path(path.keys, case, case.unread)) in (None, path.text):
        return ""
    moved = path.first in case.metadata or path.first in case.unread
    return f"; other columns are in metadata: {near}" if moved else f" (did you mean `{printable(near, 200)}`?)"


def _lacks(case: Case, source: _Source) -> str:
    name = source.name
    near = suggestion(name, [*case.metadata, *case.unread])
    value = "" if source.declared is None else f", give all rows a value: {_for_all(name)}"
    return (
        f"{case.where}: the row has no `{name}`{near}; add the column, map another with {_to(name)}"
        f"{_others(case)}{value}, or give the parameter a default"
    )


def _to(name: str) -> Setting:
    return Setting("mapping.paths", {name: "COLUMN"})


def _for_all(name: str) -> Setting:
    return Setting("mapping.literals", {name: ...})


def _others(case: Case) -> str:
    """The columns that could be mapped."""
    own = [column for column in BY_NAME if column in case.present - {"id", "metadata"}]
    every = map(column_text, (*own, *case.metadata, *case.unread))
    return f" (it has {list_names(every)})" if own or case.metadata or case.unread else ""


def _words(source: _Source) -> str:
    if source.names:
        default = "" if source.literal is None else f" {as_json(source.literal)}"
        names = " or ".join(one.text for one in source.places)
        return f"{names} (by name{'' if source.required else f', else its default{default}'})"
    return source.path.text if source.path else f"literal {describe(source.literal, 60)}"
