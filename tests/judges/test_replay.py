"""The record of exchanges, and runs that are answered from it."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from sandboxes.errors import UnsupportedConfigError
from sandboxes.judges.broker import Broker, JudgeRefused
from sandboxes.judges.exchange import JudgeReply, JudgeRequest
from sandboxes.judges.grant import Judges
from sandboxes.judges.record import digest
from tests.judges.judge import KEY, VARIABLE, ask, grant, text_of


async def replies(judges: Judges, *requests: JudgeRequest) -> list[JudgeReply]:
    broker = Broker(judges, {VARIABLE: KEY})
    try:
        return [await broker.exchange(request) for request in requests]
    finally:
        await broker.close()


async def refusal(judges: Judges, *requests: JudgeRequest) -> JudgeRefused:
    with pytest.raises(JudgeRefused) as raised:
        await replies(judges, *requests)
    return raised.value


async def test_a_replay_gives_the_same_and_opens_nothing(
    judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "record")
    requests = [ask(judge, "count", row="a"), ask(judge, "echo", row="b"), ask(judge, "judge", stream=True, row="c")]
    requests += [ask(judge, "garbage", row="d"), ask(judge, "say-\u00fc", row="e")]
    first = await replies(grant(judge, record=file), *requests)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    monkeypatch.delenv(VARIABLE, raising=False)  # nor is there a key to be had
    asked = len(judge.requests)
    again = await replies(grant(judge, replay=file), *requests)
    assert [reply.body for reply in again] == [reply.body for reply in first]
    assert [reply.usage for reply in again] == [reply.usage for reply in first]
    assert all(reply.replayed and reply.tries == 0 for reply in again)
    assert len(judge.requests) == asked
    assert KEY not in Path(file).read_text()


async def test_repeats_and_equal_requests_have_replies_of_their_own(judge: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "record")
    twice = [ask(judge, "count", row="a", repeat=repeat) for repeat in (1, 2) for _ in range(2)]
    assert [text_of(reply.body) for reply in await replies(grant(judge, record=file), *twice)] == ["1", "2", "3", "4"]
    again = await replies(grant(judge, replay=file), *reversed(twice))
    assert [text_of(reply.body) for reply in again] == ["3", "4", "1", "2"]
    error = await refusal(grant(judge, replay=file), ask(judge, "count", row="a", repeat=3))
    assert (error.why, error.lost) == ("miss", True)


async def test_where_the_row_is_not_known_the_order_decides(judge: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "record")
    await replies(grant(judge, record=file), ask(judge, "count", row="a"), ask(judge, "count", row="b"))
    again = await replies(grant(judge, replay=file), ask(judge, "count"), ask(judge, "count"))
    assert [text_of(reply.body) for reply in again] == ["1", "2"]


async def test_a_miss_names_the_nearest(judge: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "record")
    await replies(grant(judge, record=file), ask(judge, content="is 4 right?", row="a"))
    error = await refusal(grant(judge, replay=file), ask(judge, content="is 5 right?", row="a"))
    assert "of row 'a', has '4 right?" in str(error)
    assert "'5 right?" in str(error)


async def test_what_is_recorded_is_not_paid_twice(judge: Any, tmp_path: Path) -> None:
    """As a run that goes on: with both, what is there is taken, and what is not is asked and added."""
    file = str(tmp_path / "record")
    both = grant(judge, record=file, replay=file)
    await replies(both, ask(judge, row="a"))
    again = await replies(both, ask(judge, row="a"), ask(judge, row="b"))
    assert [reply.replayed for reply in again] == [True, False]
    assert len(judge.requests) == 2
    await replies(grant(judge, replay=file), ask(judge, row="a"), ask(judge, row="b"))


async def test_a_record_is_not_mixed_with_another(judge: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "record")
    await replies(grant(judge, record=file), ask(judge))
    with pytest.raises(UnsupportedConfigError, match="has exchanges already"):
        Broker(grant(judge, record=file), {VARIABLE: KEY})


async def test_only_good_replies_are_replayed(judge: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "record")
    await replies(grant(judge, record=file), ask(judge, "error-400"), ask(judge, "flaky-503+wait-0", row="b"))
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert ["failed" in line for line in lines] == [True, True, False]
    assert [line["used"]["requests"] for line in lines] == [1, 1, 1]
    await refusal(grant(judge, replay=file), ask(judge, "error-400"))


@pytest.mark.parametrize(
    "line",
    [
        *("not JSON", "[]", "{}", '{"v": 2}', "[" * 100_000, '{"v": 1, "key": "x"}', "\x00", "NaN"),
        '{"v":1,"key":"k","repeat":1,"row":"1","n":1,"status":302,"type":"text/html","reply":{},"usage":null}',
        '{"v":1,"key":"k","repeat":1,"row":"1","n":1,"status":200,"type":"a\\r\\nb","reply":{},"usage":null}',
        '{"v":1,"key":["k"],"repeat":1,"row":"1","n":1,"status":200,"type":"a","reply":{},"usage":null}',
        '{"v":1,"key":"k","repeat":1,"row":"1","n":1,"status":200,"type":"a","reply":{},"usage":{"input":"x"}}',
        '{"v":1,"key":"k","repeat":1,"row":"1","n":1,"status":200,"type":"a","chunks":[1],"usage":null}',
        '{"v":1,"key":"k","repeat":1,"row":"1","n":1,"status":200,"type":"a","reply_base64":"?","usage":null}',
    ],
    ids=range(14),
)
async def test_a_damaged_line_is_named(judge: Any, tmp_path: Path, line: str) -> None:
    file = tmp_path / "record"
    await replies(grant(judge, record=str(file)), ask(judge))
    with file.open("a") as end:
        end.write(f"{line}\n")
    with pytest.raises(UnsupportedConfigError, match="line 2 is no exchange"):
        Broker(grant(judge, replay=str(file)))


async def test_a_line_without_a_request_is_no_nearest_one(judge: Any, tmp_path: Path) -> None:
    file = tmp_path / "record"
    await replies(grant(judge, record=str(file)), ask(judge, row="a"), ask(judge, "echo", row="a"))
    first, other = map(json.loads, file.read_text().splitlines())
    for name in ("request", "host"):
        del first[name]
    file.write_text(json.dumps(first) + "\n" + json.dumps(other) + "\n")
    missed = await refusal(grant(judge, replay=str(file)), ask(judge, content="another", row="a"))
    assert missed.why == "miss"
    for name, value in (("usage", {"input": 10**400}), ("used", {"usd": 10**400}), ("used", {"tokens": -1})):
        file.write_text(json.dumps(other | {name: value}) + "\n")
        with pytest.raises(UnsupportedConfigError, match="line 1 is no exchange"):
            Broker(grant(judge, replay=str(file)))


async def test_a_line_that_was_being_written_is_left_out(judge: Any, tmp_path: Path) -> None:
    file = tmp_path / "record"
    both = grant(judge, record=str(file), replay=str(file))
    await replies(both, ask(judge, row="a"), ask(judge, row="b"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    again = await replies(both, ask(judge, row="a"), ask(judge, row="b"))
    assert [reply.replayed for reply in again] == [True, False]
    last = file.read_bytes()
    assert last.endswith(b"\n")
    assert len(judge.requests) == 3
    assert [reply.replayed for reply in await replies(both, ask(judge, row="b"))] == [True]


@pytest.mark.parametrize("place", ["none", "folder", "pipe"])
def test_a_file_that_is_none(judge: Any, tmp_path: Path, place: str) -> None:
    import os

    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedConfigError, match=place):
        Broker(grant(judge, replay=str(tmp_path / place)))
    if place != "none":
        with pytest.raises(UnsupportedConfigError, match=place):
            Broker(grant(judge, record=str(tmp_path / place)), {VARIABLE: KEY})


def test_what_decides_about_a_reply() -> None:
    one = JudgeRequest("api.example.com", "POST", "/v1", "a=1&b=2", (("Authorization", "x"),), b'{"a": 1, "b": 2}')
    same = one._replace(headers=(("x-api-key", "y"), ("user-agent", "z")), body=b'{"b":2,"a":1}', query="b=2&a=1")
    assert digest(one) == digest(same)
    changes: list[dict[str, Any]] = [{"host": "b.example.com"}, {"method": "GET"}, {"path": "/v2"}, {"query": "a=2"}]
    changes += [{"body": b'{"a": 1}'}, {"headers": (("Anthropic-Version", "1"),)}]
    assert len({digest(one._replace(**change)) for change in changes} | {digest(one)}) == 7


async def test_ten_thousand_replies(judge: Any, tmp_path: Path) -> None:
    file = tmp_path / "record"
    await replies(grant(judge, record=str(file)), ask(judge, row="0"))
    line = json.loads(file.read_text())
    rows = [json.dumps({**line, "row": str(number)}) for number in range(10_000)]
    file.write_text("\n".join(rows) + "\n")
    broker = Broker(grant(judge, replay=str(file)))
    try:
        found = await asyncio.gather(*(broker.exchange(ask(judge, row=str(number))) for number in range(10_000)))
    finally:
        await broker.close()
    assert {reply.status for reply in found} == {200}
    assert broker.counts.replayed == 10_000
