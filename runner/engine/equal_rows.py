"""Rows that all end alike: what an `except` of the script hides, and what a script that always raises was given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import templates
from runner.core.text import list_names, printable, rows_of, shown_json
from runner.core.types import Evaluator, Result
from runner.engine.batch_program import is_batched, join_calls
from runner.engine.scoring.causes import cause_of
from runner.engine.scoring.shown_rows import own_names, safe
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.column_suggestions import likely_columns
from runner.inputs.evaluators.column_suggestions import step as part_step
from runner.inputs.evaluators.mapping import Binding
from runner.inputs.evaluators.program import program
from runner.inputs.evaluators.python.value_words import KINDS
from sandboxes.base import Call, Limits, Sandbox, Script
from sandboxes.errors import SandboxError
from sandboxes.words.wording import Setting

FEW = 3
"""Rows that may well end alike."""
_CATCHES = re.compile(r"\bexcept\b|\bsuppress\(")
_LINE = re.compile(r"\((?:(?P<file>[^():]+), )?line (?P<line>\d+)\)")
_KEY = re.compile(r"^KeyError: '([^']{1,80})'")
_VALUE = 80
_NAMED = 4
_TRACER = "_evalcell_traced"
_MOST = 3  # hidden errors that are told
_TRACE = """
def {name}(*given, **named):
    import sys
    found, seen = [], []
    def trace(frame, event, arg):
        if frame.f_code.co_filename not in {files!r} or frame.f_code.co_name in ("{name}", "rest", "trace"):
            return None
        if event == "exception" and len(found) < {most} and not any(arg[1] is one for one in seen):
            seen.append(arg[1])
            if not issubclass(arg[0], (StopIteration, StopAsyncIteration, GeneratorExit)):
                try:
                    said = str(arg[1])[:300]
                except Exception:
                    said = ""
                found.append([frame.f_code.co_filename, frame.f_lineno, arg[0].__name__[:80], said])
        return trace
    def run(step):
        sys.settrace(trace)
        try:
            return step()
        finally:
            sys.settrace(None)
    value = run(lambda: globals()[{entry!r}](*given, **named))
    if not hasattr(value, "__await__"):
        return found
    async def rest():
        sys.settrace(trace)
        try:
            await value
        finally:
            sys.settrace(None)
        return found
    return rest()
