"""Functions in Python that take a value for each row: refused with the line that calls them for one."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

from runner.core.errors import EvaluatorError, ListsError
from runner.core.text import list_names
from runner.core.types import Parameter
from runner.inputs.evaluators.column_suggestions import (
    OUTPUTS,
    REFERENCES,
    is_reference,
    likely_columns,
    plain_name,
)
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.foreign.module import ScriptModule, read_python
from runner.inputs.evaluators.foreign.summaries import takes_lists
from runner.inputs.evaluators.python.entries import call_name, entries_of, which
from runner.inputs.evaluators.python.lists import OF_LISTS, nested_lists
from runner.inputs.evaluators.python.row_values import place_of_rows
from runner.inputs.evaluators.python.signature import annotations_of, parse

_A_LIST = re.compile(r"([\w.]+\.)?(list|List|Sequence|Iterable|Collection|tuple|Tuple|ndarray|Series|Tensor)\b")
_LISTS = {*("predictions", "preds", "outputs", "responses", "completions", "generations", "hypotheses", "candidates")}
_LISTS |= {"solution_strs", "y_pred", "generated_texts", "model_outputs", "hyps", "predicted_answers"}
"""Names of outputs that are several."""
_ANSWERS = {"references", "refs", "targets", "labels", "answers", "golds", "gts", "truths", "solutions", "dataset"}
_ANSWERS |= {"truth", "true", "actuals", "gold"}
"""Last words of names of right answers; a list, where another parameter is the outputs."""


class RowCall(NamedTuple):
    """How a function of all rows is called for one."""

    function: str
    words: dict[str, str]
    """By required parameter, what a row has for it: `output`, `reference` or a column of its own name."""
    depths: dict[str, int]
    """By parameter, the brackets around what a row has: 0 for what all rows share, 2 for lists of lists."""
    place: str
    """Where the row's value is in what is returned."""

    def step(self) -> str:
        """Return what to write for a dataset that is not known."""
        # A row likely has several of what is a list of lists.
        line = self._line(self.words, {name: min(depth, 1) for name, depth in self.depths.items()})
        nested = [name for name, depth in self.depths.items() if depth > 1]
        keeps = f" ({list_names(nested)} takes a list of lists, and keeps them)" if nested else ""
        return f"`{line}`, without brackets where a row's own values are lists{keeps}{self._together(self.words)}"

    def step_of(self, dataset: str, columns: Sequence[str], row: Mapping[str, Any]) -> str:
        """Return what to write for these columns, with brackets by a row's values; nothing if one is lacking."""
        free = [one for one in columns if one not in self.words and one != "id"]
        likely = likely_columns({p: word for p, word in self.words.items() if p not in columns}, free)
        found = {p: p if p in columns else likely.get(p, "") for p in self.words}
        names = [*found.values()]
        if not all(one.isidentifier() and not iskeyword(one) for one in names) or len({*names}) < len(names):
            return ""
        values = {p: row.get(column) for p, column in found.items()}
        depths = dict(self.depths)
        single = [p for p, depth in depths.items() if depth == 1]
        if single and all(isinstance(values[p], list) for p in single):  # a row's own values are such lists
            depths |= dict.fromkeys(single, 0)
        for p, value in values.items():
            if self.depths[p] == 2:
                within = isinstance(value, list) and any(isinstance(one, list) for one in value)
                depths[p] = 0 if within else 1 if isinstance(value, list) or value is None else 2
        line = self._line(found, depths)
        return f"`{line}`, of the columns of {dataset}, and run the script without a name{self._together(found)}"

    def _line(self, words: Mapping[str, str], depths: Mapping[str, int]) -> str:
        made = {p: "[" * depths[p] + word + "]" * depths[p] for p, word in words.items()}
        given = ", ".join(f"{p}={one}" if len(words) > 2 else one for p, one in made.items())
        first = [words[p] for role in ("output", "reference") for p, word in self.words.items() if word == role]
        own = ", ".join(dict.fromkeys([*first, *words.values()]))
        return f"def evaluate({own}): return {self.function}({given}){self.place}"

    def _together(self, words: Mapping[str, str]) -> str:
        """How all rows are judged at once, where the row has no value of its own in what is returned."""
        if self.place:
            return ""
        if not all(self.depths.values()):
            return ", or judge all rows together in `aggregate(results)`: docs/how-to/aggregates.md"
        every = ", ".join(f"{p}=[row['arguments']['{word}'] for row in results]" for p, word in words.items())
        line = f"def aggregate(results): return {self.function}({every})"
        return f", or judge all rows together by `{line}` beside it: docs/how-to/aggregates.md"


