"""`kill -9` at random moments loses no row and doubles none; nor does anything else that is stored become damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.results.store import kills


def killed(folder: Path, address: str | None, times: int) -> int:
    words = [sys.executable, "-m", "tests.results.store.kills", str(folder), str(times)]
    words += [address] if address else []
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(kills.__file__).parents[3], timeout=110)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.rotating("kills of what writes to the store", "store")
def test_a_few_kills(address: str | None, folder: Path) -> None:
    assert killed(folder, address, 3) > 0


@pytest.mark.slow
@pytest.mark.thorough("20 kills of what writes to the store: 3 of each kind of database stand for them")
def test_twenty_kills(address: str | None, folder: Path) -> None:
    assert killed(folder, address, 20) > 0
