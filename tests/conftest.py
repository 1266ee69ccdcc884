"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxes.wasm.compiled import compiled


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of sample cases beside the repository."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder of sample cases is not here")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> None:
    """On a new machine the sandbox is compiled before the first test, which would otherwise wait for it and see it."""
    compiled(lambda line: None)
