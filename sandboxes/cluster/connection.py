"""The connection to a Ray cluster; without an address, a cluster of this machine that lives as long as the run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sandboxes.cluster.files import HeldFolder, sweep
from sandboxes.cluster.guardian import MARK, Guardian
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.env import hidden_variables
from sandboxes.host.shield import finish

ADDRESS = "RAY_ADDRESS"
_CLIENT = "ray://"
_FOLDER = "evalcell-ray-"
_SOCKET_PATH = 40  # characters of a folder in which Ray's sockets have room
_OBJECTS = 128 << 20  # bytes of shared memory for a cluster of this machine; a batch of rows is small
_ATTEMPTS = 2  # Ray waits for a node for 30 seconds only, which a busy machine may need
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_AUTHENTICATION = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}


def address_of(on: str) -> str | None:
    """
    Return the address of a cluster that was named: `ray`, `ray://HOST:PORT`. None: a cluster of this machine is
    started.

    `ray` is the cluster of RAY_ADDRESS, if that is set.

    Raises:
        UnsupportedConfigError: The sandbox cannot do what is asked for.
    """
    if on == "ray":
        address = os.environ.get(ADDRESS)
        return None if address == "local" else address or None
    host, _, port = on.removeprefix(_CLIENT).rpartition(":")
    if not (on.startswith(_CLIENT) and host and port.isdecimal() and int(port) < 1 << 16 and on.isprintable()):
        raise UnsupportedConfigError(
            f"{on[:80]!r} is no cluster; write `ray` for the one of {ADDRESS}, or else of this machine, "
            "or `ray://HOST:10001`"
        )
    return on


def import_ray(*, local: bool) -> Any:
    """
    Import Ray, told to be quiet before it is imported.

    A `local` cluster has a token of its own; without, Ray writes one to the user's home.

    Raises:
        SandboxUnavailableError: If it is not installed.
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


class _Shared:
    """What this process is connected to. Ray allows one cluster for a process, and runs may overlap."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.address: str | None = None
        self.folder: HeldFolder | None = None
        self.guardian: Guardian | None = None
        self.users = 0
        """The connections that are open, if one of them made it; 0 if the program itself did, or nobody."""

    def join(self, ray: Any, address: str | None, cpus: int, keys: Iterable[str]) -> bool:
        """
        Connect, or use what is there. Whether `leave` shall be called later.

        A cluster that is started here has not the variables of the `keys`.
        """
        with self.lock:
            if self.users and address != self.address:
                raise SandboxUnavailableError(
                    f"this program runs on {self.address or 'a cluster of this machine'} meanwhile, and Ray connects a "
                    "program to one cluster only; wait for that run, or begin this one in another process"
                )
            if not self.users and ray.is_initialized():
                if address is not None and address.startswith(_CLIENT):
                    raise SandboxUnavailableError(
                        "this program is connected to a Ray cluster already; name that one with `ray`, "
                        "or call ray.shutdown() first"
                    )
                return False
            if not self.users:
                with hidden_variables(keys):
                    self._connect(ray, address, cpus)
                self.address = address
            self.users += 1
            return True

    def _connect(self, ray: Any, address: str | None, cpus: int) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.CRITICAL}
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if address is None or not address.startswith(_CLIENT):
                    quiet["job_config"] = _job(ray)
                if address is not None:
                    ray.init(address=address, **quiet)
                    _print_errors(False)
                    return
                above = _above()
                sweep(above, _FOLDER)
                self.folder = HeldFolder(above, _FOLDER)
                if sys.platform.startswith("linux"):
                    self.guardian = Guardian(str(self.folder.path))
                with _marked(str(self.folder.path)):
                    # The address: a variable of this name with an empty value would be one.
                    ray.init(
                        address="local",
                        num_cpus=cpus,
                        include_dashboard=False,
                        _node_ip_address="127.0.0.1",
                        object_store_memory=_OBJECTS,
                        _temp_dir=str(self.folder.path),
                        **quiet,
                    )
                _print_errors(False)
                return
            except Exception as e:  # Ray has no class of its own for this
                self._disconnect(ray)
                if address is None and attempt < _ATTEMPTS:
                    continue
                raise SandboxUnavailableError(_why(e, address)) from None

    def leave(self, ray: Any) -> None:
        """The last one disconnects; a cluster that was started here ends."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self._disconnect(ray)

    def _disconnect(self, ray: Any) -> None:
        ray.shutdown()
        _print_errors(True)
        if self.guardian is not None:
            self.guardian.end()
            self.guardian = None
        if self.folder is not None:
            self.folder.close()
            self.folder = None


