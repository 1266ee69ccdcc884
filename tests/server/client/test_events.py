"""Events are the same wherever the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import ServerError
from runner.server.client.events import Event, EventReader

STREAM = (
    ": still here\n\nid: 5\nevent: progress\ndata: {\ndata: }\n\nevent: only a name\n\n"
    "data:é\r\n\r\nid: 9\nunknown: x\ndata: last\n\ndata: broken off"
).encode()
EVENTS = [Event("progress", "{\n}", "5"), Event("message", "é", "5"), Event("message", "last", "9")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_may_be_cut_anywhere(cuts: list[int]) -> None:
    reader, places = EventReader(), [0, *sorted(cuts), len(STREAM)]
    found = [one for a, b in pairwise(places) for one in reader.feed(STREAM[a:b])]
    assert found == EVENTS


@pytest.mark.parametrize("line", [b"data: ", b"data: x\n", b"x\n"])
def test_an_event_without_an_end_is_not_kept(line: bytes) -> None:
    reader = EventReader()
    with pytest.raises(ServerError, match="more than 1 MB"):
        _ = [reader.feed(line + b"y" * 1000) for _ in range(3000)]
