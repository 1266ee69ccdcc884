"""The runs of a project as requests."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from runner.core.errors import ColumnsError, InputError, OverwriteError
from runner.core.text import describe, list_names, printable, suggestion
from runner.core.types import Evaluator, InputMapping
from runner.inputs.evaluators.load import HowRead
from runner.inputs.evaluators.resolve import STORE_PREFIX, is_path
from runner.inputs.evaluators.roles import ROLES, in_words, takes
from runner.runs.early_stop import share_risk
from runner.runs.flat import LANGUAGES, flat_request
from runner.runs.project.effects import refuse_untrusted
from runner.runs.project.load import ProjectFile
from runner.runs.project.suite import Suite, SuitePart, baseline_of, check, folder_of, own, share_values
from runner.runs.project.types import Settings
from runner.runs.store_references import find

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def suites(
    file: ProjectFile,
    names: Sequence[str] = (),
    *,
    resume: bool = False,
    overwrite: bool = False,
    save: bool = False,
    trust: bool = False,
    verdict_only: bool = False,
) -> list[Suite]:
    """
    Return the runs of these names, or all; each is a suite, and all is found and checked.

    Without `trust`, a run by which anything leaves this machine, or is written outside the file's folder, is refused.
    Raises InputError for that and for a name that there is not, DatasetError, and what Suite does.
    """
    entries = file.project.entries()
    found = parts(file, names)
    if not trust:
        refuse_untrusted(file, found)
    _refuse_shared(file, found)
    made = {}
    for name, every in found.items():
        reports = [file.place(path) for path in entries[name].report]
        anew = overwrite or entries[name].overwrite
        try:
            made[name] = Suite(every, reports, resume=resume, overwrite=anew, save=save, verdict_only=verdict_only)
        except OverwriteError as error:
            raise OverwriteError(f"{error}; `overwrite = true` in {file.name} starts it anew each time") from None
    share_risk([run.watch for suite in made.values() for run in suite.runs.values()])
    for name, suite in made.items():
        for part, run in suite.runs.items():
            try:
                check(run)
            except ColumnsError as error:
                of = part[len(name) + 1 :]  # one of several evaluators
                raise InputError(
                    f"{_where(file, name)}: {error.why}\n{_step(file, entries[name], of, error)}"
                ) from None
    return list(made.values())


def _step(file: ProjectFile, entry: Settings, of: str, error: ColumnsError) -> str:
    """What to write into the file."""
    paths = {name: json.dumps(printable(path), ensure_ascii=False) for name, path in error.paths.items()}
    steps = []
    if entry.dataset in file.project.datasets:
        roles = {name: paths.pop(name) for name in [*paths] if name in ROLES}
        lines = ", and ".join(f"`{name} = {value}`" for name, value in roles.items())
        steps += [f"put {lines} into `[datasets.{_key(entry.dataset)}.columns]`"] if roles else []
    for table, there, values in (
        ("map", entry.map, paths),
        ("set", entry.set, dict.fromkeys(error.values, "VALUE")),
    ):
        keys = (f"{of}.{name}" if of and name not in ROLES else name for name in values)
        lines = ", ".join(f"{_key(key)} = {value}" for key, value in zip(keys, values.values(), strict=True))
        if lines:
            steps.append(f"put `{lines}` into `{table}`" if there else f"add `{table} = {{ {lines} }}`")
    how = f"with the right {' and '.join(error.blanks)}" if error.blanks else "if these columns are the right ones"
    return f"In {file.name}, {how}: {', and '.join(steps)}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(printable(name), ensure_ascii=False)


def _refuse_shared(file: ProjectFile, found: Mapping[str, Sequence[SuitePart]]) -> None:
    """Raise InputError if two runs write to one place: the second would overwrite the first."""
    entries, taken = file.project.entries(), dict[str, str]()
    for name, every in found.items():
        reports = [file.place(path) for path in entries[name].report]
        for path in [*(path for part in every for path in part.files), *reports]:
            other = taken.setdefault(os.path.realpath(path), name)
            if other != name:
                raise InputError(
                    f"{file.name}: the runs {printable(other, 60)} and {printable(name, 60)} both write "
                    f"{printable(path)}; give each a place of its own"
                )


def parts(file: ProjectFile, names: Sequence[str] = ()) -> dict[str, list[SuitePart]]:
    """
    Return, by the name of a run of the file, one part for each of its evaluators.

    Raises as `suites`; touches nothing.
    """
    entries = file.project.entries()
    for name in names:
        if name not in entries:
            hint = suggestion(name, entries)
            raise InputError(f"{file.name} has no run {printable(name, 60)!r}{hint}; it has {list_names(entries)}")
    return {name: _parts(file, name, entries[name]) for name in names or entries}


def _where(file: ProjectFile, name: str) -> str:
    return f"{file.name}, run {printable(name, 60)}"


def _parts(file: ProjectFile, name: str, entry: Settings) -> list[SuitePart]:
    where = _where(file, name)
    if entry.dataset is None:
        raise InputError(f'{where}: it has no dataset; add `dataset = "data.jsonl"`')
    near = suggestion(entry.dataset, file.project.datasets)
    if near and entry.dataset not in file.project.datasets and not os.path.exists(file.place(entry.dataset)):
        raise InputError(f"{where}: there is no dataset {describe(entry.dataset, 60)}{near}")
    given = _evaluators(entry)
    if not given:
        raise InputError(f'{where}: it has no evaluator; add `evaluator = "exact-match"`')
    found: dict[str, tuple[str, Evaluator]] = {}
    for key, spec in given:
        path = _script(file, spec)
        how = HowRead(dialect=entry.dialect, failures=entry.dialect_failures or "failed")
        evaluator = find(path, LANGUAGES.get(entry.lang or ""), **how)
        named = key or evaluator.name
        if named in found:
            raise InputError(f"{where}: two evaluators are called {named!r}; make `evaluators` a table of names")
        found[named] = path, evaluator.model_copy(update={"name": named})
    read = {key: evaluator for key, (_, evaluator) in found.items()}
    alone = entry.evaluator is not None
    paths, literals = (
        ({only: dict(values) for only in read} if alone else share_values(read, values, read))
        for values in (entry.map, entry.set)
    )
    columns = file.project.columns_of(entry.dataset)
    for key, mine in paths.items():
        called = {name: in_words(path, columns) for name, path in mine.items()}
        taken = {*called, *literals[key]}
        paths[key] = {role: c for role, c in columns.items() if role not in taken and takes(read[key], role)} | called
    output = tuple(file.place(path) for path in entry.output)
    lock = None if entry.lock is None else file.place(entry.lock)
    parts = []
    for key, (path, evaluator) in found.items():
        gates, require = (
            every if alone else tuple(text for gate in every if (text := own(read, key, gate)) is not None)
            for every in (entry.fail_if, entry.require)
        )
        baseline = entry.baseline if alone else baseline_of(entry.baseline, key)
        said = entry.own_settings() | {"require": require, "fail_if": gates}
        try:
            request = flat_request(
                said if baseline is None else said | {"baseline": baseline},
                evaluator=path,
                dataset=_dataset(file, file.project.path_of(entry.dataset)),
                mapping=InputMapping(paths=paths[key], literals=literals[key]),
                called=lambda name: f"`{name}`",
                place=file.place,
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        files = output if alone else folder_of(output, key)
        parts.append(SuitePart(name if alone else f"{name}.{key}", request, evaluator, files, lock))
    return parts


def _evaluators(entry: Settings) -> list[tuple[str | None, str]]:
    if entry.evaluator is not None:
        return [(None, entry.evaluator)]
    if isinstance(entry.evaluators, dict):
        return list(entry.evaluators.items())
    return [(None, one) for one in entry.evaluators or ()]


def _dataset(file: ProjectFile, dataset: str) -> str:
    return dataset if dataset in ("demo", "-") or dataset.startswith(STORE_PREFIX) else file.place(dataset)


def _script(file: ProjectFile, evaluator: str) -> str:
    """A script's path as seen from here; a template's name stays."""
    placed = file.place(evaluator)
    return placed if is_path(evaluator) or os.path.isfile(placed) else evaluator