_SHARED = _Shared()


class Connection:
    """A connection to a cluster. A program that is connected already stays so; nothing of its is ended."""

    def __init__(self, on: str, cpus: int, keys: Iterable[str] = ()) -> None:
        """
        Check the address.

        Args:
            on: The cluster.
            cpus: The processors of one that is started here.
            keys: The variables that it must not have.

        Raises:
            UnsupportedConfigError: It names none.
        """
        self._keys = (*keys,)
        self._address = address_of(on)
        self._cpus = cpus
        self._joined = False
        self.ray: Any = None

    async def open(self) -> None:
        """Connect. Raises SandboxUnavailableError."""
        self.ray = await asyncio.to_thread(import_ray, local=self._address is None)
        # In a thread, as it takes seconds; there Ray leaves the handlers of signals alone, too.
        opening = asyncio.create_task(asyncio.to_thread(self._join))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxUnavailableError):
                await finish(lambda: asyncio.shield(opening))
            raise
        finally:
            _keep_handler()

    def _join(self) -> None:
        self._joined = _SHARED.join(self.ray, self._address, self._cpus, self._keys)

    def _leave(self) -> None:
        if self._joined:
            self._joined = False
            _SHARED.leave(self.ray)

    async def close(self) -> None:
        """Let go of the cluster; one that was started here ends with its last connection. Safe twice."""
        if self.ray is not None:
            await finish(lambda: asyncio.to_thread(self._leave))

    @property
    def cpus(self) -> int:
        """The processors of all nodes."""
        return int(self.ray.cluster_resources().get("CPU", 0))


def refuse_dead_node() -> None:
    """
    Raise SandboxUnavailableError if the raylet of this program's own node is gone.

    Ray then ends all workers of the program, wherever they are, and starts none. It says so in no error.
    """
    node = getattr(sys.modules.get("ray._private.worker"), "_global_node", None)
    path = getattr(node, "raylet_socket_name", None)
    if not isinstance(path, str) or not os.path.isabs(path) or sys.platform == "win32":
        return  # Ray's client has no node
    with socket.socket(socket.AF_UNIX) as tried:
        tried.setblocking(False)  # one that lives may not answer for a while
        try:
            tried.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            raise SandboxUnavailableError(
                "Ray's raylet on this machine died, and all workers of this run with it; start Ray here anew, "
                "then run it again with `resume`"
            ) from None
        except OSError:
            return  # too many wait: it lives


def _job(ray: Any) -> Any:
    """
    What Ray is told of this program.

    Unless a job has a folder of its own, Ray puts the one that the program is called from before all others in which
    its workers look for modules. There, a file of that folder could take the place of any module.
    """
    job = ray.job_config.JobConfig()
    job._runtime_env_has_working_dir = lambda: True
    return job


def _print_errors(wanted: bool) -> None:
    """Whether Ray prints what nodes report: pages of a raylet's log where one dies. `log_to_driver` is not about it."""
    if (worker := sys.modules.get("ray._private.worker")) is not None:
        vars(worker)["_worker_logs_enabled"] = wanted


def _above() -> Path:
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) <= _SOCKET_PATH else "/tmp")


@contextlib.contextmanager
def _marked(folder: str) -> Iterator[None]:
    """What is started meanwhile has the mark of the cluster, also by other threads: the guardian tells those apart."""
    mark = {MARK: folder, "SPT_NOENV": "1"}  # without the second, agents that set their title overwrite the first
    before = {name: os.environ.get(name) for name in mark}
    os.environ.update(mark)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _keep_handler() -> None:
    """Ray's own handler of SIGTERM, set below Python's, prints a page before that runs."""
    if threading.current_thread() is threading.main_thread() and (kept := signal.getsignal(signal.SIGTERM)) is not None:
        signal.signal(signal.SIGTERM, kept)


def _why(error: Exception, address: str | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = lines[0][:300] if lines else type(error).__name__
    if address is None:
        return f"a cluster of this machine could not be started: {why}; free memory or processors, and run it again"
    if "grpcio" in why:
        return "Ray's client needs grpcio; run: pip install 'ray[client]', or set RAY_ADDRESS=HOST:6379 and name `ray`"
    return f"{address}: {why}; `ray status` says what runs there, and RAY_AUTH_TOKEN must be the cluster's"
