"""
Kills a process that writes to a store at random moments, and looks at the store after each: FOLDER, KILLS, [URL].

The process saves versions, adds and deletes datasets, and adds segments to a run, as a server does. Prints the number
of results at the end, all of which were looked at.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from runner.results.store import open_store
from runner.results.store.store import Store
from runner.results.store.types import RunSpec, Selection
from tests.results.store.making import evaluator, result, segment

AT_ONCE = 40


def score(number: int) -> float:
    """The right score of a row."""
    return number % 997 / 997


def write(store: Store, run: str, dice: random.Random, told: int) -> None:
    """Go on with the run after its last row, until killed. Tells when it has added the first segment."""
    while True:
        first = store.run(run).rows + 1
        some = [result(n, score(n), row={"output": "x" * dice.randrange(200)}) for n in range(first, first + AT_ONCE)]
        store.add_segment(run, segment(*some))
        os.write(told, b"!")
        store.add_evaluator(evaluator(f"return {dice.random()}"), name="shared")
        name = f"d{dice.randrange(4)}"
        if any(one.name == name for one in store.datasets().items):
            store.delete_dataset(name)
        else:
            store.add_dataset(io.BytesIO(name.encode() * dice.randrange(1, 30_000)), name=name, suffix=".jsonl")


def look(store: Store, run: str) -> int:
    """The number of results; each is there once, with the right score, and all that is named is there."""
    rows = store.run(run).rows
    assert rows % AT_ONCE == 0
    found = 0
    for info in store.segments(run):
        assert hashlib.sha256(info.path.read_bytes()).hexdigest() == info.digest
        assert info.first == found + 1
        found += info.rows
    assert found == rows == sum(store.run(run).counts.values())
    seen = 0
    while some := store.select(run, Selection(first=seen, count=1000)).rows:
        for row in some:
            seen += 1
            assert (row["number"], row["id"], row["score"]) == (seen, f"row-{seen}", score(seen))
    assert seen == rows
    for dataset in store.datasets().items:
        data = store.dataset_path(dataset).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (dataset.bytes, dataset.digest)
    for shared in (one for one in store.evaluators().items if one.name == "shared"):
        assert len({store.evaluator(f"shared@{n}").version for n in range(1, shared.number + 1)}) == shared.number
    return rows


def main(folder: Path, kills: int, url: str | None) -> None:
    dice = random.Random()
    with open_store(url, folder) as store:
        store.add_evaluator(evaluator())
        store.add_dataset(io.BytesIO(b'{"output": "a"}\n'), name="rows", suffix=".jsonl")
        run = store.create_run(RunSpec(evaluator="polite", dataset="rows"), state="running").id
    rows = 0
    for _ in range(kills):
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with open_store(url, folder) as store:
                    write(store, run, random.Random(), told)
            finally:
                os._exit(1)
        os.close(told)
        select.select([ready], [], [], 60)
        time.sleep(dice.random() * 0.2)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        os.close(ready)
        with open_store(url, folder) as store:
            now = look(store, run)
        assert now >= rows
        rows = now
    with open_store(url, folder) as store:
        named = {one.path.name for one in store.segments(run)}
        named |= {store.dataset_path(one).name for one in store.datasets().items}
        import runner.results.store.files as files

        files.ORPHAN_SECONDS = -1.0
        store.prune()
        left = {path.name for path in (folder / "files").rglob("*") if path.is_file()}
        assert left == named, left ^ named
        store.set_run(run, state="finished")
        store.delete_run(run)
    print(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
