"""A process whose sockets are those of gevent or eventlet (`gunicorn -k gevent`): a box inherits one that blocks."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from sandboxes.process import ProcessSandbox
from tests.sandboxes.backends import BACKENDS, calls, evaluate, unavailable

BACKEND = next(b for b in BACKENDS if b.id == "process-A-batch")


def test_a_box_works_where_each_socket_is_made_not_to_block(monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := unavailable(BACKEND):
        pytest.skip(missing)
    plain = socket.socketpair

    def green(*arguments: Any) -> tuple[socket.socket, socket.socket]:
        """As gevent's and eventlet's: the descriptors do not block, whatever Python's own sockets say."""
        pair = plain(*arguments)
        for end in pair:
            os.set_blocking(end.fileno(), False)
        return pair

    monkeypatch.setattr(socket, "socketpair", green)
    found = evaluate(BACKEND, "def evaluate(): return 1", calls(3))
    assert [execution.status for execution in found] == ["ok"] * 3
    assert ProcessSandbox.check()
