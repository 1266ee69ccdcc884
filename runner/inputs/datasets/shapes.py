"""Refuse a run, before anything runs, of a function that takes lists where the rows have single values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runner.core.errors import ColumnsError, EvaluatorError, InputError, ListsError, MappingError, NoEntryError
from runner.core.text import describe, list_names, printable
from runner.core.types import Evaluator
from runner.inputs.datasets.notes import kind_of_list
from runner.inputs.datasets.required_columns import PLACEHOLDER, Cases, look
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.entrypoint import NAME, naming
from runner.inputs.evaluators.mapping import Binding
from sandboxes.words.wording import Message, Setting

if TYPE_CHECKING:
    from runner.inputs.evaluators.foreign.module import ScriptModule
    from runner.inputs.evaluators.python.lists import ListUse

_ROWS = 20
"""Rows that are looked at."""
_MAY_TAKE_LISTS = re.compile(
    r"\b(for|in|zip|len|[Ll]ist|Iterable|Sequence|Collection|[Tt]uple|ndarray|Series|Tensor|sklearn|scipy|numpy|stats)\b"
)
_SEVERAL = re.compile(
    r"(^|_)(preds|golds|refs|hyps|gts|y_true|y_pred|labels|targets|answers|predictions|references|outputs|responses|"
    r"candidates|hypotheses|generations|completions|truths|golden_answers|sentences|texts|lists?|batch)$|(^|_)list_"
)
"""Names of parameters that have a value for each row."""
_OF_TEXT = re.compile(r"(^|_)(s\d?|str\d?|string\d?|text\d?|word\d?|sentence\d?|seq\d?|a|b|x|y|chars?|source|target)$")
"""Names of parameters that are one text, be it gone through by its characters."""
_PARTS = re.compile(
    r"(^|_)(key_?words|terms|phrases|concepts|features|facts|tools|entities|items|topics|elements|names|aspects|points|"
    r"sections|steps|fields|values|options|criteria|required|forbidden|keys|substrings|patterns|sources|ids|docs|"
    r"documents|contexts|passages|chunks|ingredients|skills|tags|retrieved|relevant|recommended|recommendations|ranked|"
    r"ranking|hits|results|urls|citations|calls|actions|triples|paragraphs|aliases|choices|classes|categories|labels|claims)$"
)
"""Names of parameters of which a row has several, and each is a text."""
_SEPARATED = re.compile(r"[^\s;|]+(\s?[;|]\s?[^\s;|]+)+")


def refuse_shapes(name: str, cases: Cases, evaluator: Evaluator, binding: Binding) -> None:
    """Raise EvaluatorError where a function of no tool takes lists, and the first rows have single values."""
    if evaluator.dialect is not None or not evaluator.evaluates:
        return
    if evaluator.language != "python":
        _refuse_arrays(name, cases, evaluator, binding)
        return
    if evaluator.accepts_any or evaluator.entry:
        _refuse_nothing(name, cases, evaluator, binding)
    first = {} if evaluator.is_inline else _columns(cases, binding, 1)
    alone = _singles(first)
    if not alone or not (_MAY_TAKE_LISTS.search(evaluator.source) or any(map(_is_listed, alone.values()))):
        return
    from runner.inputs.evaluators.foreign.module import read_python  # here: most scripts need it not
    from runner.inputs.evaluators.python.lists import OF_LISTS, list_use, nested_lists
    from runner.inputs.evaluators.python.row_values import place_of_rows
    from runner.inputs.evaluators.python.signature import annotations_of

    module = read_python(evaluator.source, evaluator.name)
    uses = {p: list_use(module, evaluator.called, p) for p in alone}
    if not any(_may_misfit(p, use, alone[p]) for p, use in uses.items()):
        return  # before more rows are read
    values = _columns(cases, binding, _ROWS)
    single = {p: some for p, some in _singles(values).items() if p in uses}
    if reference := _several_references(single, uses):
        raise EvaluatorError(_of_references(name, evaluator, reference, single[reference][0]))
    listed_texts = [p for p, some in single.items() if uses[p].how and _is_listed(some) and _is_meant(p, uses[p])]
    if listed_texts:
        listed_texts = [p for p in single if uses[p].how and _is_listed(single[p])]
        if not any(kind_of_list(one) for p in listed_texts for one in single[p] if isinstance(one, str)):
            listed_texts = [
                p for p in single if uses[p].how and (_is_meant(p, uses[p]) or not _is_one_text(p) or p in listed_texts)
            ]
        columns = binding.needs()
        raise EvaluatorError(
            _of_cells(name, evaluator, listed_texts, single, [columns.get(p, p) for p in listed_texts])
        )
    required = [one.name for one in evaluator.parameters if one.required or one.name in single]
    named = [p for p in single if uses[p].how and (_PARTS.search(_plain(p)) or _SEVERAL.search(_plain(p)))]
    for p, some in single.items():
        use, others = uses[p], [other for one, other in uses.items() if one != p and one not in named]
        texts = all(isinstance(one, str) for one in some) and not use.together and not use.may_be_text
        through = p in named and use.how == "goes through" and all(one.how in ("counts", "") for one in others)
        declared = use.how == "list" and not use.of_all and all(one.how != "list" for one in others)
        of_rows = len(required) < 2 or bool(place_of_rows(module, evaluator.called, [p]))
        if texts and not of_rows and (declared or through):
            parts = {one: single[one] for one in single if one == p or one in named}
            raise EvaluatorError(_of_parts(name, evaluator, p, parts))
    nested = nested_lists(module, evaluator.called, [*values])
    kinds = annotations_of(module.definition(evaluator.called))
    nested |= {p for p in values if OF_LISTS.match(kinds.get(p, ""))}
    deep = {p: "[[{}]]" if p in single else "[{}]" for p in nested if _is_flat(values[p])}
    several = [p for p in values if (p in uses and uses[p].together and _SEVERAL.search(_plain(p))) or p in deep]
    misfits = [
        p
        for p, some in single.items()
        if uses[p].how == "list"
        or p in deep
        or (_takes_lists(p, uses[p]) and not any(isinstance(one, str) for one in some))
        or (len(several) > 1 and p in several)
        or (
            _SEVERAL.search(_plain(p))
            and uses[p].how == "goes through"
            and place_of_rows(module, evaluator.called, [p])
        )
    ]
    if not misfits:
        return
    brackets = dict.fromkeys(misfits, "[{}]") | deep
    if any(isinstance(one, list) for p in values.keys() - single.keys() for one in values[p]):
        raise EvaluatorError(_of_one(name, evaluator, misfits, brackets, values))
    raise EvaluatorError(_of_all(name, module, evaluator, brackets, any(uses[p].of_all for p in misfits), values))


def _refuse_arrays(name: str, cases: Cases, evaluator: Evaluator, binding: Binding) -> None:
    """Refuse a function in TypeScript that was named, and gets texts where it declares arrays."""
    names = [one.name for one in evaluator.parameters]
    several = [one for one in names if _PARTS.search(_plain(one)) or _SEVERAL.search(_plain(one))]
    walked = several if any(_is_walked(evaluator.source, one) for one in several) else []
    if evaluator.entry is None or evaluator.is_inline or not (walked or re.search(r"\[\]|Array<", evaluator.source)):
        return
    from runner.inputs.evaluators.typescript.entries import arrays_of  # here: the parser takes time to import

    arrays, called = arrays_of(evaluator.source, evaluator.entry)
    does = "declares an array there" if arrays else "goes through it as an array, not through its characters"
    arrays = arrays or walked
    single = {p: some for p, some in _singles(_columns(cases, binding, _ROWS, names)).items() if p in arrays}
    if not single:
        return
    own = [one.name for one in evaluator.parameters if one.required or one.name in single]
    p, columns = next(iter(single)), binding.needs()
    text = f"{name}: `{p}` is {describe(single[p][0], 60)} in the first row, and {evaluator.entry} {does}"
    if all(isinstance(one, str) and kind_of_list(one) == "JSON" for one in single[p]):
        raise EvaluatorError(Message(f"{text}; give ", Setting("json_columns", [columns.get(p, p)])))
    start = "export function evaluate" if "export " in evaluator.source else "exports.evaluate = function "
    mark = ",;|" if arrays is walked else ";|"  # of what it declares, a comma may be of a sentence
    split = {p for p, some in single.items() if any(_SEPARATED.fullmatch(str(one)) for one in some)}
    split |= {p for p in single if mark[0] == "," and any("," in str(one) for one in single[p])}
    made = {p: f"{p}.split(/\\s*[{mark}]\\s*/)" if p in split else f"[{p}]" for p in single}
    given = ", ".join(made.get(one, one) for one in own)
    raise EvaluatorError(
        f"{text}: add this line to the end of the script, and run it without `:{evaluator.entry}`:\n"
        f"{start}({{ {', '.join(own)} }}) {{ return {called}({given}); }}"
    )


def _is_walked(source: str, parameter: str) -> bool:
    """Whether a script goes through a parameter as a text can be gone through, too, and declares no text."""
    own = re.escape(parameter)
    typed = re.search(rf"\b{own}\??\s*:\s*string\b(?!\s*\[)", source)
    return typed is None and re.search(rf"\bof\s+{own}\s*\)|\.\.\.{own}\b|\bSet\({own}\)", source) is not None


def by_columns(error: NoEntryError | ListsError, dataset: str) -> EvaluatorError:
    """
    Return the error, with the functions first whose parameters are all columns of the dataset at this path.

    Of a function that takes lists, the line that calls it for a row has these columns.
    """
    from runner.inputs.datasets.dataset import open_dataset  # here: most scripts define `evaluate`
    from runner.inputs.evaluators.python.entries import fitting, likely, takes_both

    try:
        with open_dataset(dataset) as cases:
            named, _, row = look(cases, None)
    except (InputError, OSError):  # told once the script is right
        return error
    columns = [*named]
    if isinstance(error, ListsError):
        values = {} if row is None else {one: getattr(row, one) for one in BY_NAME[:3]} | dict(row.metadata)
        step = error.call and error.call.step_of(
            printable(dataset), [one for one in columns if one != "metadata"], values
        )
        return EvaluatorError(f"{error.where}: {error.start}{step}") if step else error
    fit, best = fitting(error.entries, columns), likely(error.entries)
    if not fit or (best and fit[0] not in best):
        return error
    if any(map(takes_both, best)) and not any(map(takes_both, fit)):  # these judge a part, and need no right answer
        return error
    words = list_names([one.words for one in fit], 4)
    several = "of each" if len(fit) > 1 else "of it"
    return EvaluatorError(
        f"{error.where} has no function `evaluate`; it defines {words}, and all parameters {several} are columns of "
        f"{printable(dataset)}: name {'one' if len(fit) > 1 else 'it'}, {naming(error.where, fit[0].name)}; {error.end}"
    )


def by_other(
    error: ColumnsError, name: str, cases: Cases, evaluator: Evaluator, binding: Binding | None, where: str
) -> None:
    """
    Refuse an `evaluate` of which no parameter has a column, where another function of the script scores the rows.

    Raises MappingError: such an `evaluate` goes through a dataset by itself, and the others are what it calls.
    """
    columns = [*look(cases, None)[0]]
    needs = {} if binding is None else binding.needs()
    if not needs or evaluator.dialect is not None or evaluator.asked_entry or evaluator.called != NAME:
        return
    if not {*needs.values()}.isdisjoint(columns) or not evaluator.evaluates:
        return
    from runner.inputs.evaluators.python.entries import fitting, likely
    from runner.inputs.evaluators.script_kind import entries_of

    every = entries_of(evaluator.source, where, evaluator.language)
    own = every.pop(NAME, None)
    others = [one._replace(callers=one.callers - {NAME}) for one in every.values()]
    found = fitting(others, columns)
    why = f"all parameters of {'each' if len(found) > 1 else 'it'} are columns"
    if not found and own is not None and {*error.paths.values()} <= {PLACEHOLDER}:
        found, why = likely(others)[:4], "a row is likely scored by that"
    if not found:
        return
    step = naming(where, found[0].name)
    raise MappingError(
        f"{error.why}; these are the parameters of `{NAME}`; the script also defines "
        f"{list_names([one.words for one in found], 4)}, and {why}: name {'one' if len(found) > 1 else 'it'}, {step}; "
        f"or give those of `{NAME}`: {Setting('mapping.paths', error.paths or dict.fromkeys(needs, PLACEHOLDER))}"
    )


def _refuse_nothing(name: str, cases: Cases, evaluator: Evaluator, binding: Binding) -> None:
    """Refuse a function to which nothing of a row is given, though it takes any name, or has defaults for all."""
    case = next((one for at in range(_ROWS) if (one := cases.look(at)) is not None and one.broken is None), None)
    if case is None or binding.optional or binding.needs() or binding.mapping.paths or binding.mapping.literals:
        return
    own = [one.name for one in evaluator.parameters]
    give = Setting("mapping.paths", {own[0] if own else "output": "COLUMN"})
    raise MappingError(
        Message(
            f"{name}: nothing of a row is given to `{evaluator.called}`, which takes any name: give ",
            give,
            " for each that it reads, or give it parameters of their names",
        )
    )


def _singles(values: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Those of which all values are texts, numbers, true or false."""
    return {p: some for p, some in values.items() if all(isinstance(one, str | int | float) for one in some)}


