"""Standard streams that are closed, full or without a reader: the exit code and the results are those of the run."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from tests.cli.test_process import COMMAND, ENV, here

__all__ = ["here"]

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell"),
    pytest.mark.rotating("commands and signals", "runner"),
]

RUN = ["run", "slow.py", "data.jsonl", "--sandbox", "fake", "--limit", "3", "-o", "x.jsonl"]
CLOSED = ["".join(each) for n in (1, 2, 3) for each in combinations((" <&-", " >&-", " 2>&-"), n)]


def shell(here: Path, arguments: list[str], redirected: str) -> tuple[int, str]:
    """The command's exit code, and what it said on stderr."""
    words = shlex.join([*COMMAND, *arguments])
    # The code of the command itself, also where it is not the last one of a pipe.
    script = f"({words}; echo $? > code) {redirected}" if "|" in redirected else f"{words}{redirected}; echo $? > code"
    done = subprocess.run(["sh", "-c", script], cwd=here, env=ENV, capture_output=True, text=True, timeout=60)
    return int((here / "code").read_text()), done.stderr


@pytest.mark.parametrize("redirected", [*CLOSED, "| true", " 1<&0", " 2> /dev/full"])
def test_the_verdict_and_the_results_stand_whatever_can_be_printed(here: Path, redirected: str) -> None:
    code, err = shell(here, [*RUN, "--fail-if", "mean>0"], redirected)
    assert code == 1
    assert "Traceback" not in err
    assert "unexpectedly" not in err
    assert [json.loads(line)["id"] for line in (here / "x.jsonl").read_text().splitlines()] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("arguments", "redirected"),
    [(["--help"], " >&-"), (["templates"], "| true"), (["templates"], " <&- >&- 2>&-"), (RUN, "| true")],
)
def test_who_wants_to_read_nothing_gets_no_failure(here: Path, arguments: list[str], redirected: str) -> None:
    code, err = shell(here, arguments, redirected)
    assert (code, err.replace("sandbox: as asked -> fake\n", "")) == (0, "")


@pytest.mark.parametrize(("more", "code"), [([], 3), (["--fail-if", "mean>0"], 1)])
def test_what_is_printed_onto_a_full_disk_is_missed(here: Path, more: list[str], code: int) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    found, err = shell(here, [*RUN, "--json", *more], " > /dev/full")
    assert found == code
    assert err.splitlines()[-1] == (
        "evalcell: what is printed cannot be written (No space left on device); free some room"
    )
    assert len((here / "x.jsonl").read_text().splitlines()) == 3
