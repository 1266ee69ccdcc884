"""A cluster whose nodes are in this machine."""

from __future__ import annotations

import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Nodes:
    """A cluster of two nodes. What Python finds in the folder `own`, only the second has."""

    def __init__(self, processors: int, own: Path) -> None:
        from ray.cluster_utils import Cluster

        self.own = own
        own.mkdir()
        self._processors = processors
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=self._node())
        self.address: str = self._cluster.address
        self.second = self.added(env_vars={"PYTHONPATH": str(own)})
        self.third: Any = None
        """A node that a test has added."""
        self.kept: list[Any] = []
        """What a test keeps in the memory that nodes share."""

    def _node(self, **more: Any) -> dict[str, Any]:
        small = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        return {"num_cpus": self._processors, "object_store_memory": 100 << 20, **small, **more}

    def added(self, **more: Any) -> Any:
        """A further node. `env_vars` are its variables."""
        for attempt in range(3):
            try:
                return self._cluster.add_node(**self._node(**more))
            except Exception:  # Ray 2.60's raylet asserts at its start, now and then, on a busy machine
                if attempt == 2:
                    raise

    def remove(self, node: Any) -> None:
        """End a node without a word."""
        self._cluster.remove_node(node, allow_graceful=False)

    def whole(self) -> None:
        """Put a second node in the place of one that was lost."""
        if not self.second.live_processes():
            self.second = self.added(env_vars={"PYTHONPATH": str(self.own)})

    def close(self) -> None:
        """End all nodes."""
        import ray

        ray.shutdown()  # a test that failed may have left this process connected, and then no node may be removed
        self._cluster.shutdown()


def patient(found: Callable[..., Any]) -> Callable[..., Any]:
    """A node is waited for two minutes, as the machine may be busy; Ray itself gives up after 30 seconds."""

    def wait(*arguments: Any) -> Any:
        deadline = time.monotonic() + 120
        while True:
            try:
                return found(*arguments)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    return wait


@contextmanager
def two_nodes(processors: int = 2) -> Iterator[Nodes]:
    """A cluster of two nodes with so many processors each, and RAY_ADDRESS that names it."""
    with tempfile.TemporaryDirectory(prefix="ec-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": folder,
        }.items():
            patch.setenv(name, value)  # before it is imported
        from ray._private import services

        logging.getLogger("ray").setLevel(logging.CRITICAL)
        patch.setattr(services, "get_node", patient(services.get_node))
        made = Nodes(processors, Path(folder) / "own")
        try:
            patch.setenv("RAY_ADDRESS", made.address)
            yield made
        finally:
            made.close()