def _columns(cases: Cases, binding: Binding, rows: int, names: Sequence[str] = ()) -> dict[str, list[Any]]:
    """By parameter, its values in the first rows that have any, but for those that are null or empty."""
    found: dict[str, list[Any]] = {}
    for at in range(_ROWS):
        if rows <= 0 or (case := cases.look(at)) is None:
            break
        try:
            placed, own = ((), {}) if case.broken is not None else binding.arguments(case)
        except MappingError:
            continue
        own = {**dict(zip(names, placed, strict=False)), **own}
        rows -= bool(own)
        for parameter, value in own.items():
            if value is not None and value != "" and parameter not in binding.mapping.literals:
                found.setdefault(parameter, []).append(value)
    return found


def _is_flat(some: Sequence[Any]) -> bool:
    """Whether values are no lists of lists."""
    return not any(isinstance(part, list) for one in some if isinstance(one, list) for part in one)


def _is_listed(some: Sequence[Any]) -> bool:
    """Whether most are texts of lists."""
    lists = [one for one in some if isinstance(one, str) and (kind_of_list(one) or _SEPARATED.fullmatch(one))]
    return 2 * len(lists) > len(some)


def _takes_lists(parameter: str, use: ListUse) -> bool:
    """Whether no number can be meant. A text has a length, too: where only this is asked for, the name tells."""
    return bool(use.how) and (use.how != "counts" or _SEVERAL.search(_plain(parameter)) is not None)