"""
"""
What is added to a script to tell the errors that it hides in a call, each with the innermost line of the script's own.
"""


@dataclass
class EqualRows:
    """
    Looks at the results of a run, until two of them differ.

    Args:
        evaluator: The script.
        columns: Those of the dataset's first rows.
    """

    evaluator: Evaluator
    columns: Sequence[str] = ()
    _first: tuple[Result, Call] | None = None
    _same: object = None
    _count: int = 0
    _inputs: set[str] = field(default_factory=set)
    _differ: bool = False

    def watch(self, result: Result, call: Call) -> int:
        """Take a result with its call; hold the first ones. Returns 0, as it holds no more for those that follow."""
        if self._differ:
            return 0
        error = result.error
        each = [(name, one.label, one.score) for name, one in result.outputs.items()]
        same: object = (result.label if result.score is None else "", result.score, each)
        if error is not None:
            same = cause_of(error)
        if self._first is None:
            self._first, self._same = (result, call), same
        elif same != self._same:
            self._differ = self._count < FEW or error is None or self._first[0].error is None
            return 0
        self._count += 1
        if len(self._inputs) < FEW:
            self._inputs.add(repr((call.arguments, call.positional))[:10_000])
        return 0

    def _alike(self) -> tuple[Result, Call] | None:
        """The first row, where the rows end alike although they differ."""
        return self._first if not self._differ and len(self._inputs) >= FEW else None

    async def hidden(self, sandbox: Sandbox, limits: Limits) -> str:
        """
        Run the first row once more, and return which errors the script hides in it; nothing where it hides none.

        The sandbox must be open. A run whose rows differ runs nothing, nor does one that may call something outside, or
        ask judges, which would be paid once more.
        """
        evaluator, first = self.evaluator, self._alike()
        if first is None or not self._may_hide(sandbox):
            return ""
        if (error := first[0].error) is not None and error.kind != "invalid_result":
            return ""
        found: list[Any] = []
        call = join_calls([first[1]]) if is_batched(evaluator) else first[1]
        try:
            loaded = await sandbox.load(_traced(program(evaluator), evaluator), limits)
            try:
                async with aclosing(loaded.run_grouped([call], limits)) as groups:
                    async for group in groups:
                        found += [one.value for one in group if one.status == "ok"]
            finally:
                await loaded.close()
        except SandboxError:
            return ""
        said = [words for one in (found[0] if found and isinstance(found[0], list) else []) if (words := _words(one))]
        if not said:
            return ""
        row, told = safe(first[0].id, 60), "; ".join(dict.fromkeys(said))
        what = "abstain" if first[0].outcome == "abstained" else "fail alike" if error else "have one result"
        return (
            f"all of {rows_of(self._count)} {what}, and errors that the script hides may be why: in row {row}, "
            f"run once more, {told}; to see it in each row, let it raise there"
        )

    def _may_hide(self, sandbox: Sandbox) -> bool:
        evaluator = self.evaluator
        texts = (evaluator.source, *(text for name, text in evaluator.files.items() if name.endswith(".py")))
        return (
            evaluator.language == "python"
            and evaluator.evaluates
            and not (evaluator.apart or sandbox.config.network or sandbox.config.judges)
            and not sandbox.capabilities.elsewhere
            and any(map(_CATCHES.search, texts))
            and not templates.is_source(evaluator.name, evaluator.source)
        )

    def raised(self, binding: Binding | None) -> str:
        """Return what a script was given that raises one error in every row, or in the first ones; else nothing."""
        first = self._alike()
        error = None if first is None else first[0].error
        place = None if error is None else _LINE.search(error.message)
        if (
            first is None
            or error is None
            or error.kind != "raised"
            or place is None
            or "does not load" in error.message
        ):
            return ""
        text = self.evaluator.files.get(place["file"], "") if place["file"] else self.evaluator.source
        lines = text.splitlines()[int(place["line"]) - 1 :]
        line = f", `{safe(lines[0], 100)}`" if lines and lines[0].strip() else ""
        named = [one.name for one in self.evaluator.parameters]
        given = own_names(first[1].arguments | dict(zip(named, first[1].positional, strict=False)))
        sources = {} if binding is None else binding.describe()
        words = [
            f"`{printable(name, 40)}` is {_shown(value)}"
            + (f", from {sources[name].partition(' (')[0]}" if name in sources else "")
            for name, value in [*given.items()][:_NAMED]
        ]
        hint = error.message[place.end() :].startswith("; ")
        if hint and not any(re.search(rf"\b{re.escape(one)}\b", line) for one in given):
            return ""  # it is not by what the rows have
        at = f"line {place['line']}{line}"
        step = "" if hint else self._step(error.message, given, binding, lines[0] if lines else "")
        return f"each row fails alike, at {at}: in row {safe(first[0].id, 60)} {'; '.join(words)}{step}"

    def _step(self, message: str, given: dict[str, Any], binding: Binding | None, line: str) -> str:
        """The mapping to try, where a column likely has what the line asks for."""
        used = frozenset[str]() if binding is None else binding.columns
        free = [one for one in self.columns if used is not None and one not in used and one not in ("id", "metadata")]
        if not free:
            return ""
        asked = [name for name in given if re.search(rf"\b{re.escape(name)}\b", line)]
        key = _KEY.search(message)
        if key is not None and any(str(one) == key[1] for one in given.values()):
            return "; a table of the script itself has no such key"
        if key is not None and asked:
            column = key[1] if key[1] in free else likely_columns({key[1]: key[1]}, free).get(key[1])
            has = given[asked[0]]
            path = None if binding is None else binding.mapping.paths.get(asked[0])
            if column is not None and isinstance(has, dict) and path and len(has) <= _NAMED:
                path = path if path[0] == "$" else f"${'' if path in BY_NAME else '.metadata'}{part_step(path)}"
                parts = {f"{asked[0]}.{one}": f"{path}{part_step(one)}" for one in has} | {
                    f"{asked[0]}.{key[1]}": column
                }
                return f"; try {Setting('mapping.paths', parts)}"
            if column is not None:
                return f"; the column `{printable(column, 60)}` may be what it asks for"
        likely = likely_columns({name: name for name in asked[:1]}, free)
        if likely:
            return f"; try {Setting('mapping.paths', likely)}"
        to = (asked or [*given] or ["PARAMETER"])[0]
        others = f"no parameter has {list_names(free, _NAMED)}: give it another column with "
        return f"; {others}{Setting('mapping.paths', {to: 'COLUMN'})}"


def _shown(value: object) -> str:
    return f"{KINDS.get(type(value).__name__, 'a value')}, {safe(shown_json(value, _VALUE))}"


def _traced(script: Script, evaluator: Evaluator) -> Script:
    """The script with a function that calls its own, and returns the errors that it hides."""
    files = ("evaluator.py", *(name for name in evaluator.files if name.endswith(".py")))
    tracer = _TRACE.format(name=_TRACER, entry=script.entrypoint, files=files, most=_MOST)
    return script._replace(source=f"{script.source}\n{tracer}", entrypoint=_TRACER)


def _words(one: object) -> str:
    """A hidden error, in words; the script may have made it."""
    if not isinstance(one, list) or len(one) != 4:
        return ""
    file, line, kind, said = one
    where = "" if file == "evaluator.py" else f" of {safe(str(file), 80)}"
    return f"line {safe(str(line), 10)}{where} hid {safe(str(kind), 80)}{f': {safe(str(said), 200)}' if said else ''}"
