"""Results whose file is gone or cut off: it is said before the first byte of a reply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.results.store import open_store
from runner.results.store.errors import StoreError
from runner.runs.pool.pool import WorkerPool
from runner.server.service.errors import translate_error
from runner.server.service.service import Service
from tests.results.store.making import new_run, result, segment


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
async def test_a_lost_file_of_results_is_told(tmp_path: Path, lose: Callable[[Path], object]) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.sqlite'}", tmp_path) as store:
        id, other = new_run(store, tmp_path), new_run(store, tmp_path)
        store.add_segment(id, segment(result(1, 0.5)))
        store.add_segment(other, segment(result(1, 1.0)))
        for one in (id, other):
            store.set_run(one, state="finished")
        lose(store.segments(id)[0].path)

        service = Service(store, WorkerPool())
        for work in (
            service.download(id, "jsonl"),
            service.download(id, "csv"),
            service.compare(id, other),
            service.compare(other, id),
        ):
            with pytest.raises(StoreError, match="delete the run") as caught:
                await work
            problem = translate_error(caught.value)
            assert problem is not None
            assert (problem.kind, problem.status, problem.retryable) == ("store-damaged", 500, False)