def _may_misfit(parameter: str, use: ListUse, some: Sequence[Any]) -> bool:
    """Whether the first row gives a reason to look at others."""
    if use.how == "list" or (use.how and not isinstance(some[0], str)) or _is_listed(some):
        return True
    named = _SEVERAL.search(_plain(parameter)) or _PARTS.search(_plain(parameter))
    return (use.together or use.how == "goes through") and named is not None


def _several_references(single: Mapping[str, list[Any]], uses: Mapping[str, ListUse]) -> str:
    """The reference that is a text to the function, and has texts of lists where the output is none; or nothing."""
    from runner.inputs.evaluators.column_suggestions import is_reference

    texts = {p: some for p, some in single.items() if uses[p].text and all(isinstance(one, str) for one in some)}
    lists = [p for p, some in texts.items() if is_reference(p) and all(map(kind_of_list, some))]
    plain = [p for p, some in texts.items() if p not in lists and not any(map(kind_of_list, some))]
    return lists[0] if len(lists) == 1 and plain else ""


def _of_references(name: str, evaluator: Evaluator, parameter: str, cell: str) -> str:
    """What to do where a row has several references, as the text of a list."""
    line = best_of(evaluator, parameter, f"literal_eval({parameter})")
    return (
        f"{name}: `{parameter}` is a text that looks like a list, such as {describe(cell, 60)}, and {evaluator.called} "
        "takes one text; for the best of several add these lines to the end of the script, and run that without a "
        f"name after it:\nfrom ast import literal_eval\n{line}"
    )


