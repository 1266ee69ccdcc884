"""Rows are read in a thread, a little ahead; a short list without one."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from runner.datasets.dataset import open_dataset
from runner.datasets.disk import is_at_hand
from runner.engine.local import score
from runner.engine.prefetch import Direct, Prefetcher
from runner.types import Case, InputMapping
from tests.runner.scripted import SCRIPT, fake, rows

Read = Callable[[Iterable[int]], Direct[int] | Prefetcher[int]]
WAYS: tuple[Read, ...] = (Direct, lambda source: Prefetcher(source, 16))


def test_everything_arrives_in_order() -> None:
    async def all() -> list[int]:
        found: list[int] = []
        prefetcher = Prefetcher(range(10_000), 16)
        while items := await prefetcher.take(7):
            assert len(items) <= 7
            found += items
        await prefetcher.close()
        return found

    assert asyncio.run(all()) == list(range(10_000))


def test_what_is_there_is_given_before_what_is_not() -> None:
    go = threading.Event()

    def source() -> Iterator[int]:
        yield from range(3)
        go.wait(5)
        yield 3

    async def some() -> list[int]:
        found: list[int] = []
        prefetcher = Prefetcher(source(), 16)
        while len(found) < 3:
            found += await prefetcher.take(10)
        go.set()
        assert await prefetcher.take(10) == [3]
        assert await prefetcher.take(10) == []
        await prefetcher.close()
        return found

    assert asyncio.run(some()) == [0, 1, 2]


def test_it_reads_ahead_a_little_and_less_of_what_is_large() -> None:
    def large() -> Iterator[int]:
        for n in count():
            began = time.thread_time()
            while time.thread_time() < began + 0.03:
                pass
            read.append(n)
            yield n

    def small() -> Iterator[int]:
        for n in count():
            read.append(n)
            yield n

    async def wait(source: Iterator[int], most: int) -> int:
        read.clear()
        prefetcher = Prefetcher(source, 64)
        while len(read) < most:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # in which it would read more
        before = len(read)
        await prefetcher.take(1)
        await prefetcher.close()
        return before

    read: list[int] = []
    assert asyncio.run(wait(small(), 65)) == 65
    assert asyncio.run(wait(large(), 2)) == 2


@pytest.mark.parametrize("read", WAYS)
def test_what_the_source_raises_comes_after_its_items(read: Read) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise LookupError("gone")

    async def all() -> BaseException | None:
        prefetcher = read(source())
        assert [await prefetcher.take(5), await prefetcher.take(5)] == [[1], []]
        await prefetcher.close()
        return prefetcher.failure

    assert isinstance(asyncio.run(all()), LookupError)


def test_to_stop_closes_a_generator_and_ends_the_thread() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from count()
        finally:
            closed.set()

    async def some() -> None:
        prefetcher = Prefetcher(source(), 16)
        assert (await prefetcher.take(3))[0] == 0
        await prefetcher.close()

    asyncio.run(some())
    assert closed.is_set()
    assert not [t for t in threading.enumerate() if t.name == "evalcell-prefetcher"]


def test_a_source_that_hangs_is_left_behind() -> None:
    hang, ended = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield 1
        hang.wait(60)
        ended.set()

    async def some() -> None:
        prefetcher = Prefetcher(source(), 16)
        assert await prefetcher.take(3) == [1]
        await prefetcher.close()

    asyncio.run(some())
    assert not ended.is_set(), "it was waited for"
    hang.set()


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("items", [[], [1]])
def test_short_sources_end(items: list[int], read: Read) -> None:
    async def all() -> list[int]:
        prefetcher = read(items)
        taken = [*await prefetcher.take(5), *await prefetcher.take(5)]
        await prefetcher.close()
        return taken

    assert asyncio.run(all()) == items


class Watched(list[Case]):
    """Cases that know by which thread they were read."""

    threads: set[str]

    def __iter__(self) -> Iterator[Case]:
        self.threads = {threading.current_thread().name}
        return super().__iter__()


COUNTED = "$.input[?count($.input..*)>0]"  # of which the time is the square of the row's size
READ, SCORED = "evalcell-prefetch", "MainThread"


@pytest.mark.parametrize(
    ("number", "mapping", "own", "thread"),
    [
        (100, {}, {}, SCORED),
        (101, {}, {}, READ),
        (1, {"output": "input"}, {}, SCORED),
        (1, {"output": "$.input.a[0]"}, {}, SCORED),
        (1, {"output": COUNTED}, {}, READ),
        (1, {}, {"output": "$.input[*]"}, READ),
        (1, {"output": "$.input"}, {"output": "$.input[*]"}, SCORED),
    ],
)
def test_a_short_list_is_read_without_a_thread_where_no_path_looks_at_many_places(
    number: int, mapping: dict[str, str], own: dict[str, str], thread: str
) -> None:
    async def all() -> int:
        async with fake() as sandbox:
            found = score(script, cases, sandbox, mapping=InputMapping(paths=mapping))
            return len([result async for result in found])

    script = SCRIPT.model_copy(update={"mapping": InputMapping(paths=own)})
    cases = Watched(rows(number))
    assert asyncio.run(all()) == number
    assert cases.threads == {thread}


def test_arguments_that_a_function_fills_or_columns_that_are_kept_may_take_long() -> None:
    def fill(case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"output": case.output}

    async def all(**more: Any) -> set[str]:
        cases = Watched(rows(1))
        async with fake() as sandbox:
            assert len([result async for result in score(SCRIPT, cases, sandbox, **more)]) == 1
        return cases.threads

    assert asyncio.run(all(mapping=fill)) == asyncio.run(all(keep=lambda case: {})) == {READ}


def test_rows_on_a_disk_of_this_machine_are_read_without_a_thread(tmp_path: Path) -> None:
    text = "".join(json.dumps({"output": str(n), "reference": "x"}) + "\n" for n in range(2_000))
    (tmp_path / "rows.jsonl").write_text(text, "utf-8")
    (tmp_path / "rows.csv").write_text("output,reference\n" + "1,x\n" * 2_000, "utf-8")
    (tmp_path / "rows.json").write_text(f"[{text.strip().replace(chr(10), ',')}]", "utf-8")
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe.jsonl").write_text(text, "utf-8"), daemon=True)
    writer.start()
    found = {}
    for name in ("rows.jsonl", "rows.csv", "rows.json", "pipe.jsonl"):
        with open_dataset(tmp_path / name) as dataset:
            found[name] = dataset.at_hand
            assert sum(1 for _ in dataset) == 2_000
    with (tmp_path / "rows.jsonl").open("rb") as file:
        local = is_at_hand(file.fileno())  # the disk of this folder may be another
    assert found == {"rows.jsonl": local, "rows.csv": local, "rows.json": False, "pipe.jsonl": False}


def test_what_is_not_certain_to_be_a_disk_of_this_machine_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path, os.O_RDONLY)
    assert not is_at_hand(file)  # a folder
    os.close(file)
    assert not is_at_hand(file)
    own = os.open(tmp_path / "x", os.O_CREAT | os.O_RDONLY)
    device = os.fstat(own).st_dev
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr("builtins.open", partial(_instead, open, str(mounts)))
    for kinds, expected in ((["ext4"], True), (["nfs4"], False), (["fuse.sshfs"], False), (["ext4", "9p"], False)):
        lines = [f"36 35 {os.major(device)}:{os.minor(device)} / /m rw shared:1 - {kind} x rw\n" for kind in kinds]
        mounts.write_text("".join(["22 35 999:1 / /y rw - ext4 z rw\n", *lines]), "utf-8")
        assert is_at_hand(own) is expected
    mounts.write_text("", "utf-8")
    assert not is_at_hand(own)
    os.close(own)


def _instead(real: Callable[..., Any], mounts: str, path: Any, *more: Any, **how: Any) -> Any:
    return real(mounts if path == "/proc/self/mountinfo" else path, *more, **how)


def test_rows_that_are_slow_to_read_let_others_go_on() -> None:
    def slow() -> Iterator[int]:
        for n in range(3 * 16):
            time.sleep(0.001)
            yield n

    async def body() -> list[int]:
        turns: list[int] = []
        reader, read = Direct(slow()), 0
        while items := await reader.take(1000):
            read += len(items)
            asyncio.get_running_loop().call_soon(turns.append, read)
        await asyncio.sleep(0)
        assert read == 3 * 16
        return turns

    assert len(asyncio.run(body())) > 1


def test_a_source_that_is_read_directly_is_closed() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.set()

    async def body() -> None:
        reader = Direct(source())
        assert await reader.take(3) == [0, 1, 2]
        await reader.close()

    asyncio.run(body())
    assert closed.is_set()


def test_a_machine_that_stands_still_ends_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.engine.prefetch.perf_counter", partial(next, count(0.0, 1.0)))  # a second at each look

    async def body() -> list[int]:
        reader, found = Direct(range(100)), list[int]()
        while items := await reader.take(40):
            found += items
        return found

    assert asyncio.run(body()) == [*range(100)]
