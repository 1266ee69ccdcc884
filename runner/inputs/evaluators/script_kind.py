"""Say what a script is read as: one of our own, or one of a dialect."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import EvaluatorError, ListsError, NoEntryError
from runner.core.types import Aggregate, DialectFailures
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.entrypoint import NAME, NATIVE, naming
from runner.inputs.evaluators.header import Header
from runner.inputs.evaluators.python.signature import (
    FunctionNode,
    NoFunctionError,
    Signature,
    names_of,
    parse,
    read_signature,
)
from sandboxes.base import Language
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from runner.inputs.evaluators.python.entries import Entry

_TOGETHER = re.compile(
    r"\b(test_results|predictions|targets|item_results|score_rows|ReportEvaluator)\b|@(?:\w+\.)?metric\b"
)
"""Words of Opik, MLflow, Langfuse, Weave, pydantic-evals and Inspect for what judges all rows together."""

_MOST = 20
"""Functions of one parameter that are asked whether they take all rows: each is parsed anew."""

_RESULT = re.compile(r"\b(Evaluation|EvaluationResults?|Score|Feedback|ScoreResult|MetricResult)\b")
"""Result objects of tools: a script without one is not looked at for them."""


class AsRead(NamedTuple):
    """What a script is read as."""

    signature: Signature
    dialect: str | None = None
    entry: str | None = None
    versions: tuple[str, ...] = ()
    """What decides its results beside its text."""
    packages: tuple[str, ...] = ()
    higher_is_better: bool = False

    @property
    def called(self) -> str:
        """The function whose parameters these are, as `Evaluator.called` has it."""
        return self.entry if self.entry is not None and self.dialect is None else NAME


def as_read(
    text: str,
    where: str,
    language: Language,
    header: Header,
    dialect: str | None,
    entry: str | None,
    failures: DialectFailures,
) -> AsRead:
    """
    Return the script's own signature, or what its dialect reads it as.

    A dialect is looked for where it was asked for, and where a row could not fill the script's parameters by name.
    A function that was named is one of our own where nothing marks it as another tool's.
    """
    own, refused = None, None
    if entry == NAME and dialect in (None, NATIVE):
        entry = None
    if dialect == NATIVE and entry is not None:
        return _named(text, where, language, entry)
    if dialect in (None, NATIVE) and entry is None:
        try:
            own = _own(text, where, language)
        except EvaluatorError as error:
            refused = error
        native = None if own is None else own.signature
        # A script of Langfuse takes one object, as our own may do.
        plain = native is not None and not (language == "typescript" and "observation" in text)
        if native is not None and dialect is None and language == "python" and (tool := _tool_of(text, where)):
            try:
                return as_read(text, where, language, header, tool, NAME, failures)
            except EvaluatorError:
                pass  # it can be called as our own alone
        if own is not None and (dialect == NATIVE or (plain and not _unknown(own.signature, header))):
            return own
        if refused is not None and dialect == NATIVE:
            raise _told(refused, text, where, language)
    from runner.inputs.evaluators.foreign.detect import detect  # here: a script of our own needs it not
    from runner.inputs.evaluators.foreign.module import SeveralError

    try:
        reading = detect(text, where, language, dialect, entry)
    except SeveralError:
        if own is None:
            raise
        reading = None
    if reading is None:
        if own is not None:
            _refuse_lists(text, where, language, NAME, own.signature)
            return own
        if entry is not None:
            return _named(text, where, language, entry)
        assert refused is not None
        told = _told(refused, text, where, language)
        by_row = isinstance(told, NoFunctionError | NoEntryError)
        said = "aggregate(results)" in str(told)
        if by_row and not said and language == "python" and (word := _together(text, where)):
            raise EvaluatorError(
                f"{told}; what a tool calls once, with all rows, as `{word}` looks like, is here "
                "`def aggregate(results): …`: docs/how-to/aggregates.md"
            )
        raise told
    found, kind = reading.match, reading.dialect
    if own is not None and dialect is None and language == "python" and _is_line_of(text, where, found.entry):
        return own
    if failures != "failed" and not (kind.zeroes and (language == "python" or found.entry == "<inline>")):
        raise EvaluatorError(f"{where} is {kind.title}, whose exceptions are no scores there either; they stay failed")
    together = Aggregate(accepts_any=True) if found.summary else None
    signature = Signature(found.parameters, found.accepts_any, found.docstring, not found.summary, together)
    versions = (kind.name, found.entry, str(kind.version), failures)
    return AsRead(signature, kind.name, found.entry, versions, found.packages, kind.higher_is_better)


def _together(text: str, where: str) -> str:
    """The name in a script, and not in what it says in texts and comments, of what judges all rows together."""
    words = [*_TOGETHER.finditer(text)]
    nodes = [*ast.walk(parse(text, where))] if words else []
    names = {getattr(node, field, None) for node in nodes for field in ("id", "arg", "attr", "name")}
    return next((word[0] for word in words if word[1] is None or word[1] in names), "")


def _own(text: str, where: str, language: Language) -> AsRead:
    """One of our own that defines `evaluate`, or is it; in a CommonJS module it is called as any function of it is."""
    if language == "typescript" and "exports" in text:
        entry = _entries(language).common_entry(text)
        if entry is not None:
            return _named(text, where, language, entry)
    return AsRead(_signature(text, where, language))


def _is_line_of(text: str, where: str, entry: str) -> bool:
    """Whether `evaluate` does no more than to call this function with a row's columns: the line that messages give."""
    function = names_of(parse(text, where).body).get(NAME)
    if not isinstance(function, FunctionNode) or len(function.body) > 1:
        return False
    nodes = [*ast.walk(function.body[0])]
    called = {ast.unparse(one.func).partition(".")[0] for one in nodes if isinstance(one, ast.Call)}
    return entry.partition(".")[0] in called and not any(isinstance(one, ast.comprehension) for one in nodes)


