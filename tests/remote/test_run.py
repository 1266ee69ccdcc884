"""Whole runs on a machine, through the runner: what is installed, granted, refused and written down."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.resolve import choose
from sandboxes import SandboxUnavailableError, UnsupportedConfigError, registry
from sandboxes.base import Capabilities
from sandboxes.remote.sandbox import RemoteSandbox
from tests.remote.served import config, sandbox, server
from tests.remote.serving import Server

ROWS = [{"output": str(n), "reference": "1"} for n in range(5)]

HEADER = """\
# /// script
# {line}
# ///
{body}
"""


@pytest.fixture
def e2b() -> Server:
    found = server("e2b")
    found.clear()
    return found


def script(line: str, body: str) -> Any:
    return parse_evaluator(HEADER.format(line=line, body=body), "mine", "mine.py", language="python")


def test_a_python_that_the_script_cannot_use_is_refused_and_its_machine_ended(e2b: Server) -> None:
    wanted = script('requires-python = ">=3.99"', "def evaluate(output): return 1")
    with pytest.raises(UnsupportedConfigError, match=r"requires Python >=3\.99 and the e2b sandbox runs 3\."):
        evaluate(wanted, ROWS, sandbox=config("e2b"))
    state = e2b.state()
    assert (state.created, state.machines) == (1, [])


def test_packages_are_installed_and_then_the_network_is_cut(e2b: Server) -> None:
    body = """
import iniconfig, socket
def evaluate(output):
    try:
        socket.create_connection(("127.0.0.1", 9), 1)
    except OSError as e:
        return {"score": 1, "label": type(e).__name__, "explanation": iniconfig.__name__}
"""
    seen: list[bool] = []
    box = sandbox("e2b", packages=("iniconfig",), jobs=1)
    assert isinstance(box, RemoteSandbox)
    wanted = script('dependencies = ["iniconfig"]', body)

    async def work() -> list[Any]:
        from runner.engine.local import score
        from runner.inputs.datasets.rows import cases_from_rows

        async with box:
            seen.extend(machine["network"] for machine in e2b.state().machines)
            return [r async for r in score(wanted, cases_from_rows(ROWS), box)]

    try:
        results = asyncio.run(work())
    except SandboxUnavailableError as e:
        pytest.skip(f"no package index: {e}")
    assert [(r.score, r.label, r.explanation) for r in results] == [(1, "PermissionError", "iniconfig")] * len(ROWS)
    assert seen == [False], "the machine's network is cut before a script runs"
    assert box.lock is not None
    assert "iniconfig==" in box.lock
    assert box.manifest["packages"].keys() == {"iniconfig"}
    assert box.identity.startswith("e2b/python-3.")
    assert not e2b.state().machines


def test_a_package_that_cannot_be_installed_ends_the_run_and_its_machine(e2b: Server) -> None:
    lock = "iniconfig==2.1.0 --hash=sha256:" + "0" * 64 + "\n"
    wanted = script('dependencies = ["iniconfig"]', "def evaluate(): return 1")
    with pytest.raises(SandboxUnavailableError, match="packages could not be installed"):
        evaluate(wanted, ROWS, sandbox=config("e2b", lock=lock))
    assert not e2b.state().machines


def test_nothing_is_sent_elsewhere_unless_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no sandbox of this machine can do it, that is told; none of a provider is taken in its place."""
    poor = Capabilities(languages=("python",), isolation=("call",))
    for name in ("wasm", "process"):
        monkeypatch.setattr(registry.find(name), "capabilities", poor)
    wanted = script('dependencies = ["iniconfig"]', "def evaluate(): return 1")
    with pytest.raises(UnsupportedConfigError, match="no sandbox here has all that is asked"):
        choose(wanted)
    assert choose(wanted, "e2b").config.backend == "e2b"


def test_without_credentials_it_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    with pytest.raises(SandboxUnavailableError, match="E2B_API_KEY is not set; set E2B_API_KEY"):
        evaluate(script("", "def evaluate(): return 1"), ROWS, sandbox="e2b")