def refuse_lists(text: str, where: str, name: str, own: tuple[Parameter, ...]) -> None:
    """Refuse a function that goes through its outputs one by one: it would go through the characters of a text."""
    required = [one.name for one in own if one.required]
    names = [
        one
        for one in required
        if plain_name(one) in _LISTS or (name == NAME and plain_name(one).rpartition("_")[2] in _LISTS)
    ]
    if not names or (name == NAME and not any(plain_name(one).rpartition("_")[2] in _ANSWERS for one in required)):
        return
    try:
        lists = (name == NAME and "dataset" in required) or takes_lists(read_python(text, where), name, names)
    except EvaluatorError:  # it divides by their number
        lists = True
    if lists and name == NAME and required[0] == "dataset":
        raise EvaluatorError(_of_a_file(text, where, required))
    if lists:
        call = _row_call(read_python(text, where), parse(text, where).body, name, required)
        start = f"`{name}({', '.join(required)})` takes lists, a value for each row, and is called with one row; "
        raise ListsError(where, f"{start}{'name it otherwise, and ' if name == NAME else ''}define ", call)


def _row_call(module: ScriptModule, tree: Sequence[ast.stmt], entry: str, required: Sequence[str]) -> RowCall:
    """Return how this function, of which the outputs are several, is called for one row."""
    nested, together = nested_lists(module, entry, required), _together(module, entry, required)
    kinds, depths = annotations_of(module.definition(entry)), {}
    for name in required:
        written = re.sub(r"^([\w.]+\.)?Optional\[", "", kinds.get(name, ""))
        if written and not _A_LIST.match(written) and not written.startswith(("Union", "Any", "typing.")):
            depths[name] = 0
        elif OF_LISTS.match(written) or name in nested:
            depths[name] = 2
        else:
            depths[name] = int(name in together or (not together and not _is_text(module, entry, name)))
    return RowCall(call_name([*tree], entry), _words(required, depths), depths, place_of_rows(module, entry, required))


def _words(required: Sequence[str], depths: Mapping[str, int]) -> dict[str, str]:
    """What a row has for each: one is the output, and what stands beside it the reference."""
    lists = [name for name in required if depths[name]]
    names = {name: {plain_name(name), plain_name(name).removesuffix("s")} for name in lists}
    outputs = sorted(
        (name for name in lists if names[name] & OUTPUTS),
        key=lambda name: (bool(names[name] & REFERENCES), is_reference(name)),
    )
    words = {name: name for name in required}
    if outputs:
        words[outputs[0]] = "output"
    right = [name for name in lists if name not in outputs[:1] and (is_reference(name) or names[name] & REFERENCES)]
    if right:
        words[right[0]] = "reference"
    elif outputs and len(lists) == 2 == len(required):
        words[next(name for name in lists if name != outputs[0])] = "reference"
    if right and not outputs and len(lists) == 2 == len(required):
        words[next(name for name in lists if name != right[0])] = "output"
    if not right and not outputs and len(lists) == len(required) < 3:
        words |= dict(zip(lists, ("output", "reference"), strict=False))
    return words


def _together(module: ScriptModule, entry: str, names: Sequence[str]) -> set[str]:
    """The parameters that a function goes through together, by `zip` or by number; none where it hands them on."""
    function, found = module.definition(entry), set[str]()
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Call(func=ast.Name(id="zip"), args=args) if len(args) > 1:
                found |= {one.id for one in args if isinstance(one, ast.Name)}
            case ast.For(target=target, iter=ast.Call(func=ast.Name(id="enumerate" | "range" as how), args=[one, *_])):
                at = target.elts[0] if isinstance(target, ast.Tuple) else target
                counts = {at.id} if isinstance(at, ast.Name) else set()
                found |= {one.id} if isinstance(one, ast.Name) and how == "enumerate" else set()
                for inner in ast.walk(node):
                    match inner:
                        case ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=place)) if place in counts:
                            found.add(name)
    return found & {*names} if len(found & {*names}) > 1 else set()


def _is_text(module: ScriptModule, entry: str, name: str) -> bool:
    """Whether a parameter is compared with a text, or is a key."""
    function = module.definition(entry)
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Subscript(slice=ast.Name(id=own)) if own == name:
                return True
            case ast.Compare(left=ast.Name(id=own), ops=[ast.Eq() | ast.NotEq()], comparators=[one]) if own == name:
                return isinstance(one, ast.Constant)
            case ast.Compare(left=ast.Name(id=own), ops=[ast.In() | ast.NotIn()], comparators=[one]) if own == name:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr=attr)) if own == name:
                if attr in ("lower", "startswith", "strip", "endswith", "upper", "split"):
                    return True
    return False


def _of_a_file(text: str, where: str, required: list[str]) -> str:
    """What to do with SQuAD's form, `evaluate(dataset, predictions)`: it reads two whole files."""
    try:
        entries = [one for name, one in entries_of(text, where).items() if name != NAME]
    except EvaluatorError:
        entries = []
    step = which([one for one in entries if "dataset" not in one.required], where)
    return (
        f"{where}: `evaluate({', '.join(required)})` takes a whole file and the predictions for it, as SQuAD's script "
        f"does, and here a function is called with one row; {step or 'define `def evaluate(output, reference): …`'}"
    )
