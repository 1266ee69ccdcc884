"""What a caller names of the store: `polite@3` for an evaluator, `store:rows` for a dataset."""

from __future__ import annotations

import os
from dataclasses import replace

from runner.datasets.row_columns import ALL, RowColumns
from runner.errors import EvaluatorError
from runner.evaluators.resolve import STORED, find_evaluator, is_reference
from runner.request import Prepared, RunRequest
from runner.request import prepare as prepare_request
from runner.types import Evaluator
from sandboxes.base import Language


def find(name: str | os.PathLike[str], language: Language | None = None) -> Evaluator:
    """
    An evaluator from the store, if its name is a version there, else as `find_evaluator`.

    Raises EvaluatorError, NotStoredError and StoreError.
    """
    if not isinstance(name, str) or not is_reference(name):
        return find_evaluator(name, language)
    from runner.store import open_store  # here: most runs keep nothing

    with open_store() as store:
        found = store.evaluator(name).evaluator()
    if language not in (None, found.language):
        raise EvaluatorError(f"{name} is written in {found.language}; leave the language out")
    return found


def prepare(
    request: RunRequest,
    *,
    evaluator: Evaluator | None = None,
    worked: bool = False,
    lock: str = "the lock",
    save: bool = False,
) -> Prepared:
    """
    As `prepare` of a request, also for one that names an evaluator or a dataset of the store.

    With `save` its results carry the columns that the evaluator is given, unless the request says which. Raises
    NotStoredError and StoreError as well.
    """
    if evaluator is None and isinstance(request.evaluator, str):
        evaluator = find(request.evaluator, request.language)
    path = None
    if request.dataset is not None and request.dataset.startswith(STORED):
        from runner.store import open_store  # here: most runs keep nothing

        with open_store() as store:
            path = str(store.dataset_path(store.dataset(request.dataset.removeprefix(STORED))))
    prepared = prepare_request(request, evaluator=evaluator, worked=worked, lock=lock, stored=path)
    return _keeping(prepared) if save and not request.keep else prepared


def _keeping(prepared: Prepared) -> Prepared:
    """The same with the columns kept that the evaluator is given."""
    columns = None if prepared.binding is None else prepared.binding.columns
    names = (ALL,) if columns is None else tuple(sorted(columns - {"id"}))
    if not names:
        return prepared
    request = prepared.request.model_copy(update={"keep": names})
    return replace(prepared, request=request, keep=RowColumns(names))
