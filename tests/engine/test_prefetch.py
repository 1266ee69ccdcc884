"""Rows are read in a thread, a little ahead."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from runner.engine.prefetch import Prefetcher


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


def test_what_the_source_raises_comes_after_its_items() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise LookupError("gone")

    async def all() -> BaseException | None:
        prefetcher = Prefetcher(source(), 16)
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


@pytest.mark.parametrize("items", [[], [1]])
def test_short_sources_end(items: list[int]) -> None:
    async def all() -> list[int]:
        prefetcher = Prefetcher(items, 16)
        taken = [*await prefetcher.take(5), *await prefetcher.take(5)]
        await prefetcher.close()
        return taken

    assert asyncio.run(all()) == items
