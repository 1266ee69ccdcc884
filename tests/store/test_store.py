"""What the store keeps, the same on each database."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.errors import InputError
from runner.results.summary import Summary
from runner.store import open_store
from runner.store.errors import (
    InUseError,
    NameTakenError,
    NotStoredError,
    SegmentError,
    StoreFullError,
    VersionConflictError,
)
from runner.store.store import Store
from runner.store.types import RunSpec, Selection
from runner.types import Result
from sandboxes.base import SandboxConfig
from tests.store.making import ROWS, evaluator, failed, new_run, result, segment


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").rglob("*") if path.is_file())


def test_a_changed_script_is_a_new_version_and_the_same_one_is_not(store: Store) -> None:
    first = store.add_evaluator(evaluator("return 1.0"))
    assert (first.reference, first.source) == ("polite@1", evaluator("return 1.0").source)
    assert store.add_evaluator(evaluator("return 1.0")) == first
    second = store.add_evaluator(evaluator("return 0.5"), expected=first.version)
    again = store.add_evaluator(evaluator("return 1.0"), name="polite")
    assert (second.number, again.number, again.version) == (2, 3, first.version)
    for reference, number in {
        "polite": 3,
        "polite@latest": 3,
        "polite@1": 1,
        f"polite@{second.version[:6]}": 2,
        f"polite@{first.version}": 3,
    }.items():
        assert store.evaluator(reference).number == number, reference
    assert store.evaluator("polite@2").evaluator() == evaluator("return 0.5")
    listed = store.versions("polite", count=2)
    assert [one.number for one in listed.items] == [3, 2]
    assert [one.number for one in store.versions("polite", after=listed.next).items] == [1]


def test_an_edit_of_a_version_that_is_no_longer_the_newest_is_a_conflict_with_both(store: Store) -> None:
    base = store.add_evaluator(evaluator("return 1.0"))
    theirs = store.add_evaluator(evaluator("return 0.5"), expected=base.version)
    with pytest.raises(VersionConflictError, match="saved meanwhile") as caught:
        store.add_evaluator(evaluator("return 0.25"), expected=base.version)
    assert (caught.value.theirs, caught.value.yours) == (theirs, evaluator("return 0.25"))
    assert store.evaluator("polite") == theirs


NO_NAMES = ("../x", "", "A", "a b", "a@1", ".a", "a/b", "a\0", "é", "a" * 65, "-", "a\n", "a\ud800")


def test_a_name_is_never_a_path(store: Store, folder: Path) -> None:
    for name in NO_NAMES:
        for work in (
            partial(store.add_evaluator, evaluator(), name=name),
            partial(store.add_dataset, io.BytesIO(ROWS), name=name, suffix=".jsonl"),
            partial(store.set_preset, name, SandboxConfig()),
            partial(store.versions, name),
            *(partial(each, name) for each in (store.dataset, store.preset, store.run, store.spec, store.evaluator)),
            *(partial(each, name) for each in (store.delete_run, store.delete_dataset, store.delete_preset)),
        ):
            with pytest.raises(InputError):
                work()
    assert files(folder) == []


def test_any_name_of_a_script_becomes_one(store: Store) -> None:
    assert store.add_evaluator(evaluator(name="My Script (2)")).name == "my-script-2"
    assert store.add_evaluator(evaluator(name="日本")).name == "unnamed"


def test_lists_go_on_after_their_cursor(store: Store) -> None:
    for number in range(5):
        store.add_evaluator(evaluator(name=f"e{number}"))
        store.set_preset(f"p{number}", SandboxConfig(backend="wasm"))
        store.add_dataset(io.BytesIO(ROWS), name=f"d{number}", suffix=".jsonl", rows=2, columns=["output"])
        store.create_run(RunSpec(evaluator="e0", dataset="d0", title=str(number)))
    lists: tuple[Callable[..., Any], ...] = (store.evaluators, store.presets, store.datasets)
    for each in lists:
        first = each(count=3)
        rest = each(after=first.next, count=3)
        assert [one.name[1:] for one in (*first.items, *rest.items)] == list("01234")
        assert rest.next is None
    newest = store.runs(count=2)
    assert [run.title for run in newest.items] == ["4", "3"]
    assert [run.title for run in store.runs(after=newest.next).items] == ["2", "1", "0"]
    for count in (0, -1, 10**9):
        with pytest.raises(InputError, match="count"):
            store.runs(count=count)
    for after in ("x" * 1000, "\n"):
        with pytest.raises(InputError, match="after"):
            store.evaluators(after=after)


def test_a_dataset_is_a_file_by_its_content(store: Store, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"output\na\n")
    info = store.add_dataset(path, name="rows", suffix=".csv", rows=1, columns=("output",))
    assert store.dataset("rows") == info == store.dataset(info.digest)
    kept = store.dataset_path(info)
    assert (kept.suffix, kept.read_bytes(), kept.stat().st_mode & 0o077) == (".csv", b"output\na\n", 0)
    assert store.add_dataset(path, name="rows", suffix=".csv") == info
    path.write_bytes(b"output\nb\n")
    with pytest.raises(NameTakenError, match="another content \\(1 row\\)"):
        store.add_dataset(path, name="rows", suffix=".csv")
    assert store.add_dataset(path, name="rows", suffix=".csv", another=True).name == "rows-2"
    assert len(files(folder)) == 2
    kept.unlink()
    with pytest.raises(NotStoredError, match="gone"):
        store.dataset_path(info)
    path.write_bytes(b"output\na\n")
    store.add_dataset(path, name="rows", suffix=".csv")
    assert store.dataset_path(info) == kept
    with pytest.raises(InputError, match=r"leave \.csv out"):
        store.add_dataset(path, name="rows.csv", suffix=".csv")


def test_a_dataset_leaves_the_disk_with_its_last_name(store: Store, folder: Path) -> None:
    for name in ("a", "b"):
        store.add_dataset(io.BytesIO(ROWS), name=name, suffix=".jsonl")
    assert store.delete_dataset("a") == 0
    assert store.delete_dataset("b") == len(ROWS)
    assert files(folder) == []


def test_a_run_is_pinned(store: Store, tmp_path: Path) -> None:
    first = store.add_evaluator(evaluator("return 1.0"))
    data = store.add_dataset(io.BytesIO(ROWS), name="rows", suffix=".jsonl")
    store.set_preset("strict", SandboxConfig(isolation="call"))
    run = store.create_run(RunSpec(evaluator="polite", dataset="rows", sandbox="strict"))
    store.add_evaluator(evaluator("return 0.5"))
    store.set_preset("strict", SandboxConfig(network=True))
    assert (run.number, run.version, run.digest, run.state) == (1, first.version, data.digest, "queued")
    spec = store.spec(run.id)
    assert (spec.evaluator, spec.dataset, spec.sandbox) == ("polite@1", "rows", SandboxConfig(isolation="call"))
    assert isinstance(spec.sandbox, SandboxConfig)
    assert spec.sandbox.model_fields_set == {"isolation"}
    store.set_run(run.id, state="running", lock="sample==1 --hash=sha256:0")
    store.set_run(run.id, state="parked", lock=None)
    kept = store.spec(run.id).sandbox
    assert kept == SandboxConfig(isolation="call", lock="sample==1 --hash=sha256:0")
    assert isinstance(kept, SandboxConfig)
    assert "backend" not in kept.model_fields_set
    assert store.set_run(run.id, error="t\0\ud800").error == "t\ufffd\ufffd"
    for bad in ("polite@9", "polit", "x y"):
        with pytest.raises(InputError):
            store.create_run(RunSpec(evaluator=bad, dataset="rows"))
    with pytest.raises(NotStoredError, match="did you mean `rows`"):
        store.create_run(RunSpec(evaluator="polite", dataset="row"))


def test_a_run_goes_from_state_to_state(store: Store, tmp_path: Path) -> None:
    store.add_dataset(io.BytesIO(ROWS), name="r", suffix=".jsonl")
    run = store.create_run(RunSpec(evaluator=store.add_evaluator(evaluator()).reference, dataset="r"))
    assert (run.started, run.ended) == (None, None)
    going = store.set_run(run.id, state="running", total=2, sandbox="wasm/python", why="as asked")
    assert going.started is not None
    assert (going.total, going.sandbox, going.why) == (2, "wasm/python", "as asked")
    parked = store.set_run(run.id, state="parked")
    assert store.set_run(run.id, state="running").started == parked.started == going.started
    done = store.set_run(run.id, state="finished", summary=Summary(rows=2, scored=2, mean=0.5))
    assert done.ended is not None
    assert done.summary is not None
    assert done.summary.mean == 0.5
    assert store.runs(states=("finished",)).items == (done,)
    assert store.runs(states=("running",)).items == ()
    assert store.runs(evaluator="other").items == ()
    assert len(store.set_run(run.id, state="failed", error="x" * 10_000).error or "") == 4000


def test_scores_whose_sum_is_beyond_a_float_are_kept(store: Store, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    store.add_segment(run, segment(result(1, 1.7e308), result(2, 0.0)))
    assert store.run(run).mean == 1.7e308 / 2
    store.add_segment(run, segment(result(3, 1.7e308)))
    store.add_segment(run, segment(result(4, -1.7e308), result(5, -1.7e308), result(6, -1.7e308)))
    info = store.run(run)
    assert (info.rows, info.counts, info.mean) == (6, {"scored": 6}, None)
    assert [row["score"] for row in store.select(run, Selection(order="best")).rows][:2] == [1.7e308, 1.7e308]


def test_segments_follow_each_other_and_no_row_is_there_twice(store: Store, tmp_path: Path) -> None:
    run = new_run(store, tmp_path)
    assert store.add_segment(run, segment(result(1, 0.5), failed(2))) == 2
    assert store.add_segment(run, segment(result(3, 1.0), result(4, outcome="abstained", explanation="no"))) == 4
    for first in (1, 3, 4, 6):
        with pytest.raises(SegmentError, match="not the next"):
            store.add_segment(run, segment(result(first, 0.0)))
    info = store.run(run)
    assert (info.rows, info.counts, info.mean) == (4, {"scored": 2, "failed": 1, "abstained": 1}, 0.75)
    found = store.segments(run)
    assert [(one.first, one.rows) for one in found] == [(1, 2), (3, 2)]
    assert info.bytes == sum(one.path.stat().st_size for one in found)
    assert b"".join(one.path.read_bytes() for one in found).count(b"\n") == 4
    assert [one.first for one in store.segments(run, after_row=2)] == [3]
    assert [one.first for one in store.segments(run, after_row=1)] == [1, 3]
    assert store.segments(run, after_row=4) == []
    assert store.select(run).rows[1] == {
        **{"number": 2, "id": "row-2", "evaluator": "polite", "version": "0" * 12, "sandbox": "wasm", "given": None},
        **{"outcome": "failed", "label": None, "score": None, "explanation": None},
        **{"error": {"kind": "raised", "message": "it broke"}, "stdout": "", "duration_ms": 0.0},
    }


def some_result(number: int, dice: random.Random) -> Result:
    match dice.randrange(6):
        case 0:
            return failed(number, dice.choice(["raised", "timeout", "lost"]), "Äpfel und Birnen")
        case 1:
            return result(number, outcome="abstained", label=dice.choice(["a", "b"]))
        case 2:
            return result(number, label="x" * 150 + dice.choice(["", "y"]))
        case _:
            score = dice.choice([0.0, 0.25, 1.0, dice.random()])
            return result(number, score, label=dice.choice([None, "a", "b"]), row={"output": f"pear {number}"})


@pytest.mark.parametrize("direction", ["maximize", "minimize", "none"])
def test_selection_is_what_sorting_all_rows_would_give(
    store: Store, address: str | None, tmp_path: Path, direction: str
) -> None:
    if address is not None and direction != "maximize":
        pytest.skip("the databases differ in nothing that a direction changes")
    dice = random.Random(direction)
    run = new_run(store, tmp_path, direction=direction)
    results = [some_result(number, dice) for number in range(1, 151)]
    at = 0
    while at < len(results):
        some = results[at : at + dice.randrange(1, 40)]
        store.add_segment(run, segment(*some))
        at += len(some)

    def rank(one: Result, order: str) -> tuple[float, float]:
        best = order == "best"
        if one.outcome in ("failed", "lost"):
            return (4 if best else 0), 0
        if one.outcome == "abstained":
            return (3 if best else 1), 0
        if one.score is None:
            return (2 if best else 3), 0
        up = {"maximize": 1, "minimize": -1, "none": 0}[direction] * (-1 if best else 1)
        return (1 if best else 2), up * one.score

    filters: list[tuple[dict[str, Any], Callable[[Result], bool]]] = [
        ({}, lambda one: True),
        ({"outcome": "failed"}, lambda one: one.outcome == "failed"),
        ({"label": "a"}, lambda one: one.label == "a"),
        ({"label": "x" * 99 + "…"}, lambda one: (one.label or "").startswith("xxx")),
        ({"error": "timeout"}, lambda one: one.error is not None and one.error.kind == "timeout"),
        ({"low": 0.25, "high": 0.75}, lambda one: one.score is not None and 0.25 <= one.score <= 0.75),
        ({"search": "ÄPFEL"}, lambda one: one.error is not None),
        ({"search": "pear 1", "label": "b"}, lambda one: one.label == "b" and "pear 1" in one.row.get("output", "")),
        ({"search": "no such text"}, lambda one: False),
        ({"search": "outcome"}, lambda one: False),
    ]
    for order in ("row", "worst", "best"):
        for given, holds in filters:
            expected = [one for one in results if holds(one)]
            if order != "row":
                expected.sort(key=lambda one: (*rank(one, order), one.number))
            for first, count in ((0, 7), (5, 50), (len(expected), 5), (0, 0)):
                found = store.select(run, Selection(order=order, first=first, count=count, **given))
                assert found.total == len(expected), (order, given)
                numbers = [row["number"] for row in found.rows]
                assert numbers == [one.number for one in expected[first : first + count]], (order, given, first)
                assert [row["id"] for row in found.rows] == [f"row-{number}" for number in numbers]


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
    monkeypatch.setattr("runner.store.files.LEFT", -1.0)
    assert store.prune().bytes == 4
    assert files(folder) == sorted([f"{info.digest}.jsonl", "notes.txt"])


def test_limits_are_kept(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(store, tmp_path)
    text = "x" * 700_000
    monkeypatch.setenv("EVALCELL_STORE_RUN_MB", "1")
    store.add_segment(run, segment(result(1, 0.5, stdout=text)))
    with pytest.raises(StoreFullError, match="EVALCELL_STORE_RUN_MB"):
        store.add_segment(run, segment(result(2, 0.5, stdout=text)))
    monkeypatch.setenv("EVALCELL_STORE_MB", "1")
    with pytest.raises(StoreFullError, match="prune"):
        store.add_segment(new_run(store, tmp_path), segment(result(1, 0.5, stdout=text)))
    with pytest.raises(StoreFullError, match="EVALCELL_STORE_MB"):
        store.add_dataset(io.BytesIO(text.encode()), name="large", suffix=".jsonl")
    assert store.run(run).rows == 1


def test_a_reply_is_remembered_once(store: Store) -> None:
    assert store.recalled("k") is None
    first = store.remember("k", "digest", "reply \0 \ud800")
    assert store.remember("k", "other", "later").digest == first.digest == "digest"
    found = store.recalled("k")
    assert found is not None
    assert found.reply == "reply \ufffd \ufffd"
    for key in ("", "x" * 256, "a\n", "é"):
        with pytest.raises(InputError, match="Idempotency-Key"):
            store.remember(key, "", "")


def test_writers_at_once_lose_nothing(store: Store, address: str | None, folder: Path, tmp_path: Path) -> None:
    """Threads of one store and of another one, as of a server and a command beside it."""
    runs = [new_run(store, tmp_path) for _ in range(4)]
    failures: list[BaseException] = []

    def work(of: Store, run: str, name: int) -> None:
        try:
            for number in range(1, 9):
                of.add_segment(run, segment(result(number, number / 10)))
                of.add_evaluator(evaluator(f"return {name}.{number}"), name="shared")
        except BaseException as error:
            failures.append(error)

    with open_store(address, folder) as other:
        stores = (store, other, store, other)
        threads = [
            threading.Thread(target=work, args=(of, run, name))
            for name, (of, run) in enumerate(zip(stores, runs, strict=True))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    for run in runs:
        assert [row["id"] for row in store.select(run).rows] == [f"row-{number}" for number in range(1, 9)]
    numbers = [one.number for one in store.versions("shared", count=100).items]
    assert numbers == [*range(32, 16, -1)]
    assert len({store.evaluator(f"shared@{number}").version for number in range(1, 33)}) == 32


def test_as_many_threads_as_a_server_has_read_at_once(store: Store) -> None:
    inside = threading.Barrier(41, timeout=60)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with store._database.read() as connection:
                connection.exec_driver_sql("SELECT 1")
                inside.wait()  # all of them have a connection
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(40)]
    for thread in threads:
        thread.start()
    inside.wait()
    store.add_evaluator(evaluator())
    for thread in threads:
        thread.join()
    assert failures == []
