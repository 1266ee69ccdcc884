"""Runs that a command does beside the server: shown, and left to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.results.store import open_store
from runner.results.store.types import RunSpec
from runner.runs.pool.pool import WorkerPool
from runner.server.service.errors import ServiceError
from runner.server.service.service import Service
from tests.results.store.making import new_run, result, segment


async def test_they_are_left_to_their_command_and_end_with_it(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.sqlite'}", tmp_path) as store:
        new_run(store, tmp_path)
        spec = RunSpec(evaluator="polite", dataset="rows")
        id, other = (store.create_run(spec, state="running", owner="cli").id for _ in range(2))
        store.add_segment(id, segment(result(1, 0.5)))
        held = [store.hold(id), store.hold(other)]

        service = Service(store, WorkerPool())
        for work in (service.cancel(id), service.resume(id), service.delete_run(id, force=True)):
            with pytest.raises(ServiceError) as caught:
                await work
            assert caught.value.kind == "run-state"
        assert (await service.run(id)).state == "running"
        held[0].release()  # as the system does it when the command is killed
        assert (await service.run(id)).state == "failed"
        held[1].release()
        listed = {one.id: one.state for one in (await service.runs()).items}
        assert (listed[id], listed[other]) == ("failed", "failed")
        with pytest.raises(ServiceError, match="run it again"):
            await service.resume(id)
        assert await service.delete_run(id) > 0
