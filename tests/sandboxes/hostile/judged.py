"""Whether what became of a hostile script is what was foreseen, and what was around it is as before."""

from __future__ import annotations

import json
from typing import Any

from sandboxes import Isolation, Limits
from tests.sandboxes.hostile.driven import Driven
from tests.sandboxes.hostile.scripts import ANY, DISTANCE, Ending

LIMITS = Limits(timeout=0.3, load_timeout=0.6, memory=64 << 20, output=4096, result=16384)
PATIENT = 30.0
"""Seconds for a script that ends by itself, which on a busy machine takes a while."""
LATE = 10.0
"""Seconds past its deadline that a call may end on a busy machine; by itself it would go on for far longer."""

Batch = tuple[Isolation, list[tuple[str, str]]]


def patience(ending: Ending, timeout: float = LIMITS.timeout) -> float:
    """Seconds: `timeout` for a script that may well last until then; for any other it would speak of the machine."""
    return timeout if "timeout" in ending.may else PATIENT


def request(
    *batches: Batch,
    source: str | None = None,
    timeout: float = LIMITS.timeout,
    load_timeout: float = LIMITS.load_timeout,
    lasting: bool = False,
) -> dict[str, Any]:
    """What a driver is asked; `lasting` where an attack may spoil what comes after it in its batch."""
    limits = LIMITS.model_copy(update={"timeout": timeout, "load_timeout": load_timeout})
    return {"source": source, "batches": batches, "limits": limits.model_dump(), "lasting": lasting}


def everywhere(hosts: dict[str, Driven], asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Asks all at once, to use both cores."""
    for host in hosts.values():
        host.send(asked)
    return {name: host.receive() for name, host in hosts.items()}


def judge(ending: Ending, execution: dict[str, Any], timeout: float = LIMITS.timeout) -> None:
    """Whether the execution is one of those foreseen, and within every bound."""
    assert execution["status"] in ending.may, execution
    if execution["status"] == "ok":
        assert execution["error"] is None, execution
        assert ending.value is ANY or execution["value"] == ending.value, execution
    else:
        assert execution["value"] is None, execution
        assert all(len(text or "") <= 4000 for text in execution["error"].values()), execution["error"]
        assert execution["error"]["type"], execution
    assert execution["duration"] < timeout + LATE, execution["duration"]
    assert len(execution["output"].encode("utf-8")) <= LIMITS.output, len(execution["output"])
    assert len(json.dumps(execution["value"], ensure_ascii=False)) <= LIMITS.result, len(str(execution["value"]))


def is_clean(execution: dict[str, Any]) -> bool:
    value = execution["value"]
    return (
        execution["status"] == "ok"
        and execution["output"] == "probe\n"
        and (value["label"], value["score"]) == ("clean", DISTANCE)
    )


def assert_nothing_left(host: Driven) -> None:
    before = host.ask({})
    after = host.finish()
    assert after["status"] == 0, after
    assert len(before["children"]) <= 1, before  # its worker
    assert after["children"] == [], after
    assert before["files"] == after["files"] == [], (before, after)
    assert after["descriptors"] <= before["descriptors"] < 40, (before, after)
