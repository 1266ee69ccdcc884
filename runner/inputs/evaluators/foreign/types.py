"""What a dialect is, and what it finds in a script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from runner.core.types import Evaluator, Parameter
from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES, is_reference
from sandboxes.base import Language

if TYPE_CHECKING:
    from runner.inputs.evaluators.foreign.module import ModuleFunction, ScriptModule

INLINE = "<inline>"
"""The entry of code that stands in a config file: an expression, or lines."""
DATA = "<json>"
"""The entry of a grader that is JSON."""

WORDS = ("output", "reference", "input", "metadata")
"""What a row has for each dialect."""


def row(columns: Mapping[str, tuple[str, ...]] | None = None, needs: Collection[str] = ()) -> tuple[Parameter, ...]:
    """
    Return a row's words as a part takes them: by word, the `columns` of the tool's own names that fill it before its
    own.

    `needs` are the words that the script asks for beside the output.
    """
    known = columns or {}
    return tuple(
        Parameter(name=word, required=word == "output" or word in needs, columns=known.get(word, ())) for word in WORDS
    )


def row_by_name(
    function: ModuleFunction,
    own: Mapping[str, tuple[str, ...]] | None = None,
    filled: Collection[str] = (),
    read: Collection[Parameter] = (),
) -> tuple[Parameter, ...]:
    """
    Return `row` of a function that takes a row's columns by their names.

    `filled` are the names that the tool itself gives the output, and `read` what the function reads of its `**kwargs`.
    """
    outputs = {"output", *filled, *(own or {}).get("output", ())}
    taken = {*WORDS, *outputs, *function.names}
    required = (*function.required, *(key.name for key in read if key.required and key.name not in function.names))
    others = {name: True for name in required if name not in (*WORDS, *outputs) and name.isidentifier()}
    others |= {one.name: False for one in function.parameters if one.name not in others and is_reference(one.name)}
    others |= {key.name: False for key in read if key.name not in (*taken, *others) and is_reference(key.name)}
    columns = tuple(
        Parameter(name=name, required=needed, columns=(name,)) for name, needed in others.items() if name not in WORDS
    )
    keys = [key.name for key in read if key.name not in function.names]
    said = OUTPUTS - REFERENCES - outputs
    asked = not outputs.isdisjoint(function.names)
    if not asked and not outputs.isdisjoint(keys) and said.isdisjoint(function.names):
        alike = [name for name in keys if name in said]  # `kw.get("output") or kw["prediction"]`: one of these
        columns = tuple(one for one in columns if one.name not in alike)
        columns += tuple(Parameter(name=name, columns=(*alike, "output")) for name in alike[:1])
        asked = not alike
    output, *words = row(own, required)
    # One that names columns alone needs no output.
    return (output.model_copy(update={"required": asked}), *words, *columns)


_ROW = row()


class DialectMatch(NamedTuple):
    """What a dialect reads a script as."""

    entry: str
    """What is called: `get_assert`, `Class.method`, `default`."""
    parameters: tuple[Parameter, ...] = _ROW
    """What the guest part takes of a row."""
    accepts_any: bool = True
    """True if `--set` and `--map` may give it more, by any name."""
    signature: str = ""
    """How the script declares it, for people: `get_assert(output, context)`."""
    packages: tuple[str, ...] = ()
    """The vendor's packages that its imports ask for; with none it runs on the standard library."""
    docstring: str = ""
    sure: bool = False
    """True where nothing else has such a function: it counts more than what looks alike beside it."""
    summary: bool = False
    """True if it is called once, with all rows, and gives figures of them."""

    @classmethod
    def of(
        cls, module: ScriptModule, function: ModuleFunction, packages: tuple[str, ...] = (), *, sure: bool = False
    ) -> DialectMatch:
        """Return a script that is called at this function."""
        docstring = module.docstring or function.docstring
        return cls(function.name, signature=function.words, packages=packages, docstring=docstring, sure=sure)


@dataclass(frozen=True)
class ForeignDialect:
    """One tool's scripts: how they are known, and the part beside them that calls them."""

    name: str
    title: str
    """What a script of it is, with the article: `a promptfoo assertion`."""
    version: int
    """Changes where the same script and row would give another result; part of the evaluator's version."""
    read: Callable[[ScriptModule, str | None, bool], DialectMatch | None]
    """
    What a script is read as, by parsing alone; None if it is none of this dialect.

    It is given the entry that was asked for, and whether the dialect was named: if not, only what marks the dialect
    may count. Raises EvaluatorError for what can be none.
    """
    program: Callable[[Evaluator], str]
    """The text that a sandbox loads: it defines a function of the entry's name, around the unchanged script."""
    marks: str = ""
    """What a script of it has, for messages: `it is a subclass of BaseMetric with measure`."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Where the script finds what a parameter gives, in its own words: `context.vars.expected` for `reference`."""
    languages: tuple[Language, ...] = ("python",)
    batched: bool = False
    """True if the script is called with lists, one value for each row."""
    higher_is_better: bool = False
    """True if the tool takes a higher score for the better one, whatever is scored."""
    zeroes: bool = False
    """True if the tool itself takes an exception for the score 0; then `--dialect-failures as-zero` may be asked."""
