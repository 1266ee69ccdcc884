"""A run is of the script and the dataset that it began with, whatever takes their names later."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
from sqlalchemy import update

from runner.core.errors import InputError
from runner.results.store.errors import InUseError, NotStoredError
from runner.results.store.schema import datasets
from runner.results.store.store import Store
from runner.results.store.types import RunSpec
from tests.results.store.making import ROWS, evaluator, new_run

DIGEST = hashlib.sha256(ROWS).hexdigest()


def test_no_name_is_a_digest_and_none_shadows_another_dataset(store: Store) -> None:
    store.add_dataset(io.BytesIO(ROWS), name="demo", suffix=".jsonl")
    with pytest.raises(InputError, match="is no digest"):
        store.add_dataset(io.BytesIO(b"{}\n"), name=DIGEST, suffix=".jsonl")
    # One that an earlier evalcell took.
    store.add_dataset(io.BytesIO(b"{}\n"), name="other", suffix=".jsonl")
    with store._database.write() as connection:
        connection.execute(update(datasets).where(datasets.c.name == "other").values(name=DIGEST))
    assert store.dataset(DIGEST).name == "demo"
    run = store.create_run(RunSpec(evaluator=store.add_evaluator(evaluator()).reference, dataset="demo"))
    assert store.dataset_of(run.id).digest == DIGEST


def test_a_run_keeps_its_dataset_where_another_has_the_same_content(store: Store) -> None:
    for name, suffix in (("a", ".csv"), ("b", ".jsonl")):
        store.add_dataset(io.BytesIO(ROWS), name=name, suffix=suffix)
    run = store.create_run(RunSpec(evaluator=store.add_evaluator(evaluator()).reference, dataset="b"))
    assert store.dataset_of(run.id).suffix == ".jsonl"
    with pytest.raises(InUseError):
        store.delete_dataset("b", force=True)
    store.delete_dataset("a")
    assert store.dataset_of(run.id).suffix == ".jsonl"


def test_a_deleted_evaluator_that_comes_back_is_not_the_one_of_earlier_runs(store: Store, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    assert store.script(run).reference == "polite@1"
    store.set_run(run, state="failed")
    store.delete_evaluator("polite", force=True)
    with pytest.raises(NotStoredError):
        store.script(run)
    again = store.add_evaluator(evaluator("return 0.5"))
    assert again.reference == "polite@2"
    assert store.evaluators().items[0].number == 2
    with pytest.raises(NotStoredError, match="no version 1"):
        store.script(run)
    store.delete_run(run)
    store.delete_evaluator("polite")
    assert store.add_evaluator(evaluator()).number == 1


def test_a_version_whose_number_was_used_again_is_seen_by_its_hash(store: Store, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    with store._database.write() as connection:  # as an earlier evalcell did it
        connection.exec_driver_sql("UPDATE versions SET version = '0123456789ab'")
    with pytest.raises(NotStoredError, match="another script"):
        store.script(run)


def test_a_dataset_that_comes_back_with_other_rows_is_not_that_of_earlier_runs(store: Store, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    store.set_run(run, state="failed")
    store.delete_dataset("rows", force=True)
    store.add_dataset(io.BytesIO(b"{}\n"), name="rows", suffix=".jsonl")
    with pytest.raises(NotStoredError, match="another one"):
        store.dataset_of(run)