def best_of(evaluator: Evaluator, parameter: str, several: str) -> str:
    """Return the line of an `evaluate` that takes the best score of several references."""
    from runner.inputs.evaluators.python.row_function import row_call, row_head

    return f"{row_head(evaluator)} return max({row_call(evaluator, {parameter: 'one'})} for one in {several})"


def _is_meant(parameter: str, use: ListUse) -> bool:
    """Whether a list is meant, and not a text that looks like one."""
    return use.how == "list" or (use.how != "counts" and not _OF_TEXT.search(_plain(parameter)))


def _is_one_text(parameter: str) -> bool:
    """Whether a parameter is one text by its name, of which a part may be asked, as by `word in response`."""
    from runner.inputs.evaluators.column_suggestions import INPUTS, OUTPUTS

    return _OF_TEXT.search(_plain(parameter)) is not None or _plain(parameter) in OUTPUTS | INPUTS


def _plain(name: str) -> str:
    from runner.inputs.evaluators.column_suggestions import plain_name

    return plain_name(name)


def _of_cells(
    name: str, evaluator: Evaluator, texts: list[str], values: Mapping[str, list[Any]], columns: list[str]
) -> Message:
    """What to do where the cells of a table are texts of lists."""
    called = evaluator.called
    kinds = {p: {kind_of_list(one) if isinstance(one, str) else "" for one in values[p]} for p in texts}
    every = [one for p in texts for one in values[p] if isinstance(one, str)]
    first = next(one for one in every if kind_of_list(one) or _SEPARATED.fullmatch(one))
    text = (
        f"{name}: {list_names(texts)} {'is a text that looks' if len(texts) < 2 else 'are texts that look'} like a "
        f"list, such as {describe(first, 60)}, and {called} goes through it as a list, not through its characters"
    )
    if mixed := [p for p in texts if "" in kinds[p] and kinds[p] & {"Python", "JSON"}]:
        text += f"; some of {list_names(mixed)} are no lists: put those right"
    if all(kinds[p] <= {"JSON", ""} and "JSON" in kinds[p] for p in texts):
        return Message(f"{text}; give ", Setting("json_columns", columns))
    lines, made = [], {}
    for p in texts:
        if kinds[p] & {"Python", "JSON"}:
            lines, made[p] = ["from ast import literal_eval"], f"literal_eval({p})"
        else:
            mark = ";" if ";" in first else "|"
            spaced = any(f"{mark} " in str(one) or f" {mark}" in str(one) for one in values[p])
            made[p] = f'[one.strip() for one in {p}.split("{mark}")]' if spaced else f'{p}.split("{mark}")'
    return Message(f"{text}; {_lines(evaluator, lines, made)}")


