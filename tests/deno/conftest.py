"""A sandbox for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandboxes import SandboxUnavailableError
from tests.deno.opened import Opened


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    made = Opened()
    try:
        made.sandbox()
    except SandboxUnavailableError as e:
        made.close()
        pytest.skip(str(e))
    yield made
    made.close()
