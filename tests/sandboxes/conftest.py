"""Each backend in turn, and looking at what is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandboxes.backends import BACKENDS, REMOTE, Backend, unavailable
from tests.sandboxes.shared import SHARED

OTHER_WAYS = ("wasm-instance", "wasm-workers", "deno-A-call", "B-batch", "B-call", "typescript")
"""Each has most of its code from another one of its backend."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """
    One way of each backend is tried with every promise where the sandboxes have changed, else with some in turn.

    The other providers have the harness of the one, and are tried with what they carry. Of the other ways of a backend
    some are tried where that backend has not changed.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "chosen" not in params:
        return
    name = params["chosen"].id.partition("-")[0]
    if params["chosen"].id.endswith(OTHER_WAYS):
        item.add_marker(pytest.mark.rotating("other ways of a backend", "remote" if name in REMOTE else name))
    elif not item.get_closest_marker("rotating"):
        item.add_marker(pytest.mark.rotating("promises", "sandboxes"))
    if name not in REMOTE[1:]:
        return
    mark = item.get_closest_marker("each_provider")
    ids = f"-{item.name.partition('[')[2].rstrip(']')}-"
    if mark is None or (mark.args and not any(f"-{one}-" in ids for one in mark.args)):
        item.add_marker(pytest.mark.thorough(f"promises of a harness that {REMOTE[0]} is tried with"))


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda b: b.id)
def chosen(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """One backend after the other, all tests of a file with each. What was shared is closed, and leaves nothing."""
    backend: Backend = request.param
    yield backend
    SHARED.close()
    if (provider := backend.id.partition("-")[0]) in REMOTE:
        from tests.remote.served import server

        assert not server(provider).state().machines
    elif provider == "docker":
        from tests.containers import local

        assert local.missing() or not local.containers_of()


@pytest.fixture
def backend(request: pytest.FixtureRequest, chosen: Backend) -> Backend:
    """Every backend that works on this machine, less those that say they cannot keep this kind of promise."""
    if missing := unavailable(chosen):
        pytest.skip(missing)
    if (needs := request.node.get_closest_marker("needs")) and (gap := chosen.gaps.get(needs.args[0])):
        pytest.skip(f"known gap: {gap}")
    if needs and needs.args[0] in chosen.shares:
        pytest.skip("tried on the others that keep it by the same means")
    if chosen.light and needs and "isolation" not in request.fixturenames:
        pytest.skip("tried on the other tier with this isolation, and on this tier with the other")
    if chosen.paired and request.node.callspec.params.get("isolation", chosen.isolation) != chosen.isolation:
        pytest.skip("tried on the other one of its pair")
    return chosen


@pytest.fixture
def child_processes() -> Callable[[], list[str]]:
    """Command lines of this process's children that were not there when the test began; none come by themselves."""
    SHARED.close()
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc")
    before = _children()
    return lambda: [line for pid, line in _children().items() if pid not in before]


def _children() -> dict[int, str]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                found[int(stat.parent.name)] = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue  # it ended while we looked
    return found