def _tool_of(text: str, where: str) -> str | None:
    """The dialect whose result object `evaluate` returns."""
    if "import" not in text or not _RESULT.search(text):
        return None
    from runner.inputs.evaluators.foreign.module import read_python
    from runner.inputs.evaluators.foreign.tool_results import tool_of

    return tool_of(read_python(text, where), NAME)


def _named(text: str, where: str, language: Language, entry: str) -> AsRead:
    """One of our own that is called at another function than `evaluate`. Raises EvaluatorError."""
    signature: Signature = _entries(language).signature_of(text, where, entry)
    _refuse_lists(text, where, language, entry, signature)
    return AsRead(signature, None, entry, (NATIVE, entry))


def _refuse_lists(text: str, where: str, language: Language, name: str, signature: Signature) -> None:
    if language == "python":
        from runner.inputs.evaluators.python.row_calls import refuse_lists
        from runner.inputs.evaluators.python.whole_data import refuse_whole

        refuse_lists(text, where, name, signature.parameters)
        refuse_whole(text, where, name, signature.parameters)


def _told(error: EvaluatorError, text: str, where: str, language: Language) -> EvaluatorError:
    """The error; one that `evaluate` is lacking says which of what the script defines likely scores a row."""
    if not isinstance(error, NoFunctionError):
        return error
    refused: EvaluatorError | None = None
    from runner.inputs.evaluators.python.entries import is_helper, judging, likely, takes_both, which
    from runner.inputs.evaluators.python.local_entries import local_scorer, local_step

    if language == "python" and (local := local_scorer(parse(text, where).body)):
        return EvaluatorError(f"{where} has no function `evaluate`; what it scores with is {local}, and name it")
    entries = _entries(language).entries_of(text, where)
    single = [one for one in entries.values() if len(one.required) == 1 and not (one.makes or one.callers)]
    alone = [one for one in single if one.scores or language != "python"]
    whole: tuple[Entry, ListsError] | None = None
    for one in dict.fromkeys([*likely(entries.values()), *alone[:_MOST]]):
        try:
            _named(text, where, language, one.name)
        except EvaluatorError as e:  # naming it would not do either
            refused = e if one.name in entries else refused
            if whole is None and isinstance(e, ListsError):
                whole = one, e
            del entries[one.name]
    both = any(map(takes_both, likely(entries.values())))
    if whole is not None and not both:  # what it calls is a step of it
        entries = {name: one for name, one in entries.items() if whole[0].name not in one.callers}
    found = which([*entries.values()], where)
    if not found and language == "python" and (judges := judging([*entries.values()])):
        try:
            _named(text, where, language, judges[0].name)
        except EvaluatorError as e:  # of what alone may be meant it is said why it is not called
            refused = refused or e
        if refused is None and whole is None and not is_helper(judges[0]):
            found = f"`{judges[0].words}` may score a row: name it, {naming(where, judges[0].name)}"
    if refused is not None and not found:
        return refused
    near = "" if error.near.startswith(" (it defines") or " assigns " in error.near else error.near
    end = f"or {error.step}"
    if whole is not None and both:
        end = f"`{whole[0].words}` takes all rows: name it to be told the line for one; {end}"
    elif whole is not None:
        found = f"{whole[1].step}; {found}"
    if not found and language == "typescript":
        step = _entries(language).unseen_step(text)
        end = "" if "FILE.ts" in step else f"; {end}"
        return EvaluatorError(f"{where} has no function `evaluate`; {step}{end}") if step else error
    if not found:
        local = local_step(parse(text, where).body)
        name = f", {naming(where, 'scorer')}" if "scorer = " in local else ""
        return (
            EvaluatorError(f"{where} has no function `evaluate`; it has {local}, and name it{name}") if local else error
        )
    return NoEntryError(
        f"{where} has no function `evaluate`{near}; {found}; {end}", where, tuple(entries.values()), end
    )


def entries_of(text: str, where: str, language: Language) -> dict[str, Entry]:
    """Return what a script defines that can be called. Raises EvaluatorError for wrong syntax."""
    found: dict[str, Entry] = _entries(language).entries_of(text, where)
    return found


def _entries(language: Language) -> ModuleType:
    """The module that reads what a script defines; here, as most scripts define `evaluate`."""
    return import_module(f"runner.inputs.evaluators.{language}.entries")


def _unknown(signature: Signature, header: Header) -> bool:
    """True if a parameter is required that nothing fills by name, nor by the header."""
    if not signature.evaluates:
        return False
    filled = {*BY_NAME, *header.mapping.paths, *header.mapping.literals, *header.parameters}
    return any(parameter.required and parameter.name not in filled for parameter in signature.parameters)


def _signature(text: str, where: str, language: Language) -> Signature:
    if language == "python":
        return read_signature(text, where)
    try:
        from runner.inputs.evaluators.typescript.signature import UnseenError, read_typescript

        try:
            return read_typescript(text, where)
        except UnseenError as error:
            raise _entries(language).unseen_error(text, where, error) from None
    except SandboxUnavailableError as error:
        raise EvaluatorError(f"{where}: {error}") from None
