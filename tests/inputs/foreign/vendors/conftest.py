"""Tests that need of a vendor what is not there are skipped, and say why."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.inputs.foreign.vendors.environment import UnavailableError


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    try:
        return (yield)
    except UnavailableError as error:
        pytest.skip(str(error))
