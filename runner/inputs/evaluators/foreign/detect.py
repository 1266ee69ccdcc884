"""Say which dialect a script is written in. The one that is meant is asked for where it could be several."""

from __future__ import annotations

from typing import NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable, suggestion
from runner.inputs.evaluators.foreign.module import ScriptModule, SeveralError, read_python
from runner.inputs.evaluators.foreign.registry import every, find
from runner.inputs.evaluators.foreign.types import DATA, INLINE, DialectMatch, ForeignDialect
from sandboxes.base import Language
from sandboxes.words.wording import Setting


class DialectReading(NamedTuple):
    """A script, read as one of a dialect."""

    dialect: ForeignDialect
    match: DialectMatch


def detect(
    source: str, where: str, language: Language, dialect: str | None, entry: str | None
) -> DialectReading | None:
    """
    Return what a script is read as; None if it is of no dialect.

    `dialect` and `entry` are what was asked for.

    Raises:
        EvaluatorError: For a script that could be several, that lacks the entry, or that is not of the dialect.
    """
    asked = None if dialect is None else find(dialect)
    if entry == DATA:
        from runner.inputs.evaluators.foreign.dialects.openai import read_grader

        return DialectReading(find("openai"), read_grader(source, where))
    if asked is not None and language not in asked.languages:
        raise EvaluatorError(f"{where}: {asked.title} is not written in {language}; leave the dialect out")
    if entry == INLINE:
        from runner.inputs.evaluators.foreign.dialects.promptfoo import read_inline

        return DialectReading(find("promptfoo"), read_inline(source, where, language))
    candidates = [asked] if asked is not None else [d for d in every() if language in d.languages]
    if not candidates:
        return None
    if language == "python":
        module = read_python(source, where)
    else:
        from runner.inputs.evaluators.foreign.javascript import read_javascript  # here: the parser takes time to import

        module = read_javascript(source, where)
    readings, several = [], None
    for one in candidates:
        try:
            found = one.read(module, entry, asked is not None)
        except SeveralError as error:
            several = error
            continue
        if found is not None:
            readings.append(DialectReading(one, found))
    readings = [reading for reading in readings if reading.match.sure] or readings
    if several is not None and not (readings and (readings[0].match.sure or not several.sure)):
        raise several
    if len(readings) > 1:
        names = [reading.dialect.name for reading in readings]
        entries = dict.fromkeys(f"{where}:{reading.match.entry}" for reading in readings)
        which = f'{Setting("dialect", names[0])}, or in its header, [tool.evalcell], dialect = "{names[0]}"'
        which = list_names(entries) if len(entries) > 1 else which
        raise SeveralError(f"{where} could be a script for {list_names(names)}; say which: {which}")
    if not readings and asked is not None:
        raise EvaluatorError(_none(module, where, asked, entry))
    return readings[0] if readings else None


def _none(module: ScriptModule, where: str, asked: ForeignDialect, entry: str | None) -> str:
    """Why a script is not what was asked for."""
    known = [*module.functions, *module.classes, *module.values]
    name = printable(entry or "", 60)
    if entry is not None and module.called(entry) is None and entry not in known:
        return (
            f"{where} has no function `{name}`{suggestion(entry, known)}: it defines "
            f"{list_names(known, 6) or 'nothing'}"
        )
    marks = f"; {asked.marks}" if asked.marks else ""
    if entry is not None:
        function = module.called(entry)
        words = name if function is None else printable(function.words, 200)
        return (
            f"{where}: `{words}` is not {asked.title}{marks}; leave the dialect out to have it called with what its "
            "parameters name"
        )
    if not known:
        return f"{where} defines nothing, and so is not {asked.title}{marks}"
    return (
        f"{where}: no one of what it defines ({list_names(known, 6)}) is sure to be {asked.title}{marks}; name it: "
        f"`{where}:NAME`, or leave the dialect out"
    )
