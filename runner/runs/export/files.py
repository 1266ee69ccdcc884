"""The files by which an evaluator serves in another tool, as text."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.core.text import whole
from runner.core.types import Evaluator
from runner.inputs.evaluators.load import split_entry
from runner.runs.export.scorer import first_config, refuse_no_verdict
from sandboxes.record import Record

_WIDTH = 100
_TAKEN = {
    *("ROWS", "Path", "RowScorer", "inspect_scorer", "langsmith_evaluator", "mean", "pytest", "request", "row"),
    *("scorer", "stderr", "str"),
}
"""Names that the files use themselves."""


@dataclass(frozen=True)
class ExportFile:
    """What is exported, and where to."""

    named: str
    """A template's name, or a script's path as the file will name it: relative to itself."""
    is_path: bool
    evaluator: Evaluator
    arguments: dict[str, Any]
    """Keywords of RowScorer."""
    options: Sequence[str]
    """The same as options."""
    columns: Sequence[str]
    """Those that a row needs."""
    threshold: float | None = None
    file: str | None = None
    """Its own name."""

    @property
    def name(self) -> str:
        """The evaluator's as an identifier."""
        name = re.sub(r"\W", "_", self.evaluator.name, flags=re.ASCII).strip("_") or "evaluator"
        return f"score_{name}" if name[0].isdigit() or keyword.iskeyword(name) or name in _TAKEN else name

    @property
    def shown(self) -> str:
        return _plain(self.named)

    def file_named(self, usual: str) -> str:
        """Return its own name, as it may stand in a docstring or a comment."""
        return _plain(self.file or usual)

    def call(self, function: str) -> str:
        """Return a call in Python, with what differs from the defaults."""
        return _call(function, [self._source(), *(f"{name}={_code(value)}" for name, value in self.arguments.items())])

    def imports(self, *names: str) -> str:
        """Return the lines that import what the file uses."""
        kinds = {type(value).__name__ for value in self.arguments.values() if isinstance(value, Record)}
        lines = [f"from evalcell import {', '.join(sorted(kinds))}"] if kinds else []
        return "\n".join([*lines, f"from runner.runs.export import {', '.join(names)}"])

    @property
    def path(self) -> str:
        return "from pathlib import Path\n\n" if self.is_path else ""

    def _source(self) -> str:
        if not self.is_path:
            return repr(self.named)
        path, entry = split_entry(self.named)
        beside = f"Path(__file__).parent / {path.as_posix()!r}"
        return beside if entry is None else f"str({beside}) + {':' + entry!r}"


def promptfoo(one: ExportFile) -> str:
    """Return an assertion in JavaScript: one in Python would start anew on each row, and fail with the score 0."""
    refuse_no_verdict(one.evaluator, one.threshold)
    options = [*one.options, *(() if one.threshold is None else ("--threshold", repr(one.threshold)))]
    script = json.dumps(one.named)
    if one.is_path:
        # A path, not a URL: a name may have any character.
        script = f'fileURLToPath(new URL(".", import.meta.url)) + {script}'
    minimized = first_config(one.evaluator).direction == "minimize"
    text = (Path(__file__).with_name("promptfoo.mjs")).read_text("utf-8")
    filled = {
        "EVALUATOR, which": f"{one.shown}, which",
        "file://FILE": f"file://{one.file_named(f'{one.name}.mjs')}",
        "= SCRIPT;": f"= {script};",
        "OPTIONS = []": f"OPTIONS = {json.dumps(options)}",
        "LOWER_IS_BETTER = false": f"LOWER_IS_BETTER = {json.dumps(minimized)}",
        "namedScores[NAME]": f"namedScores[{json.dumps(one.evaluator.name)}]",
    }
    if not one.is_path:
        filled['import { fileURLToPath } from "node:url";\n'] = ""
    # All at once: a name that is filled in may itself have any of these places.
    text, places = re.subn("|".join(map(re.escape, filled)), lambda place: filled[place[0]], text)
    assert places == len(filled)
    return text


def inspect(one: ExportFile) -> str:
    """Return a file with a scorer."""
    metrics = '{"*": [mean(), stderr()]}' if len(one.evaluator.outputs) > 1 else "[mean(), stderr()]"
    file = one.file_named(f"{one.name}_inspect.py")
    return f'''\
"""Inspect: {one.shown}, which evalcell runs in a sandbox. Written by `evalcell export`.

    inspect score LOG.eval --scorer {file}@{one.name}

or in a task: Task(…, scorer={one.name}()). `output` is the completion, `reference` the target, `input` the sample's
text; the sample's metadata are columns.
"""

{one.path}from inspect_ai.scorer import mean, scorer, stderr
{one.imports("inspect_scorer")}

_score = {one.call("inspect_scorer")}


@scorer(metrics={metrics})
def {one.name}():
    return _score
'''


def langsmith(one: ExportFile) -> str:
    """Return a file with an evaluator."""
    module = Path(one.file_named(f"{one.name}_langsmith.py")).stem
    return f'''\
"""LangSmith: {one.shown}, which evalcell runs in a sandbox. Written by `evalcell export`.

    from {module} import {one.name}
    Client().evaluate(application, data="dataset", evaluators=[{one.name}])

`output` is what the application returned, `reference` the example's outputs, `input` its inputs: an object with keys of
your own, such as `output.answer` for a mapping. The example's metadata are columns.
"""

{one.path}{one.imports("langsmith_evaluator")}

{one.name} = {one.call("langsmith_evaluator")}
'''


def pytest(one: ExportFile) -> str:
    """Return a test file with a fixture."""
    refuse_no_verdict(one.evaluator, one.threshold)
    arguments = one.arguments if one.threshold is None else {**one.arguments, "threshold": one.threshold}
    made = replace(one, arguments=arguments)
    example = ", ".join(f"{json.dumps(name)}: …" for name in one.columns)
    return f'''\
"""Tests with {one.shown}, which evalcell runs in a sandbox. Written by `evalcell export`."""

{one.path}import pytest

{made.imports("RowScorer")}

ROWS = [
    # What your application says, and what it should say: {{{example}}},
]


@pytest.fixture(scope="session")
def {one.name}():
    with {made.call("RowScorer")} as scorer:
        yield scorer


@pytest.mark.parametrize("row", ROWS)
def test_{one.name}({one.name}, row):
    {one.name}.check(**row)
'''


TOOLS: dict[str, Callable[[ExportFile], str]] = {
    "promptfoo": promptfoo,
    "inspect": inspect,
    "langsmith": langsmith,
    "pytest": pytest,
}


def _call(function: str, words: list[str]) -> str:
    short = f"{function}({', '.join(words)})"
    if len(short) <= _WIDTH:
        return short
    return f"{function}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _code(value: Any) -> str:
    if not isinstance(value, Record):
        return repr(value)
    given = value.model_dump(exclude_unset=True)
    given = {name: one for name, one in given.items() if one != {}}
    return f"{type(value).__name__}({', '.join(f'{name}={one!r}' for name, one in given.items())})"


def _plain(name: str) -> str:
    """The name without what would end a docstring or a comment."""
    return re.sub(r"[^\x20-\x7e]|\*/|\"\"\"|\\", "_", whole(name))
