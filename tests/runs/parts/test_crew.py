"""Workers that share tasks: one that is lost, one that never starts, an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runner.core.errors import DatasetError
from runner.runs.parts import scheduler
from runner.runs.parts.scheduler import share as share_tasks
from runner.runs.parts.types import Count, LookTask, PartLostError


class Worker:
    """Loses the tasks of these paths, so often."""

    there = True

    def __init__(self, lost: dict[str, int], *, starts: bool = True) -> None:
        self.name = "worker"
        self.lost = lost
        self.starts = starts
        self.done: list[str] = []

    async def start(self) -> None:
        await asyncio.sleep(0)
        if not self.starts:
            raise PartLostError("it does not start")

    async def do(self, task: Any, progress: Any) -> Count:
        await asyncio.sleep(0)
        if task.path == "bad":
            raise DatasetError("bad is bad")
        if self.lost.get(task.path, 0):
            self.lost[task.path] -= 1
            raise PartLostError(f"{task.path} was lost")
        self.done.append(task.path)
        return Count(rows=1)

    async def close(self) -> None:
        pass


def share(workers: list[Worker], paths: list[str]) -> dict[int, Any]:
    replies: dict[int, Any] = {}
    asyncio.run(share_tasks(workers, [LookTask(path, None) for path in paths], replies.__setitem__))
    return replies


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_PAUSE", 0)


def test_each_task_is_done_once_whoever_is_lost() -> None:
    lost = {"b": 2, "c": 1}
    workers = [Worker(lost), Worker(lost), Worker({}, starts=False)]
    assert share(workers, ["a", "b", "c", "d"]).keys() == {0, 1, 2, 3}
    assert sorted(path for worker in workers for path in worker.done) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([Worker({"b": 3})], "b was lost"),
        ([Worker({}, starts=False), Worker({}, starts=False)], "it does not start"),
    ],
)
def test_what_is_lost_too_often_ends_the_run(workers: list[Worker], said: str) -> None:
    with pytest.raises(PartLostError, match=said):
        share(workers, ["a", "b"])


def test_an_error_of_a_task_is_the_errors_own() -> None:
    with pytest.raises(DatasetError, match="bad is bad"):
        share([Worker({}), Worker({})], ["a", "bad", "c"])
