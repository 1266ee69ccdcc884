"""The connection to a Ray cluster; without an address, a cluster of this machine that lives as long as the run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.shield import finish

ADDRESS = "RAY_ADDRESS"
_CLIENT = "ray://"
_OBJECTS = 128 << 20  # bytes of shared memory for a cluster of this machine; a batch of rows is small
_SOCKET_PATH = 40  # characters of a folder in which Ray's sockets have room
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_AUTHENTICATION = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}


def address_of(on: str) -> str | None:
    """
    The address of a cluster that was named: `ray`, `ray://HOST:PORT`. None: a cluster of this machine is started.

    `ray` is the cluster of RAY_ADDRESS, if that is set. Raises UnsupportedConfigError.
    """
    if on == "ray":
        return os.environ.get(ADDRESS) or None
    host, _, port = on.removeprefix(_CLIENT).rpartition(":")
    if not (on.startswith(_CLIENT) and host and port.isdecimal() and int(port) < 1 << 16 and on.isprintable()):
        raise UnsupportedConfigError(
            f"{on[:80]!r} is no cluster; write `ray` for the one of {ADDRESS}, or else of this machine, "
            "or `ray://HOST:10001`"
        )
    return on


def import_ray(*, local: bool) -> Any:
    """
    Ray, told to be quiet before it is imported. Raises SandboxUnavailableError if it is not installed.

    A `local` cluster has a token of its own; without, Ray writes one to the user's home.
    """
    settings = dict(_SETTINGS)
    if local and "ray" not in sys.modules and not os.environ.keys() & _AUTHENTICATION:
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # here: it takes half a second
    except ImportError as e:
        raise SandboxUnavailableError(f"Ray is not installed ({e}); run: pip install 'evalcell[ray]'") from None
    for name in ("ray", "ray._private.worker", "ray._private.node"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return ray


class Connection:
    """A connection to a cluster. A program that is connected already stays so; nothing of its is ended."""

    def __init__(self, on: str, cpus: int) -> None:
        self._address = address_of(on)
        self._cpus = cpus
        self._folder: Path | None = None
        self._ours = False
        self.ray: Any = None

    async def open(self) -> None:
        """Connect. Raises SandboxUnavailableError."""
        self.ray = await asyncio.to_thread(import_ray, local=self._address is None)
        if self.ray.is_initialized():
            return
        # In a thread, as it takes seconds; there Ray leaves the handlers of signals alone, too.
        opening = asyncio.create_task(asyncio.to_thread(self._connect))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxUnavailableError):
                await finish(lambda: asyncio.shield(opening))
            raise

    def _connect(self) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.CRITICAL}
        self._ours = True
        try:
            if self._address is None:
                self._folder = _short_folder()
                self.ray.init(
                    num_cpus=self._cpus,
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    object_store_memory=_OBJECTS,
                    _temp_dir=str(self._folder),
                    **quiet,
                )
            else:
                self.ray.init(address=self._address, **quiet)
        except Exception as e:  # Ray has no class of its own for this
            self._disconnect()
            where = "a cluster of this machine could not be started" if self._address is None else self._address
            lines = [line.strip() for line in str(e).splitlines() if line.strip()]
            why = lines[0][:300] if lines else type(e).__name__
            raise SandboxUnavailableError(f"{where}: {why}; `ray status` says what runs there") from None

    def _disconnect(self) -> None:
        if self._ours:
            self._ours = False
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def close(self) -> None:
        """Let go of the cluster; one that was started here ends. Safe twice."""
        if self.ray is not None:
            await finish(lambda: asyncio.to_thread(self._disconnect))

    @property
    def cpus(self) -> int:
        """The processors of all nodes."""
        return int(self.ray.cluster_resources().get("CPU", 0))


def _short_folder() -> Path:
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="evalcell-ray-", dir=usual if len(usual) <= _SOCKET_PATH else "/tmp"))
