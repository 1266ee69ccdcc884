"""Attacks that need a kernel: each comes to an end that was foreseen, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.landlock_abi import VERSIONS, held
from tests.sandboxes.hostile.boxes import Boxes
from tests.sandboxes.hostile.scripts import Hostile, scripts

pytestmark = pytest.mark.rotating("hostile", "process")

FOLDER = Path(__file__).with_name("hostile")
CATEGORIES = ("daemons", "escapes", "files", "frames", "hogs", "kernel", "load")
SCRIPTS = scripts(FOLDER, CATEGORIES)


@pytest.fixture(scope="module", params=VERSIONS)
def boxes(request: pytest.FixtureRequest, open_folder: Path) -> Iterator[Boxes]:
    """Both tiers in both isolations, each in a process of its own."""
    with held(request.param):
        found = Boxes.start(open_folder, ["batch", "call"], request.param)
        yield found
        found.finish()


@pytest.mark.parametrize("script", [s for s in SCRIPTS if not s.attacks_at_load], ids=lambda s: s.id)
def test_an_attack_on_the_kernel_harms_nobody(boxes: Boxes, script: Hostile) -> None:
    boxes.attack(script)


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.attacks_at_load], ids=lambda s: s.id)
def test_an_attack_by_the_process_that_loads_harms_nobody(boxes: Boxes, script: Hostile) -> None:
    boxes.load(script)
