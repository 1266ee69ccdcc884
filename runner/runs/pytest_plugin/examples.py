"""Worked examples as pytest's items: one for each example, which run together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import InputError
from runner.core.text import printable, whole
from runner.engine.scoring.diff import windows
from runner.engine.scoring.look_alikes import tell_json_apart
from runner.inputs.evaluators.load import LANGUAGES, MAX_SOURCE
from runner.results.reports.workflow_commands import guard_text
from runner.runs.api.run import check_examples
from runner.runs.examples.check import ExampleResult
from runner.runs.examples.load import Example, for_language, read_examples
from sandboxes.errors import SandboxError, UnsupportedConfigError
from sandboxes.host.regular import read_regular

_TEXT = 300  # characters of a value that differs
_NAME = 80  # characters of an example's id in the name of its test


def evaluators(examples: Path, stem: str) -> list[Path]:
    """Return the scripts of this name beside the examples that have an `evaluate`."""
    found = []
    for suffix in LANGUAGES:
        script = examples.with_name(f"{stem}{suffix}")
        try:
            if b"evaluate" in read_regular(script, MAX_SOURCE):
                found.append(script)
        except OSError:
            continue
    return found


class ExamplesFile(pytest.File):
    """A file of worked examples, with the evaluators that it is for."""

    def __init__(self, evaluators: Sequence[Path], **more: Any) -> None:
        super().__init__(**more)
        self._evaluators = evaluators
        self._results: dict[Path, dict[str, ExampleResult]] = {}

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each example and evaluator."""
        name = printable(whole(self.path.name))
        if not self._evaluators:
            stem = printable(whole(self.path.name.partition(".cases.")[0]))
            raise self.CollectError(
                f"{name}: there is no evaluator {stem}.py or {stem}.ts beside it; "
                f"`evalcell test SCRIPT {name}` tries it with another script"
            )
        try:
            every = read_examples(self.path)
        except InputError as error:
            raise self.CollectError(str(error)) from None
        taken: set[str] = set()
        for script in self._evaluators:
            for example in for_language(every, LANGUAGES[script.suffix]):
                of = f"[{script.suffix[1:]}]" if len(self._evaluators) > 1 else ""
                test = f"{_name(example)}{of}"
                test = test if test not in taken else f"{test}#{example.number}"
                taken.add(test)
                yield ExampleItem.from_parent(self, name=test, script=script, example=example)

    def result(self, script: Path, example: Example) -> ExampleResult:
        """Return the example's result. The first call runs all examples of the evaluator that were selected."""
        if script not in self._results:
            items = self.session.items
            some = [i.example for i in items if isinstance(i, ExampleItem) and i.parent is self and i.script == script]
            report = check_examples(script, some)
            self._results[script] = {result.id: result for result in report.examples}
        return self._results[script][example.id]


class ExampleItem(pytest.Item):
    """One worked example of one evaluator."""

    parent: ExamplesFile

    def __init__(self, script: Path, example: Example, **more: Any) -> None:
        super().__init__(**more)
        self.script = script
        self.example = example

    def runtest(self) -> None:
        """Raise ExampleFailed if the result is not as expected."""
        result = self.parent.result(self.script, self.example)
        if result.verdict != "passed":
            raise ExampleFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return where the result differs from what is expected, instead of a traceback."""
        error = excinfo.value
        if isinstance(error, ExampleFailed):
            return guard_text("\n".join(_difference(error.result)))
        if isinstance(error, InputError | SandboxError | UnsupportedConfigError):
            return guard_text(str(error))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the example's file, line and name."""
        line = self.example.where.rpartition(":")[2]
        return self.path, int(line) - 1 if line.isdecimal() else None, self.name


class ExampleFailed(Exception):
    """An example's result is not as expected, or it has none."""

    def __init__(self, result: ExampleResult) -> None:
        super().__init__(result.id)
        self.result = result


def _name(example: Example) -> str:
    """The id, without what separates the parts of a test's name."""
    return guard_text(printable(example.id, _NAME)).replace("::", ":").replace("/", "|")


def _difference(case: ExampleResult) -> Iterable[str]:
    result = case.result
    yield f"{case.where}: {printable(case.id, _NAME)}"
    for one in case.differences:
        expected, got = tell_json_apart(windows((one.expected, one.got), _TEXT))
        yield f"  {printable(one.field, 60)}: expected {printable(expected, 2 * _TEXT)}"
        yield f"  {' ' * len(printable(one.field, 60))}  got      {printable(got, 2 * _TEXT)}"
    if result.error is not None:
        yield f"  {result.outcome}: {printable(result.error.message, 1000)}"
    if result.stdout.strip():
        yield f"  printed: {printable(result.stdout.strip()[-_TEXT:], 2 * _TEXT)}"
