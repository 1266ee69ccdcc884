"""Several runs, one after another: each evaluator is a run of its own, with files and gates of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from runner.core.errors import InputError, OutputError
from runner.core.text import list_names, printable, whole
from runner.core.types import Evaluator
from runner.engine.request import RunRequest
from runner.inputs.evaluators.mapping import drop_reason
from runner.inputs.evaluators.roles import takes
from runner.results.output.folder import is_folder
from runner.results.output.links import refuse_links
from runner.results.reports.content import RunContent
from runner.results.reports.files import ReportFiles
from runner.runs.early_stop import share_risk
from runner.runs.run import Run
from runner.runs.store_references import prepare

T = TypeVar("T")

_NAME = re.compile(r"\w[\w .()@+-]{0,99}")
"""What is a folder's name on any system, and cannot be taken for an option."""


@dataclass(frozen=True)
class SuitePart:
    """One run of a suite."""

    name: str
    request: RunRequest
    evaluator: Evaluator | None = None
    """The request's, if it was read already; its name is the part's."""
    files: tuple[str, ...] = ()
    lock: str | None = None
    """The path of the lock that the request holds."""


class Suite:
    """
    Runs by name, all of them found and checked before the first one runs.

    `reports` are files that tell of all of them. With `resume` the run in each folder goes on, with `overwrite` it is
    replaced; with `save` each goes to the store, too. `verdict_only`: as in `Run`, for those that write nothing.

    Raises InputError, also for a name that two of them have, UnsupportedConfigError, SandboxUnavailableError and
    OutputError.
    """

    def __init__(
        self,
        parts: Sequence[SuitePart],
        reports: Sequence[str] = (),
        *,
        resume: bool = False,
        overwrite: bool = False,
        save: bool = False,
        verdict_only: bool = False,
    ) -> None:
        refuse_names([part.name for part in parts])
        prepared = [
            prepare(part.request, evaluator=part.evaluator, lock=part.lock or "the lock", save=save) for part in parts
        ]
        inputs = [path for one in prepared for path in one.inputs]
        self._reports = ReportFiles(reports, inputs=inputs, taken=[file for part in parts for file in part.files])
        for part in parts:
            make_above(part.files)
        self.runs = {
            part.name: Run(
                one,
                files=part.files,
                reports=self._reports,
                lock=part.lock,
                resume=resume,
                overwrite=overwrite,
                save=save,
                verdict_only=verdict_only and not (reports or part.files or save),
            )
            for part, one in zip(parts, prepared, strict=True)
        }

        share_risk([run.watch for run in self.runs.values()])
        compared = {name: run.baseline for name, run in self.runs.items() if run.baseline is not None}
        outputs = sum(max(1, len(self.runs[name].prepared.evaluator.configs)) for name in compared)
        for baseline in compared.values():
            baseline.family = outputs

    def check(self) -> None:
        """Raise DatasetError or ColumnsError if a dataset that is a file cannot be used."""
        for run in self.runs.values():
            check(run)

    def report(self, contents: Sequence[RunContent]) -> None:
        """Write the reports of the runs that ended. Raises WriteError."""
        self._reports.write(contents)


def check(run: Run) -> None:
    """Raise DatasetError or ColumnsError if the dataset is a file and cannot be used."""
    path = run.prepared.dataset
    if path is not None and os.path.isfile(path):
        with run.prepared.open():
            pass


def refuse_names(names: Sequence[str]) -> None:
    """Raise InputError for a name that cannot be a folder's, or that is there twice."""
    for at, name in enumerate(names):
        shown = printable(whole(name), 80)
        if not _NAME.fullmatch(name):
            raise InputError(
                f"the run {shown!r} needs a plain name: letters, digits, spaces and _.-+@() alone, a letter or digit "
                "first; an evaluator is named by NAME=EVALUATOR or in a table, a run of a file by [run.NAME]"
            )
        if name.lower() in {other.lower() for other in names[:at]}:
            raise InputError(f"two evaluators are called {shown!r}; give one another name: NAME=EVALUATOR")


def folder_of(output: Sequence[str], name: str) -> tuple[str, ...]:
    """
    Return the results folder of one of several evaluators, in that for all.

    Raises:
        OutputError: For a file or a link.
    """
    for path in output:
        if not is_folder(path):
            raise OutputError(
                f"the results of several evaluators go to a folder, not to {printable(whole(path))}; "
                "write for example results/, which gets a folder for each"
            )
        refuse_links(Path(path), (), (name,))
    return tuple(os.path.join(path, name, "") for path in output)


def baseline_of(baseline: str | None, name: str) -> str | None:
    """Return the baseline of one of several evaluators: its folder, in the folder of all."""
    return None if baseline is None else os.path.join(baseline, name, "")


def own(names: Iterable[str], name: str, text: str) -> str | None:
    """
    Return what `NAME.text` says to the evaluator of this name; without a known NAME it is for all.

    None: for another.
    """
    for other in sorted(names, key=len, reverse=True):
        if text.startswith(f"{other}."):
            return text[len(other) + 1 :] if other == name else None
    return text


def share_values(
    names: Iterable[str], values: Mapping[str, T], evaluators: Mapping[str, Evaluator]
) -> dict[str, dict[str, T]]:
    """
    Return the values for each evaluator's parameters: `NAME.parameter` for one, `parameter` for all that have it, or
    take the role of this name.

    Raises:
        InputError: For a parameter that none has.
    """
    names = list(names)
    found: dict[str, dict[str, T]] = {name: {} for name in names}
    for key, value in values.items():
        used = False
        for name in names:
            parameter = own(names, name, key)
            if parameter is not None and (parameter != key or has(evaluators[name], parameter)):
                found[name][parameter] = value
                used = True
        if not used:
            raise InputError(
                f"none of {list_names(names)} has a parameter `{printable(key, 60)}`, or one that takes it as "
                "its role; `NAME.parameter` is one evaluator's"
            )
    return found


def has(evaluator: Evaluator, parameter: str) -> bool:
    """Say whether a parameter of this name, or one that takes the role of this name, may be mapped."""
    return (
        (evaluator.accepts_any and drop_reason(evaluator, parameter) is None)
        or any(one.name == parameter for one in evaluator.parameters)
        or takes(evaluator, parameter)
    )


def make_above(files: Iterable[str]) -> None:
    """Make the folder that has the folders of all."""
    for path in files:
        above = os.path.dirname(path.rstrip("/"))
        if is_folder(path) and above and not os.path.lexists(above):
            try:
                os.makedirs(above)
            except OSError as e:
                raise OutputError(f"{printable(whole(above))} cannot be made ({e.strerror}); choose another") from None
