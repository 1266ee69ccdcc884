"""The Python API for several evaluators."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from runner.core.errors import FailedRowsError, InputError
from runner.core.settings import RunOptions
from runner.core.signature import with_settings
from runner.core.types import Evaluator, InputMapping
from runner.engine.arguments import make_request, scorer
from runner.engine.request import Path, Rows, Scorer
from runner.inputs.call import as_mapping, with_whole_call
from runner.runs.api.run import finish
from runner.runs.project.load import FILE, find_project
from runner.runs.project.parts import suites
from runner.runs.project.suite import Suite, SuitePart, baseline_of, folder_of, own, refuse_names, share_values
from runner.runs.report import Report
from runner.runs.store_references import find
from sandboxes.base import SandboxConfig

__all__ = ["evaluate_all", "evaluate_project"]


@with_settings("evaluate", RunOptions)
def evaluate_all(
    evaluators: Mapping[str, Scorer] | Sequence[Scorer],
    dataset: Path | Rows,
    *,
    output: Path | None = None,
    report: Path | Sequence[Path] = (),
    resume: bool = False,
    overwrite: bool = False,
    save: bool = False,
    progress: bool = True,
    **settings: Unpack[RunOptions],
) -> dict[str, Report]:
    """
    Score a dataset with several evaluators, one after another.

    In `mapping`, `require` and `gates` what begins with `NAME.` is for this evaluator alone, as in `contains.words` and
    `contains.mean>=0.8`. All else is for each of them, and a parameter for those that have it.

    Args:
        evaluators: They have the names that a mapping gives them, or their own.
        dataset: As in `evaluate`. Rows that can be read only once are kept in memory.
        output: A folder, which gets one for each evaluator. The `baseline` is such a folder too.
        report: One or several files, each of all evaluators.
        resume, overwrite, save, progress, **settings: As in `evaluate`.

    Returns:
        The report of each by its name.

    Raises:
        InputError: Two evaluators have one name. Else as in `evaluate`.
        UnsupportedConfigError, SandboxError: As in `evaluate`.

    Example:
        >>> from evalcell import evaluate_all
        >>> reports = evaluate_all(["exact-match", "levenshtein-distance"], [{"output": "4", "reference": "4"}])
        >>> sorted(reports)
        ['exact-match', 'levenshtein-distance']
    """
    call = {name: value for name, value in locals().items() if name != "settings"} | settings
    given = _named(evaluators, settings)
    read = {name: evaluator for name, (_, evaluator) in given.items()}
    whole, baseline = as_mapping(settings.pop("mapping", None)), settings.pop("baseline", None)
    require, gates = _texts(settings.pop("require", ())), _texts(settings.pop("gates", ()))
    paths, literals = share_values(read, whole.paths, read), share_values(read, whole.literals, read)
    source = list(dataset) if isinstance(dataset, Iterator) else dataset
    rows: Rows | None = None
    parts = []
    for name, (one, evaluator) in given.items():
        mine: RunOptions = {
            **settings,
            "mapping": InputMapping(paths=paths[name], literals=literals[name]),
            "require": [text for gate in require if (text := own(read, name, gate)) is not None],
            "gates": [text for gate in gates if (text := own(read, name, gate)) is not None],
            "baseline": None if baseline is None else baseline_of(os.fspath(baseline), name),
        }
        request, rows = make_request(one if isinstance(one, str | os.PathLike) else evaluator, source, **mine)
        folders = () if output is None else folder_of([os.path.join(os.fspath(output), "")], name)
        parts.append(SuitePart(name, request, evaluator, folders))
    suite = Suite(parts, _paths(report), resume=resume, overwrite=overwrite, save=save)
    with with_whole_call(evaluate_all, call):
        suite.check()
        return _finish(suite, rows, progress)


def evaluate_project(
    *names: str,
    config: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    trust_config: bool = False,
    progress: bool = True,
) -> dict[str, Report]:
    """
    Run what `evalcell.toml` says: all of it, or the runs of these names.

    Args:
        *names: The runs. None: all.
        config: The file, or a folder that has it. None: it is looked for from the working directory upwards.
        resume, overwrite: As in `evaluate`.
        trust_config: The file may send rows to a provider or a cluster, give scripts the network or weak isolation, and
            write outside its folder.
        progress: As in `evaluate`.

    Returns:
        The report of each run by its name; a run with several evaluators has one for each, called `run.evaluator`.

    Raises:
        InputError: The file is not there or cannot be used. Else as in `evaluate`.
        UnsupportedConfigError, SandboxError: As in `evaluate`.
    """
    found = find_project(config)
    if found is None:
        raise InputError(f"there is no {FILE} here or above; name it as `config`")
    reports: dict[str, Report] = {}
    for suite in suites(found, names, resume=resume, overwrite=overwrite, trust=trust_config):
        reports |= _finish(suite, None, progress)
    return reports


def _finish(suite: Suite, rows: Rows | None, progress: bool) -> dict[str, Report]:
    """Finish all runs; raise FailedRowsError of the first that was stopped, after the others, with all reports."""
    reports: dict[str, Report] = {}
    stopped: FailedRowsError | None = None
    for name, run in suite.runs.items():
        with run.open(rows):
            try:
                reports[name] = finish(run, progress)
            except FailedRowsError as error:
                stopped, reports[name] = stopped or error, error.report
    suite.report(
        [replace(run.content(run.state or "finished", run.error), name=name) for name, run in suite.runs.items()]
    )
    if stopped is not None:
        stopped.reports = reports
        raise stopped
    return reports


def _texts(given: str | Sequence[str]) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given


def _paths(given: Path | Sequence[Path]) -> list[str]:
    return [os.fspath(path) for path in ([given] if isinstance(given, str | os.PathLike) else given)]


def _named(
    evaluators: Mapping[str, Scorer] | Sequence[Scorer], more: RunOptions
) -> dict[str, tuple[Scorer, Evaluator]]:
    """By its name, what the caller gave, and the evaluator."""
    if isinstance(evaluators, Mapping):
        found = [(name, one, _read(one, more).model_copy(update={"name": name})) for name, one in evaluators.items()]
    else:
        found = [(evaluator.name, one, evaluator) for one in evaluators for evaluator in [_read(one, more)]]
    refuse_names([name for name, _, _ in found])
    return {name: (one, evaluator) for name, one, evaluator in found}


def _read(given: Scorer, more: RunOptions) -> Evaluator:
    wanted = more.get("sandbox")
    read = scorer(given, wanted if isinstance(wanted, SandboxConfig) else SandboxConfig())
    if isinstance(read, Evaluator):
        return read
    failures = more.get("dialect_failures", "failed")
    return find(read, more.get("language"), dialect=more.get("dialect"), entry=more.get("entry"), failures=failures)
