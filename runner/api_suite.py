"""The Python API for several evaluators."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.api import evaluate, finish
from runner.arguments import make_request, scorer
from runner.call import Columns, as_mapping
from runner.errors import InputError
from runner.evaluators.resolve import find_evaluator
from runner.project.load import FILE, find_project
from runner.project.parts import suites
from runner.report import Report
from runner.request import Path, Rows, Scorer, prepare
from runner.suite import baseline_of, make_above, own, refuse_names, shared
from runner.types import Evaluator, InputMapping
from sandboxes.base import SandboxConfig

__all__ = ["evaluate_all", "evaluate_project"]


def evaluate_all(
    evaluators: Mapping[str, Scorer] | Sequence[Scorer],
    dataset: Path | Rows,
    *,
    mapping: Columns | None = None,
    require: Sequence[str] = (),
    gates: Sequence[str] = (),
    output: Path | None = None,
    **more: Any,
) -> dict[str, Report]:
    """
    Score a dataset with several evaluators, one after another; return the report of each by its name.

    `evaluators` have the names that a mapping gives them, or their own. In `mapping`, `require` and `gates` what begins
    with `NAME.` is for this evaluator alone, as in `contains.words` and `contains.mean>=0.8`. All else is for each of
    them, and a parameter for those that have it. `output` is a folder, which gets one for each; `baseline` is one that
    has them. Rows that can be read only once are kept in memory. `more` are the other parameters of `evaluate`, but
    `report`. Raises what `evaluate` does, and InputError for two evaluators of one name.
    """
    given = {name: (one, _read(one, name, more)) for name, one in _named(evaluators, more)}
    read = {name: evaluator for name, (_, evaluator) in given.items()}
    whole = as_mapping(mapping)
    paths, literals = shared(read, whole.paths, read), shared(read, whole.literals, read)
    rows = list(dataset) if isinstance(dataset, Iterator) else dataset
    arguments: dict[str, dict[str, Any]] = {}
    for name, (one, evaluator) in given.items():
        mine: dict[str, Any] = {
            "evaluator": one if isinstance(one, str | os.PathLike) and _own_name(one, more) == name else evaluator,
            "mapping": InputMapping(paths=paths[name], literals=literals[name]),
            "require": [text for gate in require if (text := own(read, name, gate)) is not None],
            "gates": [text for gate in gates if (text := own(read, name, gate)) is not None],
        }
        if more.get("baseline") is not None:
            mine["baseline"] = baseline_of(os.fspath(more["baseline"]), name)
        wanted = {key: value for key, value in more.items() if key not in ("progress", "resume", "baseline")}
        prepare(make_request(dataset=rows, **mine, **wanted)[0])  # all of them are refused before one runs
        arguments[name] = mine
    folders = {} if output is None else {name: os.path.join(os.fspath(output), name, "") for name in arguments}
    make_above(folders.values())
    return {
        name: evaluate(dataset=rows, **{**more, **mine}, output=folders.get(name, ()))
        for name, mine in arguments.items()
    }


def evaluate_project(*names: str, config: Path | None = None, progress: bool = True) -> dict[str, Report]:
    """
    Run what `evalcell.toml` says: all of it, or the runs of these names; return the report of each by its name.

    `config` is the file, or a folder that has it; without it, it is looked for from the working directory upwards. A
    run with several evaluators has a report for each, called `run.evaluator`. Raises what `evaluate` does, and
    InputError for a file that is not there or cannot be used.
    """
    found = find_project(config)
    if found is None:
        raise InputError(f"there is no {FILE} here or above; name it as `config`")
    reports: dict[str, Report] = {}
    for suite in suites(found, names):
        for name, run in suite.runs.items():
            with run.open():
                reports[name] = finish(run, progress)
        suite.report([run.content() for run in suite.runs.values()])
    return reports


def _named(evaluators: Mapping[str, Scorer] | Sequence[Scorer], more: Mapping[str, Any]) -> list[tuple[str, Scorer]]:
    if isinstance(evaluators, Mapping):
        found = list(evaluators.items())
    else:
        found = [(_own_name(one, more), one) for one in evaluators]
    refuse_names([name for name, _ in found])
    return found


def _own_name(given: Scorer, more: Mapping[str, Any]) -> str:
    return _read(given, None, more).name


def _read(given: Scorer, name: str | None, more: Mapping[str, Any]) -> Evaluator:
    wanted = more.get("sandbox")
    read = scorer(given, wanted if isinstance(wanted, SandboxConfig) else SandboxConfig())
    found = read if isinstance(read, Evaluator) else find_evaluator(read, more.get("language"))
    return found if name is None else found.model_copy(update={"name": name})
