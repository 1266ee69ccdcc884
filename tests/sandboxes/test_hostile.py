"""Hostile scripts: each comes to an end that was foreseen, harms nobody, and costs its neighbours nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandboxes.hostile.driven import ROOT, Driven
from tests.sandboxes.hostile.judged import (
    LIMITS,
    Batch,
    assert_nothing_left,
    everywhere,
    is_clean,
    judge,
    patience,
    request,
)
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, Hostile, scripts

pytestmark = pytest.mark.rotating("hostile", "wasm")

ATTACKS = [s for s in scripts() if not s.attacks_at_load]
LOADS = [s for s in scripts() if s.attacks_at_load]
EVALUATE = "def evaluate(output, reference): return 1\n"
ODD_SOURCES = {
    "empty": "",
    "null-byte": "x = 1\0\n" + EVALUATE,
    "byte-order-mark": "\ufeff" + EVALUATE,
    "lone-surrogate": "x = '\ud800'\n" + EVALUATE,
    "another-encoding": "# coding: utf-16\n" + EVALUATE,
    "unknown-encoding": "# -*- coding: no-such -*-\n" + EVALUATE,
    "form-feeds": "\f\v\x1c\u2028" + EVALUATE,
    "parentheses": "x = " + "(" * (1 << 17) + "1" + ")" * (1 << 17) + "\n" + EVALUATE,
    "brackets-unclosed": "[" * (1 << 18),
    "minuses": "x = " + "-" * (1 << 18) + "1\n" + EVALUATE,
    "long-line": "x = '" + "a" * (1 << 18) + "'\n" + EVALUATE,
    "many-names": "".join(f"n{n}=1\n" for n in range(20000)) + EVALUATE,
    "nested-blocks": "".join(" " * n + "if 1:\n" for n in range(500)),
    "format-text": "x = f'" + "{" * 5000 + "1" + "}" * 5000 + "'\n" + EVALUATE,
    "attributes": "x" + ".a" * (1 << 16) + "\n" + EVALUATE,
    "huge-number": "x = " + "9" * (1 << 17) + "\n" + EVALUATE,
    "no-newline": EVALUATE.strip(),
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driven]]:
    """Both ways to give a call its fresh state, each in a process of its own; nothing is left when they end."""
    found = {reset: Driven(tmp_path_factory.mktemp(reset), reset) for reset in ("restore", "instance")}
    yield found
    for host in found.values():
        assert_nothing_left(host)


@pytest.fixture(scope="module")
def pristine(hosts: dict[str, Driven]) -> dict[str, Any]:
    """What the probe tells before any attack."""
    told = everywhere(hosts, request(("call", [CLEAN])))
    return {name: answer["batches"][0][0]["value"] for name, answer in told.items()}


@pytest.mark.parametrize("script", ATTACKS, ids=lambda s: s.id)
def test_a_hostile_script_harms_nobody(hosts: dict[str, Driven], pristine: dict[str, Any], script: Hostile) -> None:
    attack = (ATTACK, script.source)
    batches: list[Batch] = [("call", [CLEAN, attack, CLEAN])]
    if script.lasting:
        batches += [("batch", [attack, CLEAN]), ("batch", [CLEAN])]
    timeout = patience(script.ending)
    for name, told in everywhere(hosts, request(*batches, timeout=timeout, lasting=script.lasting)).items():
        assert "raised" not in told, told["raised"]
        assert [[e["call"] for e in batch] for batch in told["batches"]] == [[*range(len(b))] for _, b in batches]
        (before, attacked, after), *shared = told["batches"]
        judge(script.ending, attacked, timeout)
        assert is_clean(before)
        assert before["value"] == after["value"] == pristine[name]
        if shared:
            judge(script.ending, shared[0][0], timeout)
            assert shared[1][0]["value"] == pristine[name]
        assert is_clean(told["clean"][0])


@pytest.mark.parametrize("script", LOADS, ids=lambda s: s.id)
def test_a_script_that_is_hostile_while_it_loads_harms_nobody(hosts: dict[str, Driven], script: Hostile) -> None:
    timeout = patience(script.ending, LIMITS.load_timeout)
    asked = request(("call", [CLEAN, CLEAN]), source=script.source, load_timeout=timeout)
    for told in everywhere(hosts, asked).values():
        assert "raised" not in told, told["raised"]
        judge(script.ending, told["loaded"], timeout)
        (found,) = told["batches"]
        assert [e["call"] for e in found] == [0, 1]
        assert told["loaded"]["status"] == "ok" or {e["status"] for e in found} == {told["loaded"]["status"]}
        assert is_clean(told["clean"][0])


@pytest.mark.parametrize("source", ODD_SOURCES.values(), ids=ODD_SOURCES)
def test_an_odd_source_is_loaded_or_refused(hosts: dict[str, Driven], source: str) -> None:
    for told in everywhere(hosts, request(("call", [CLEAN]), source=source)).values():
        assert "raised" not in told, told["raised"]
        assert told["loaded"]["status"] in ("ok", "error", "crash", "memory", "timeout")
        assert len(told["batches"][0]) == 1
        assert is_clean(told["clean"][0])


@pytest.mark.rotating("hostile", "wasm")
def test_hostile_scripts_side_by_side_in_worker_processes(tmp_path: Path) -> None:
    host = Driven(tmp_path, "auto", jobs=2)
    asked = [
        request(
            ("call", [CLEAN, (ATTACK, script.source), CLEAN]), timeout=patience(script.ending), lasting=script.lasting
        )
        for script in ATTACKS
    ]
    for script, told in zip(ATTACKS, host.ask({"together": asked})["together"], strict=True):
        assert "raised" not in told, (script.id, told["raised"])
        ((before, attacked, after),) = told["batches"]
        judge(script.ending, attacked, patience(script.ending))
        assert is_clean(before)
        assert before["value"] == after["value"]
        assert is_clean(told["clean"][0])
    left = host.finish()
    assert (left["status"], left["children"], left["files"]) == (0, [], [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are restored on Linux only")
@pytest.mark.rotating("wasm", "wasm")
def test_the_guest_that_is_used_again_is_byte_for_byte_the_snapshot() -> None:
    command = [sys.executable, "-m", "tests.sandboxes.hostile.compare"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    compared = {told["id"]: told["same"] for told in map(json.loads, done.stdout.splitlines())}
    assert [name for name, same in compared.items() if same is False] == []
    assert sum(same is True for same in compared.values()) > 150
