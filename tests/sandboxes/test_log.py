"""What sandboxes say to a program that calls them: they log it, and print nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.base import SandboxConfig
from sandboxes.fake import FakeSandbox

SAYS = """
import logging
from sandboxes.base import SandboxConfig
from sandboxes.fake import FakeSandbox
{first}
sandbox = FakeSandbox(SandboxConfig(backend="fake"))
sandbox.progress("takes 100 % of a minute")
sandbox.warn("may still run")
"""


@pytest.mark.parametrize(
    ("first", "printed"),
    [
        ("", "may still run\n"),
        (
            "logging.basicConfig(level='INFO')",
            "INFO:evalcell:takes 100 % of a minute\nWARNING:evalcell:may still run\n",
        ),
        ("logging.getLogger('evalcell').addHandler(logging.NullHandler())", ""),
    ],
)
def test_a_program_decides_what_is_printed(first: str, printed: str) -> None:
    """Where it decides nothing, Python itself prints warnings."""
    command = [sys.executable, "-c", SAYS.replace("{first}", first)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert (done.stdout, done.stderr) == ("", printed)


def test_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    sandbox = FakeSandbox(SandboxConfig(backend="fake"))
    with caplog.at_level(logging.INFO, "evalcell"):
        sandbox.progress("installing")
        sandbox.warn("may still run")
    found = [(one.name, one.levelname, one.getMessage()) for one in caplog.records]
    assert found == [("evalcell", "INFO", "installing"), ("evalcell", "WARNING", "may still run")]
