"""Say which dialect a script is written in. The one that is meant is asked for where it could be several."""

from __future__ import annotations

from typing import NamedTuple

from runner.errors import EvaluatorError
from runner.evaluators.foreign.module import ScriptModule, read_python
from runner.evaluators.foreign.registry import every, find
from runner.evaluators.foreign.types import DATA, INLINE, ForeignDialect, Found
from runner.text import listed, printable
from sandboxes.base import Language


class Reading(NamedTuple):
    """A script, read as one of a dialect."""

    dialect: ForeignDialect
    found: Found


def detect(
    source: str, where: str, language: Language, dialect: str | None = None, entry: str | None = None
) -> Reading | None:
    """
    What a script is read as; None if it is of no dialect.

    `dialect` and `entry` are what was asked for. Raises EvaluatorError for a script that could be several, that lacks
    the entry, or that is not of the dialect.
    """
    asked = None if dialect is None else find(dialect)
    if entry == DATA:
        from runner.evaluators.foreign.dialects.openai import read_grader

        return Reading(find("openai"), read_grader(source, where))
    if asked is not None and language not in asked.languages:
        raise EvaluatorError(f"{where}: {asked.title} is not written in {language}; leave the dialect out")
    if entry == INLINE:
        from runner.evaluators.foreign.dialects.promptfoo import read_inline

        return Reading(find("promptfoo"), read_inline(source, where, language))
    candidates = [asked] if asked is not None else [d for d in every() if language in d.languages]
    if not candidates:
        return None
    module = read_python(source, where) if language == "python" else _read_javascript(source, where)
    if module is None:
        return None
    readings = [
        Reading(one, found) for one in candidates if (found := one.read(module, entry, asked is not None)) is not None
    ]
    readings = [reading for reading in readings if reading.found.sure] or readings
    if len(readings) > 1:
        names = [reading.dialect.name for reading in readings]
        raise EvaluatorError(
            f'{where} could be a script for {listed(names)}; say which: dialect="{names[0]}", or in its header, '
            f'[tool.evalcell], dialect = "{names[0]}"'
        )
    if not readings and (asked is not None or entry is not None):
        raise EvaluatorError(_none(module, where, asked, entry))
    return readings[0] if readings else None


def _read_javascript(source: str, where: str) -> ScriptModule | None:
    from runner.evaluators.foreign.javascript import read_javascript  # here: the parser takes time to import

    return read_javascript(source, where)


def _none(module: ScriptModule, where: str, asked: ForeignDialect | None, entry: str | None) -> str:
    """Why a script is not what was asked for."""
    known = listed([*module.functions, *module.classes], 6) or "nothing"
    if entry is not None and module.called(entry) is None and entry not in module.classes:
        return f"{where} has no function `{printable(entry, 60)}`: it defines {known}"
    if asked is None:
        names = listed([one.name for one in every() if module.language in one.languages], 20)
        called = printable(entry or "", 60)
        return f'{where}: `{called}` could be of several tools; say which: dialect="NAME", one of {names}'
    return f"{where}: no one of what it defines ({known}) is sure to be {asked.title}; name it: `{where}:NAME`"
