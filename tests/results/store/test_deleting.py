"""What is deleted from the store frees the disk, and nothing goes that is needed."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest

from runner.results.store.errors import InUseError
from runner.results.store.store import Store
from tests.results.store.making import ROWS, evaluator, files, new_run, result, segment


def test_a_dataset_leaves_the_disk_with_its_last_name(store: Store, folder: Path) -> None:
    for name in ("a", "b"):
        store.add_dataset(io.BytesIO(ROWS), name=name, suffix=".jsonl")
    assert store.delete_dataset("a") == 0
    assert store.delete_dataset("b") == len(ROWS)
    assert files(folder) == []


def test_deleting_a_run_frees_the_disk_but_for_what_another_has(store: Store, folder: Path, tmp_path: Path) -> None:
    one, two = new_run(store, tmp_path), new_run(store, tmp_path)
    before = files(folder)
    for run in (one, two):
        store.add_segment(run, segment(result(1, 0.5)))
    store.add_segment(one, segment(result(2, 0.5)))
    assert len(files(folder)) == len(before) + 2
    with pytest.raises(InUseError, match="is running"):
        store.delete_run(one)
    store.set_run(one, state="cancelled")
    freed = store.delete_run(one)
    assert freed > 0
    assert len(store.select(two).rows) == 1
    assert store.delete_run(two, force=True) > 0
    assert files(folder) == before
    assert store.usage().bytes == len(ROWS)


def test_what_runs_use_is_deleted_only_by_force(store: Store, folder: Path, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    store.add_segment(run, segment(result(1, 0.5)))
    for force in (False, True):
        for work in (store.delete_evaluator, store.delete_dataset):
            with pytest.raises(InUseError, match="cancel or delete"):
                work("polite" if work == store.delete_evaluator else "rows", force=force)
    store.set_run(run, state="finished")
    with pytest.raises(InUseError, match=run) as caught:
        store.delete_evaluator("polite")
    assert caught.value.runs == (run,)
    with pytest.raises(InUseError, match=run):
        store.delete_dataset("rows")
    store.delete_evaluator("polite", force=True)
    store.delete_dataset("rows", force=True)
    assert (store.evaluators().items, store.datasets().items) == ((), ())
    assert store.run(run).version == evaluator().version
    assert len(store.select(run).rows) == 1


def test_prune_deletes_what_is_over(store: Store, folder: Path, tmp_path: Path) -> None:
    ids = [new_run(store, tmp_path) for _ in range(5)]
    for number, run in enumerate(ids):
        store.add_segment(run, segment(result(1, number / 10)))
        if number:
            store.set_run(run, state="finished")
    assert store.prune().runs == ()
    assert store.prune(older_than=timedelta(days=1)).runs == ()
    assert store.prune(keep=3).runs == (ids[1],)
    assert store.prune(older_than=timedelta(0), keep=10).runs == tuple(ids[2:])
    assert [run.id for run in store.runs().items] == [ids[0]]
    store.set_run(ids[0], state="failed")
    assert store.prune(bytes=10**9).runs == ()
    pruned = store.prune(bytes=len(ROWS))
    assert pruned.runs == (ids[0],)
    assert pruned.bytes > 0
    assert len(files(folder)) == 1


def test_what_a_killed_process_left_is_pruned(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = store.add_dataset(io.BytesIO(ROWS), name="rows", suffix=".jsonl")
    stray = folder / "files" / "ab" / f"{'ab' * 32}.segment.jsonl"
    stray.parent.mkdir()
    for path in (stray, folder / "files" / ".unfinished-x", folder / "files" / "notes.txt"):
        path.write_text("left")
    assert store.prune().bytes == 0
    monkeypatch.setattr("runner.results.store.files.ORPHAN_SECONDS", -1.0)
    assert store.prune().bytes == 4
    assert files(folder) == sorted([f"{info.digest}.jsonl", "notes.txt"])
