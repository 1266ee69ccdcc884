"""A script's own files go to a provider's machines with it, and its rows are those of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner import evaluate
from tests.remote.served import config
from tests.several import ROWS, SCORES, Several, both

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines run Linux"),
    pytest.mark.rotating("machines of a provider", "remote"),
]


@pytest.mark.timeout(300)
@both
def test_a_machine_has_them(several: Several, tmp_path: Path) -> None:
    several.lay(tmp_path)
    report = evaluate(tmp_path, [*ROWS, {"output": 1, "reference": "a"}], sandbox=config("e2b"))
    here = evaluate(tmp_path, [*ROWS, {"output": 1, "reference": "a"}])
    assert [one.score for one in report.results] == [*SCORES, None]
    failed, local = report.results[-1].error, here.results[-1].error
    assert failed is not None
    assert failed == local
    assert next(name for name in several.files if name.startswith("deep/")) in failed.message
