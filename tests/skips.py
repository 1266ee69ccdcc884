"""Tests that this machine cannot run."""

from __future__ import annotations

import pytest

from sandboxes import SandboxUnavailableError, find


def need(backend: str) -> None:
    """Skip the test where a sandbox is not available, with what would make it so."""
    try:
        find(backend).check()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
