"""Rows are read in a thread, a little ahead; a short list without one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pytest

from runner.core.types import Case, InputMapping
from runner.engine.local import score
from runner.engine.prefetch import Direct, Prefetcher
from runner.inputs.datasets.buffered import all_at_hand
from tests.engine.scripted import SCRIPT, fake, rows

Read = Callable[[Iterable[int]], Direct[int] | Prefetcher[int]]
WAYS: tuple[Read, ...] = (
    lambda source: Direct(source, all_at_hand),
    lambda source: Direct(source, lambda _: 0),
    lambda source: Prefetcher(source, 16),
)


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
