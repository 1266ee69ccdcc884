"""What a caller names of the store: `polite@3` for an evaluator, `store:rows` for a dataset, a run by its id."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from runner.core.errors import EvaluatorError, InputError, ListsError, NoEntryError
from runner.core.types import Evaluator
from runner.engine.request import PreparedRun, RunRequest
from runner.engine.request import prepare as prepare_request
from runner.inputs.datasets.row_columns import ALL, RowColumns
from runner.inputs.evaluators.load import HowRead
from runner.inputs.evaluators.resolve import STORE_PREFIX, find_evaluator, is_reference
from runner.results.store.errors import NotStoredError, StoreError
from runner.results.store.names import is_run
from sandboxes.base import Language
from sandboxes.words.wording import Message, Setting

if TYPE_CHECKING:
    from runner.results.compare.files import Source
    from runner.results.store.store import Store
    from runner.results.store.types import RunInfo


def find(name: str | os.PathLike[str], language: Language | None = None, **how: Unpack[HowRead]) -> Evaluator:
    """
    Return an evaluator from the store, if its name is a version there, else as `find_evaluator`.

    Raises:
        EvaluatorError: It is not an evaluator.
        NotStoredError: There is none in the store.
        StoreError: The store cannot be used.
    """
    if not isinstance(name, str) or not is_reference(name):
        return find_evaluator(name, language, **how)
    from runner.results.store import open_store  # here: most runs keep nothing

    with open_store() as store:
        found = store.evaluator(name).evaluator(**how)
    if language not in (None, found.language):
        raise EvaluatorError(Message(f"{name} is written in {found.language}; leave ", Setting("language"), " out"))
    return found


def prepare(
    request: RunRequest,
    *,
    evaluator: Evaluator | None = None,
    worked: bool = False,
    lock: str = "the lock",
    save: bool = False,
    stored: str | None = None,
) -> PreparedRun:
    """
    Prepare a request, also one that names an evaluator or a dataset of the store; `stored` is the file of that one,
    where it was looked up before.

    With `save` its results carry the columns that the evaluator is given, unless the request says which. Raises
    NotStoredError and StoreError as well.
    """
    if evaluator is None and isinstance(request.evaluator, str):
        try:
            evaluator = find(request.evaluator, request.language, **request.how_read)
        except (ListsError, NoEntryError) as error:
            if request.dataset is None or request.dataset in ("-", "demo"):
                raise
            from runner.inputs.datasets.shapes import by_columns  # here: most scripts define `evaluate`

            raise by_columns(error, request.dataset) from None
    path, rows = stored, None
    if stored is None and request.dataset is not None and request.dataset.startswith(STORE_PREFIX):
        from runner.results.store import open_store  # here: most runs keep nothing

        with open_store() as store:
            info = store.dataset(request.dataset.removeprefix(STORE_PREFIX))
            path, rows = str(store.dataset_path(info)), info.rows
    prepared = prepare_request(request, evaluator=evaluator, worked=worked, lock=lock, stored=path)
    prepared = replace(prepared, rows=rows)
    return _keeping(prepared) if save and not request.keep else prepared


def _keeping(prepared: PreparedRun) -> PreparedRun:
    """The same with the columns kept that the evaluator is given."""
    columns = None if prepared.binding is None else prepared.binding.columns
    by = prepared.request.by
    names = (ALL,) if columns is None else tuple(sorted(columns - {"id"} | ({by} if by else set())))
    if not names:
        return prepared
    request = prepared.request.model_copy(update={"keep": names})
    return replace(prepared, request=request, keep=RowColumns(names, asked=False))


@contextmanager
def resolve_runs(base: str, new: str) -> Iterator[tuple[Source, Source]]:
    """
    Open two runs to compare: those of the store by their ids or as `latest`, any other by its path.

    Raises:
        NotComparableError: The runs cannot be compared.
        NotStoredError: There is none in the store.
        StoreError: The store cannot be used.
    """
    with one_finished(base) as one, one_finished(new) as other:
        yield one, other


def is_stored(name: str) -> bool:
    """Say whether a run is one of the store: by its id, or as `latest`, unless a file has this name."""
    return (name == "latest" or is_run(name)) and not os.path.lexists(name)


@contextmanager
def one_finished(name: str) -> Iterator[Source]:
    """Open one run that has ended."""
    from runner.results.compare.files import find_source  # here: most runs are compared with none

    if not is_stored(name):
        yield find_source(name)
        return
    from runner.results.store import open_store  # here: most comparisons are of files

    with open_store() as store, source_of(store, found_run(store, name)) as source:
        yield source


def found_run(store: Store, id: str) -> RunInfo:
    """Return a run by its id, or the `latest`. Raises InputError."""
    if id != "latest":
        return store.run(id)
    newest = store.runs(count=1).items
    if not newest:
        raise InputError("the store has no run yet; `evalcell run … --save` keeps one")
    return newest[0]


@contextmanager
def source_of(store: Store, run: RunInfo, beside: Path | None = None) -> Iterator[Source]:
    """
    Open the results of a run of the store as one file, with what its manifest would say.

    `beside` is the folder that the file is made in; None: the system's for such.

    Raises:
        StoreError: The store cannot be used.
    """
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from runner.results.compare.files import Source

    summary = run.summary.model_dump(mode="json") if run.summary is not None else {}
    manifest = {
        "state": "unfinished" if run.state != "finished" else "stopped" if run.stopped else "finished",
        "evaluator": {"outputs": _outputs(store, run)},
        "summary": summary,
    }
    with TemporaryDirectory(prefix="evalcell-compare-", dir=beside) as folder:
        path = Path(folder) / "results.jsonl"
        try:
            with path.open("wb") as file:
                for segment in store.segments(run.id):
                    with segment.path.open("rb") as part:
                        copyfileobj(part, file)
            (Path(folder) / "manifest.json").write_text(json.dumps(manifest), "utf-8")
        except OSError as error:
            raise StoreError(
                f"the results of the run {run.id} cannot be copied ({error.strerror}); make room"
            ) from None
        yield Source(run.title or run.id, path, manifest, None)


def _outputs(store: Store, run: RunInfo) -> dict[str, object]:
    """What the evaluator's scores are judged by; nothing of one that was deleted by force."""
    try:
        configs = store.script(run.id).evaluator().configs
    except NotStoredError:
        return {}
    return {name: config.model_dump(mode="json") for name, config in configs.items()}
