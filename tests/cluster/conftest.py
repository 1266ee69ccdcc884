"""A cluster of two nodes in this machine, which is real but for its network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.cluster.nodes import Nodes, two_nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[Nodes]:
    """A cluster of two nodes with two processors each, and RAY_ADDRESS that names it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("tried on Linux")
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with two_nodes() as made:
        yield made
