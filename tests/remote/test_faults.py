"""
What goes wrong at a provider once is not seen in the results, and what goes wrong for good leaves no machine.

A run asks for a machine, starts three programs in it, which greet, load the script and run the batch, and kills it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from sandboxes import Limits, SandboxUnavailableError
from sandboxes.remote.provider import RefusedError
from tests.remote.trying import SCRIPT, Tried, Trying, script, scored

pytestmark = pytest.mark.timeout(60)

STEPS = {"e2b": ("create", "start", "kill"), "modal": ("app", "image", "create", "start", "stdin", "read", "kill")}
"""The operations of a run."""

RUN = 3
"""The program that runs the batch is the third to start, where nothing goes wrong."""

ONCE: dict[str, dict[str, Any]] = {
    "500": {"do": "status:500"},
    "502": {"do": "status:502"},
    "503": {"do": "status:503", "headers": {"Retry-After": "0"}},
    "too often": {"do": "rate", "after": 0.1},
    "not done and cut": {"do": "cut-before"},
    "done and cut": {"do": "cut-after"},
    "garbage": {"do": "garbage"},
}


@pytest.mark.parametrize("fault", ONCE.values(), ids=ONCE)
def test_what_fails_once_at_each_step_is_not_seen(trying: Trying, fault: dict[str, Any]) -> None:
    # Each second request fails, so that what is asked again because of it does not fail too.
    for op in STEPS[trying.name]:
        for nth in (1, 3, 5) if op in ("start", "stdin", "read") else (1,):
            trying.server.fault(op, nth=nth, **fault)
    trying.recovered()


def test_a_machine_that_comes_after_we_gave_up_is_found_or_ended(trying: Trying) -> None:
    trying.server.fault("create", "slow:0.6")
    trying.server.fault("create", "late:0.6", nth=2)
    trying.recovered(start_timeout=0.3)
    time.sleep(0.8)  # until what we gave up on was done
    assert trying.server.state().machines == []


def test_a_full_account_is_waited_for(trying: Trying) -> None:
    trying.server.fault("create", "full", times=2)
    assert trying.recovered(wait=0.2).created == 1


@pytest.mark.parametrize("fault", [{"do": "status:500"}, {"do": "full"}, {"do": "cut-after"}, {"do": "garbage"}])
def test_without_a_machine_nothing_is_judged(trying: Trying, fault: dict[str, Any]) -> None:
    trying.server.fault("create", times=1000, **fault)
    trying.server.fault("find", "status:503", times=1000)
    tried = trying.run(wait=0.3, pauses={"first": 0.02, "longest": 0.1, "altogether": 0.5})
    trying.server.fault
    assert isinstance(tried.error, SandboxUnavailableError)
    assert tried.results == []
