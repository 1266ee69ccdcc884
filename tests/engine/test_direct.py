"""Rows that are in memory are read without a thread, and others never hold up the event loop."""

from __future__ import annotations

import asyncio
import gzip
import io
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engine.prefetch import Direct
from runner.inputs.datasets.buffered import all_at_hand, buffered_rows
from runner.inputs.datasets.column_values import MAX_ROW, copied
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats import jsonl_rows
from runner.inputs.datasets.rows import cases_from_rows

LINE = st.sampled_from([b'{"a": 1}', b"", b" ", b"\r", b"\x0b\x0c", b"not a row", b"{}" + b" " * 40, b'{"a": "\xff"}'])
HERE, APART = "MainThread", "evalcell-prefetch"


class Watched(io.FileIO):
    reads = 0

    def readinto(self, buffer: Any, /) -> int | None:
        self.reads += 1
        return super().readinto(buffer)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows") / "x.jsonl"


@given(
    st.lists(LINE, max_size=30), st.booleans(), st.lists(st.integers(1, 9), min_size=1), st.sampled_from([16, 64, 999])
)
def test_rows_at_hand_are_read_without_reading_the_file(
    place: Path, lines: list[bytes], ends: bool, wanted: list[int], size: int
) -> None:
    place.write_bytes(b"\n".join(lines) + b"\n" * ends)
    raw = Watched(place)
    with io.BufferedReader(cast(Any, raw), size) as file:
        at_hand = buffered_rows(file)
        assert at_hand is not None
        rows, found = jsonl_rows(file, "x"), 0
        for most in itertools.cycle(wanted):
            reads, some = raw.reads, at_hand(most)
            assert raw.reads == reads
            assert some <= most
            found += sum(1 for _ in itertools.islice(rows, some))
            assert raw.reads == reads
            if not some:
                if next(rows, None) is None:
                    break
                found += 1
    assert found == sum(1 for line in lines if line.strip())


def test_only_lines_of_regular_files_are_at_hand(tmp_path: Path) -> None:
    text = "".join(json.dumps({"output": str(n), "reference": "x"}) + "\n" for n in range(2_000))
    (tmp_path / "rows.jsonl").write_text(text, "utf-8")
    (tmp_path / "rows.ndjson").write_text("\ufeff" + text, "utf-8")
    (tmp_path / "wide.jsonl").write_text(text, "utf-16")
    (tmp_path / "rows.csv").write_text("output,reference\n" + "1,x\n" * 2_000, "utf-8")
    (tmp_path / "rows.json").write_text(f"[{text.strip().replace(chr(10), ',')}]", "utf-8")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    os.mkfifo(tmp_path / "pipe.jsonl")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe.jsonl").write_text(text, "utf-8"), daemon=True)
    writer.start()
    found = {}
    for path in sorted(tmp_path.iterdir()):
        with open_dataset(path) as dataset:
            found[path.name] = dataset.at_hand is not None
            assert sum(1 for _ in dataset) == 2_000
        assert dataset.at_hand is None or dataset.at_hand(9) == 0  # closed
    assert [name for name, there in found.items() if there] == ["rows.jsonl", "rows.ndjson"]


def by_threads(
    source: Callable[[], Iterator[object]], at_hand: Callable[[int], int] = all_at_hand, most: int = 1000
) -> list[str]:
    """By which thread each item of a source was read."""
    found: list[str] = []

    def watched() -> Iterator[object]:
        for item in source():
            found.append(threading.current_thread().name)
            yield item

    async def body() -> int:
        reader, count = Direct(watched(), at_hand), 0
        while items := await reader.take(most):
            count += len(items)
        await reader.close()
        assert reader.failure is None
        return count

    assert asyncio.run(body()) == len(found)
    return found


def slow(*seconds: float) -> Iterator[float]:
    for each in seconds:
        until = time.thread_time() + each
        while time.thread_time() < until:
            pass
        yield each


def test_items_that_take_long_are_read_in_a_thread_until_they_do_not() -> None:
    found = by_threads(partial(slow, *[0.02] * 4, *[0] * 40))
    assert found[:4] == [HERE, *[APART] * 3]
    assert HERE in found[5:]


def test_what_is_not_at_hand_is_read_in_a_thread() -> None:
    assert by_threads(lambda: iter(range(5)), lambda _: 0) == [APART] * 5
    told = itertools.chain([2, 0, 0], itertools.repeat(9))  # the second 0: what the thread reads counts too
    assert by_threads(lambda: iter(range(5)), lambda most: min(most, next(told)))[:3] == [HERE, APART, HERE]


def test_items_that_are_slow_to_read_let_others_go_on() -> None:
    async def body() -> list[int]:
        turns: list[int] = []
        reader, read = Direct(slow(*[0.001] * 48), all_at_hand), 0
        while items := await reader.take(1000):
            read += len(items)
            asyncio.get_running_loop().call_soon(turns.append, read)
        await asyncio.sleep(0)
        assert read == 48
        return turns

    assert len(asyncio.run(body())) > 1


@pytest.mark.parametrize("ends", [True, False])
def test_a_read_that_hangs_holds_up_nobody_and_is_left_behind(ends: bool) -> None:
    hang = threading.Event()
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield 1
            hang.wait(60)
            yield 2
        finally:
            closed.set()

    async def body() -> None:
        reader = Direct(source(), lambda _: 0)
        assert await reader.take(9) == [1]
        for _ in range(2):  # a take that was cancelled loses nothing
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.take(9), 0.05)
        if ends:
            hang.set()
            assert await reader.take(9) == [2]
        await reader.close()

    asyncio.run(body())
    assert closed.is_set() is ends
    hang.set()


def test_a_machine_without_another_thread_reads_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    assert by_threads(lambda: iter(range(3)), lambda _: 0) == [HERE] * 3


def test_an_interrupt_while_a_row_is_read_is_not_put_off() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    async def body() -> None:
        reader = Direct(source(), all_at_hand)
        await reader.take(9)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(body())


def test_a_source_that_is_read_directly_is_closed() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.set()

    async def body() -> None:
        reader = Direct(source(), all_at_hand)
        assert await reader.take(3) == [0, 1, 2]
        await reader.close()

    asyncio.run(body())
    assert closed.is_set()


def test_a_machine_that_stands_still_ends_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = partial(next, itertools.count(0.0, 1.0))  # a second at each look
    monkeypatch.setattr("runner.engine.prefetch.perf_counter", clock)
    assert len(by_threads(lambda: iter(range(100)), most=40)) == 100


def test_a_row_that_holds_a_list_many_times_is_not_copied_as_often() -> None:
    inner = ["x" * 1000] * 1000
    assert copied({"output": [inner] * 1000}) is None
    (case,) = cases_from_rows([{"output": [["x" * 1000] * 100] * 100}])
    assert case.broken is not None
    assert f"longer than {MAX_ROW >> 20} MB" in case.broken
