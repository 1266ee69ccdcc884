"""The hostile scripts of the wasm sandbox, in a process: each comes to an end that was foreseen, and harms nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.landlock_abi import VERSIONS, held
from tests.sandboxes.hostile.boxes import Boxes
from tests.sandboxes.hostile.scripts import Hostile, scripts

pytestmark = pytest.mark.rotating("hostile", "process")

SCRIPTS = scripts()


@pytest.fixture(scope="module", params=VERSIONS)
def boxes(request: pytest.FixtureRequest, open_folder: Path) -> Iterator[Boxes]:
    """The process sandbox in the tiers that work here, each in a process of its own."""
    with held(request.param):
        found = Boxes.start(open_folder, ["call"], request.param)
        yield found
        found.finish()


@pytest.mark.parametrize("script", [s for s in SCRIPTS if not s.attacks_at_load], ids=lambda s: s.id)
def test_a_hostile_script_harms_nobody(boxes: Boxes, script: Hostile) -> None:
    boxes.attack(script)


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.attacks_at_load], ids=lambda s: s.id)
def test_a_script_that_is_hostile_while_it_loads_harms_nobody(boxes: Boxes, script: Hostile) -> None:
    boxes.load(script)
