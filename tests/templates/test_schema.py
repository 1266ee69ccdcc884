"""The template for JSON Schema: nothing is fetched, nothing is guessed, and what it says has a bound."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import InputMapping, evaluate
from runner.core.errors import InputError
from runner.core.types import Result
from sandboxes import SandboxConfig, SandboxUnavailableError
from sandboxes.base import Limits

# Says whether it got through to the port.
CONNECTS = """
import socket

def evaluate(output):
    with socket.create_connection(("127.0.0.1", output), timeout=5) as connection:
        connection.sendall(b"here I am")
    return "sent"
"""


def run(outputs: list[Any], timeout: float = 20, script: str = "json-schema", **literals: Any) -> list[Result]:
    """In a process whose network is open. Skips where that, or the package, cannot be had."""
    rows = [{"output": output} for output in outputs]
    config = SandboxConfig(backend="process", network=True, jobs=1)
    mapping = InputMapping(literals=literals)
    try:
        return evaluate(script, rows, sandbox=config, limits=Limits(timeout=timeout), mapping=mapping).results
    except SandboxUnavailableError as e:
        pytest.skip(str(e))


@pytest.fixture
def heard() -> Iterator[tuple[int, list[bytes]]]:
    """A port on loopback, and what was sent to it."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                connection, _ = server.accept()
                with connection:
                    if (first := connection.recv(1000)) == b"enough":
                        return
                    sent.append(first)

        thread = threading.Thread(target=listen)
        thread.start()
        yield server.getsockname()[1], sent
        with socket.create_connection(server.getsockname()) as last:
            last.sendall(b"enough")
        thread.join()


@pytest.mark.rotating("long tests", "templates")
def test_a_remote_schema_is_not_fetched_even_with_the_network_open(
    heard: tuple[int, list[bytes]], tmp_path: Path
) -> None:
    port, sent = heard
    address = f"http://127.0.0.1:{port}/schema.json"
    for schema in ({"$ref": address}, {"$id": address, "$ref": "other.json"}, {"items": {"$dynamicRef": address}}):
        (result,) = run([[1]], schema=schema)
        assert result.error is not None
        assert "nothing is fetched" in result.error.message
    (result,) = run([1], schema={"$schema": address})
    assert result.error is not None
    assert "unknown draft" in result.error.message
    assert sent == []
    script = tmp_path / "connects.py"
    script.write_text(CONNECTS)
    assert [r.label for r in run([port], script=str(script))] == ["sent"]
    assert sent == [b"here I am"]


@pytest.mark.rotating("long tests", "templates")
def test_a_pattern_that_hangs_is_stopped_by_the_timeout() -> None:
    hung, after = run(["a" * 50 + "!", "aaa"], 1, schema={"pattern": "^(a+)+$"}, parse_strings=False)
    assert hung.error is not None
    assert hung.error.kind == "timeout"
    assert after.label == "valid"


def test_what_it_says_has_a_bound() -> None:
    many, long = run([list(range(100_000)), ["x" * 1_000_000]], schema={"items": {"type": "null"}})
    assert many.explanation is not None
    assert long.explanation is not None
    assert many.explanation.startswith("100 or more violation(s): /0: 0 is not of type 'null'; /1: ")
    assert max(len(many.explanation), len(long.explanation)) < 1000


def test_what_is_nested_too_deeply() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    text = "[" * 100_000 + "]" * 100_000
    schema = {"$defs": {"list": {"items": {"$ref": "#/$defs/list"}}}, "$ref": "#/$defs/list"}
    value, unread = run([deep, text], schema=schema)
    assert value.outcome == "failed"  # the schema may be what goes on without end
    assert value.error is not None
    assert "nested too deeply" in value.error.message
    assert (unread.label, unread.score) == ("invalid", 0)
    assert unread.explanation == "Failed to parse JSON: the output is nested too deeply"


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="schema"):
        run([1], schema=5)
    with pytest.raises(InputError, match="schema"):
        run([1])
