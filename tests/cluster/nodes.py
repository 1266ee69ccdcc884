"""A cluster whose nodes are in this machine."""

from __future__ import annotations

import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def patient(found: Callable[..., Any]) -> Callable[..., Any]:
    """A node is waited for that long on a busy machine; Ray itself gives up after 30 seconds."""

    def wait(*arguments: Any) -> Any:
        deadline = time.monotonic() + 200
        while True:
            try:
                return found(*arguments)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    return wait


@contextmanager
def two_nodes(processors: int = 2) -> Iterator[Any]:
    """
    A cluster of two nodes with so many processors each, and RAY_ADDRESS that names it.

    `added()` gives it a further node.
    """
    with tempfile.TemporaryDirectory(prefix="ec-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": folder,
        }.items():
            patch.setenv(name, value)  # before it is imported
        from ray._private import services
        from ray.cluster_utils import Cluster

        logging.getLogger("ray").setLevel(logging.CRITICAL)
        patch.setattr(services, "get_node", patient(services.get_node))
        node: dict[str, Any] = {
            "num_cpus": processors,
            "object_store_memory": 100 << 20,
            "include_dashboard": False,
            "include_log_monitor": False,
            "no_monitor": True,
        }
        made: Any = Cluster(initialize_head=True, head_node_args=node)
        try:
            made.add_node(**node)
            made.added = lambda: made.add_node(**node)
            patch.setenv("RAY_ADDRESS", made.address)
            yield made
        finally:
            made.shutdown()