def _of_parts(name: str, evaluator: Evaluator, parameter: str, texts: Mapping[str, list[Any]]) -> str:
    """What to do where parameters are lists of texts, and a row has one text for each."""
    made = {}
    for p, some in texts.items():
        mark = next((mark for mark in (";", "|", ",") if any(mark in str(one) for one in some)), "")
        made[p] = f'[one.strip() for one in {p}.split("{mark}")]' if mark else f"[{p}]"
    return (
        f"{name}: `{parameter}` is {describe(texts[parameter][0], 60)} in the first row, and {evaluator.called} goes "
        "through it as a list, not through its characters: give a list in each row, or "
        f"{_lines(evaluator, [], made)}"
    )


def _of_one(
    name: str, evaluator: Evaluator, misfits: list[str], brackets: Mapping[str, str], values: Mapping[str, Any]
) -> str:
    """What to do where some parameters have lists, and others a single value."""
    p = misfits[0]
    return (
        f"{name}: `{p}` is {describe(values[p][0], 60)} in the first row, and {evaluator.called} takes a list there; "
        f"{_lines(evaluator, [], {one: made.format(one) for one, made in brackets.items()})}"
    )


def _of_all(
    name: str,
    module: ScriptModule,
    evaluator: Evaluator,
    brackets: Mapping[str, str],
    equal: bool,
    values: Mapping[str, Any],
) -> str:
    """What to do where a function takes the values of all rows."""
    from runner.inputs.evaluators.python.returns import tuple_names
    from runner.inputs.evaluators.python.row_function import renaming, row_call, row_head, row_line
    from runner.inputs.evaluators.python.row_values import place_of_rows

    misfits = [*brackets]
    called, p = evaluator.called, misfits[0]
    each = {one: made.format(one) for one, made in brackets.items()}
    numbers = not any(isinstance(one, str) for one in values[p])
    row = row_call(evaluator, each)
    if equal and len(misfits) == 2 == len([one for one in evaluator.parameters if one.required]):
        row = f"float({misfits[0]} == {misfits[1]})"
    words = tuple_names(evaluator.source, evaluator.name, called)
    rows = {one: made[1:-1].format(f'row["arguments"]["{one}"]') for one, made in brackets.items()}
    figures = row_call(evaluator, {one: f"[{made} for row in results]" for one, made in rows.items()})
    if words:
        names = ", ".join(f'"{one}"' for one in words)
        row = row if row.startswith("float(") else f"{row}[{len(words) - 1}]"
        figures = f"dict(zip(({names}), {figures}))"
    first = renaming(called)
    again = "" if called == "evaluate" else f", and run the script without `:{called}`"
    what = "takes lists, with a value for each row" if numbers or len(misfits) > 1 else "takes a list"
    if place := place_of_rows(module, called, misfits):
        return (
            f"{name}: `{p}` is {describe(values[p][0], 60)} in the first row, and {called} {what}, and returns a list "
            f"with one of each: {first}add this line to the end of the script{again}:\n"
            f"{row_line(evaluator, each, place)}\n"
            f"If {list_names(misfits)} should be a list in each row, put the file right"
        )
    text = (
        f"{name}: `{p}` is {describe(values[p][0], 60)} in the first row, and {called} {what}, as of all "
        f"rows together: {first}add these lines to the end of the script{again}:\n{row_head(evaluator)} return {row}\n"
        f"def aggregate(results): return {figures}\n"
        "The figure of all rows is then `aggregate`: docs/how-to/aggregates.md"
    )
    return text if equal else f"{text}. If {list_names(misfits)} should be a list in each row, put the file right"


def _lines(evaluator: Evaluator, lines: list[str], made: Mapping[str, str]) -> str:
    """What to add to the script so that the function gets other values than the row has."""
    from runner.inputs.evaluators.python.row_function import row_line

    if evaluator.called == NAME:
        steps = "; ".join(f"{p} = {one}" for p, one in made.items())
        return "begin the function with these lines:\n" + "\n".join([*lines, steps])
    add = "\n".join([*lines, row_line(evaluator, made)])
    return f"add these lines to the end of the script, and run it without `:{evaluator.called}`:\n{add}"
