"""What a worker sends is a stranger's: bounded before it is read, and checked."""

from __future__ import annotations

import asyncio
import json
import struct
import sys

import pytest

from runner.core.errors import ColumnsError, DatasetError, InputError
from runner.runs.pool.faults import Fault
from runner.runs.pool.frames import HEADER, PAYLOAD, FrameError, PoolFrame, pack, read
from runner.runs.pool.process import Job, WorkerProcess
from runner.runs.pool.streams import _part
from runner.runs.pool.types import AHEAD, RunEnded, RunSegment, RunStarted
from sandboxes.errors import SandboxError, SandboxUnavailableError, UnsupportedConfigError


def received(data: bytes) -> PoolFrame:
    async def body() -> PoolFrame:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        return await read(stream)

    return asyncio.run(body())


def test_a_message_arrives_as_it_was_sent() -> None:
    frame = received(pack({"kind": "done", "job": 7}, b"\0payload"))
    assert (frame.job, frame.header["kind"], frame.payload) == (7, "done", b"\0payload")


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<II", HEADER + 1, 0) + b"{}",
        struct.pack("<II", 2, PAYLOAD + 1) + b"{}",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 3, 0) + b"{,}",
        struct.pack("<II", 40_000, 0) + b"[" * 40_000,
    ],
)
def test_what_is_no_message_is_refused_unread(data: bytes) -> None:
    with pytest.raises(FrameError):
        received(data)


def test_a_message_that_ends_in_the_middle_is_an_end() -> None:
    for data in (b"", b"\1", pack({"a": 1}, b"xyz")[:-1]):
        with pytest.raises(EOFError):
            received(data)


def test_nothing_is_sent_that_could_not_be_read() -> None:
    with pytest.raises(FrameError, match="at most 64 MB"):
        pack({}, bytes(PAYLOAD + 1))


@pytest.mark.parametrize(
    "header",
    [
        {"first": 1, "rows": 1, "size": 9, "counts": {}},
        {"first": "1", "rows": 1, "size": 1, "counts": {}},
        {"first": 1, "rows": True, "size": 1, "counts": {}},
        {"first": 1, "rows": 1, "size": -1, "counts": {}},
        {"first": 1, "rows": 1, "size": 1, "counts": {"scored": "many"}},
        {},
    ],
)
def test_a_segment_that_is_none_is_the_sandboxs_failure(header: dict[str, object]) -> None:
    with pytest.raises(SandboxError, match="cannot be read"):
        _part(PoolFrame({"kind": "segment", **header}, b"ab"))


def test_parts_are_checked() -> None:
    part = _part(PoolFrame({"kind": "segment", "first": 3, "rows": 1, "size": 1, "counts": {"scored": 1}}, b"ab"))
    assert isinstance(part, RunSegment)
    assert (part.segment.first, part.segment.data, part.segment.index) == (3, b"a", b"b")
    assert isinstance(_part(PoolFrame({"kind": "cancelled"})), RunEnded)
    for kind, payload in (("started", b"{}"), ("done", b'{"state":"won"}'), ("done", b"["), ("other", b"")):
        with pytest.raises(SandboxError):
            _part(PoolFrame({"kind": kind}, payload))


@pytest.mark.parametrize(
    ("field", "value"),
    [("total", 10**400), ("total", -1), ("sandbox", "s" * 200_000), ("notes", ["n"] * 2000), ("lock", "l" * (9 << 20))],
)
def test_what_a_run_begins_with_is_bounded(field: str, value: object) -> None:
    started = {"total": 5, "sandbox": "wasm/1", "why": "so", "notes": ["a note"], "lock": "a==1"}
    assert isinstance(_part(PoolFrame({"kind": "started"}, json.dumps(started).encode())), RunStarted)
    with pytest.raises(SandboxError, match="cannot be read"):
        _part(PoolFrame({"kind": "started"}, json.dumps({**started, field: value}).encode()))


async def test_no_more_parts_wait_than_may_be_sent_ahead() -> None:
    run, dry = Job(1, AHEAD), Job(2)
    for _ in range(AHEAD):
        run.put(PoolFrame({"kind": "segment"}))
    for job in (run, dry):
        with pytest.raises(FrameError, match="more parts"):
            job.put(PoolFrame({"kind": "segment"}))
    await run.next()
    run.put(PoolFrame({"kind": "segment"}))
    run.put(PoolFrame({"kind": "done"}))
    dry.put(PoolFrame({"kind": "done"}))
    assert run.ended.is_set()
    assert dry.ended.is_set()


FLOODS = """
import struct, sys
def send(head, size=0):
    sys.stdout.buffer.write(struct.pack("<II", len(head), size) + head + bytes(size))
    sys.stdout.buffer.flush()
send(b'{"kind": "ready"}')
for _ in range(4):
    sys.stdin.buffer.read(sum(struct.unpack("<II", sys.stdin.buffer.read(8))))
for job in range(1, 5):
    for kind in (b"segment", b"segment", b"done"):
        send(b'{"kind": "%s", "job": %d}' % (kind, job), 1 << 20)
sys.stdin.read()
"""


def test_a_worker_that_sends_as_much_as_it_may_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.runs.pool.process.module_command", lambda *_: [sys.executable, "-c", FLOODS])
    monkeypatch.setattr("runner.runs.pool.process.QUEUE_BYTES", 2 << 20)
    seen: list[int] = []

    async def body() -> int:
        worker = WorkerProcess("floods", {})
        jobs = [await worker.submit("run", b"{}", ahead=AHEAD) for _ in range(4)]
        count = 0
        for job in jobs:
            for _ in range(3):
                while sum(one.held for one in jobs) <= 2 << 20 and not all(one.ended.is_set() for one in jobs):
                    await asyncio.sleep(0.01)
                seen.append(sum(one.held for one in jobs))
                await job.next()
                count += 1
        await worker.close()
        return count

    assert asyncio.run(body()) == 12
    assert max(seen) == 3 << 20


def test_errors_keep_their_kind_and_their_fields() -> None:
    columns = Fault.of(ColumnsError("no column", {"output": "answer"}, ("metric",))).error()
    assert isinstance(columns, ColumnsError)
    assert (str(columns), columns.paths, columns.values) == ("no column", {"output": "answer"}, ("metric",))
    for error in (DatasetError("d"), InputError("i"), UnsupportedConfigError("u"), SandboxUnavailableError("s")):
        again = Fault.of(error).error()
        assert (type(again), str(again)) == (type(error), str(error))
    ours = Fault.of(ZeroDivisionError("division")).error()
    assert type(ours) is SandboxError
    assert "evalcell failed (ZeroDivisionError: division)" in str(ours)
    assert type(Fault(kind="unheard-of", message="m").error()) is SandboxError
