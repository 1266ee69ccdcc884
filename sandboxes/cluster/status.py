"""The state of a cluster: its nodes, the workers of all runs, and what is wrong with whom."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import Field, ValidationError

from sandboxes.base import Model
from sandboxes.cluster.connection import ADDRESS, Connection, address_of
from sandboxes.cluster.facts import Facts, facts
from sandboxes.cluster.facts import facts as own_facts
from sandboxes.cluster.member import last_line
from sandboxes.cluster.worker import NAMESPACE
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.host.shield import finish
from sandboxes.registry import backends, find

_NODE = 60.0  # seconds for a node to start a process and look at its sandboxes
_WORKER = 5.0  # seconds for a worker to say how it is
_SHM = 256 << 20  # bytes; with less, Ray keeps what is on its way on the disk


class NodeStatus(Model):
    """A node, as Ray knows it, and as a task there found it."""

    id: str
    host: str
    alive: bool
    processors: int
    evalcell: str | None = None
    """The version there. None: it did not answer, or has none."""
    python: str | None = None
    works: dict[str, str] = Field(default_factory=dict)
    """Sandboxes that work there, each with how."""
    fails: dict[str, str] = Field(default_factory=dict)
    """Sandboxes that do not, each with the reason."""


class WorkerStatus(Model):
    """A worker of a run."""

    host: str
    pid: int
    sandbox: str | None
    """Its identity. None: it is not open yet."""
    rows: int
    rows_per_second: float
    """Of the last half minute."""
    batches: int
    """That it runs now."""
    seconds: float
    """Since it began."""


class ClusterStatus(Model):
    """What `look` found."""

    address: str
    processors: int
    free: float
    nodes: tuple[NodeStatus, ...]
    workers: tuple[WorkerStatus, ...]
    problems: tuple[str, ...]
    """What is wrong with whom, each with the next step."""

    @property
    def rows_per_second(self) -> float:
        """Of all workers."""
        return sum(worker.rows_per_second for worker in self.workers)


async def look(on: str = "ray") -> ClusterStatus:
    """
    Look at a cluster: `ray`, the one of RAY_ADDRESS, or `ray://HOST:PORT`. Starts nothing that stays.

    Raises:
        SandboxUnavailableError: If there is none.
        UnsupportedConfigError: For what is no cluster.
    """
    address = address_of(on)
    if address is None:
        raise SandboxUnavailableError(f"no cluster is named; set {ADDRESS}, or name one: ray://HOST:10001")
    connection = Connection(on, 1)
    try:
        await connection.open()
        return await _look(address, connection.ray)
    finally:
        await finish(connection.close)


async def _look(address: str, ray: Any) -> ClusterStatus:
    known, problems = await asyncio.to_thread(ray.nodes), list[str]()
    nodes = await asyncio.gather(*(_node(ray, node, problems) for node in known))
    workers = await _workers(ray, problems)
    free = await asyncio.to_thread(ray.available_resources)
    problems += _differences(nodes)
    alive = [node for node in nodes if node.alive]
    return ClusterStatus(
        address=address,
        processors=sum(node.processors for node in alive),
        free=float(free.get("CPU", 0.0)),
        nodes=tuple(sorted(nodes, key=lambda node: (node.host, node.id))),
        workers=tuple(sorted(workers, key=lambda worker: (worker.host, worker.pid))),
        problems=tuple(problems),
    )


async def _node(ray: Any, node: dict[str, Any], problems: list[str]) -> NodeStatus:
    host = str(node.get("NodeManagerHostname") or node.get("NodeManagerAddress") or "?")[:200]
    processors = int((node.get("Resources") or {}).get("CPU", 0))
    status = NodeStatus(id=str(node["NodeID"]), host=host, alive=bool(node.get("Alive")), processors=processors)
    name = f"node {host} ({status.id[:8]})"
    if not status.alive:
        problems.append(f"{name} is gone; its workers are replaced on other nodes: `ray start` adds one")
        return status
    task = ray.remote(node_facts).options(num_cpus=0, max_retries=0, scheduling_strategy=_only(status.id))
    try:
        facts = await _reply(task.remote(), _NODE)
        status = status.model_copy(update={key: facts[key] for key in ("evalcell", "python", "works", "fails")})
        status = NodeStatus.model_validate(status.model_dump())
    except TimeoutError:
        problems.append(f"{name} did not answer within {_NODE:.0f} seconds; look at its load, and at `ray status`")
        return status
    except (ValidationError, KeyError, TypeError):
        problems.append(f"{name} gave an answer of another evalcell; install {version('evalcell')} there")
        return status
    except ray.exceptions.RayError as e:
        problems.append(f"{name} cannot run evalcell ({last_line(e)}); install {version('evalcell')} there")
        return status
    if status.evalcell != version("evalcell"):
        problems.append(f"{name} has evalcell {status.evalcell}; install {version('evalcell')} there, as here")
    elif facts.get("code") != own_facts()["code"]:
        problems.append(
            f"{name} has other code of evalcell than this program, though its version; a run there is refused: install "
            "the same evalcell"
        )
    if "wasm" in status.fails:
        problems.append(f"{name}, sandbox wasm: {status.fails['wasm']}")
    if isinstance(shm := facts.get("shm"), int) and shm < _SHM:
        problems.append(f"{name} has {shm >> 20} MB left in /dev/shm, so that Ray uses its disk; give it 1 GB")
    return status


def _only(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


async def _workers(ray: Any, problems: list[str]) -> list[WorkerStatus]:
    named = await asyncio.to_thread(lambda: ray.util.list_named_actors(all_namespaces=True))
    names = [actor["name"] for actor in named if actor["namespace"] == NAMESPACE]
    found = await asyncio.gather(*(_worker(ray, name, problems) for name in names))
    return [worker for worker in found if worker is not None]


async def _worker(ray: Any, name: str, problems: list[str]) -> WorkerStatus | None:
    try:
        actor = await asyncio.to_thread(ray.get_actor, name, NAMESPACE)
        return WorkerStatus.model_validate(await _reply(actor.status.remote(), _WORKER))
    except TimeoutError:
        problems.append(
            f"worker {name[:8]} did not answer within {_WORKER:.0f} seconds; it starts, or its node is too busy"
        )
    except (ValidationError, AttributeError):
        problems.append(f"worker {name[:8]} is of another evalcell; install the same version everywhere")
    except ValueError:
        pass  # it ended since it was listed
    except ray.exceptions.RayError as e:
        problems.append(f"worker {name[:8]} died ({last_line(e)}); its run goes on with the others")
    return None


async def _reply(reference: Any, seconds: float) -> Any:
    waiting: Awaitable[Any] = asyncio.wrap_future(reference.future())
    async with asyncio.timeout(seconds):
        return await waiting


def _differences(nodes: Sequence[NodeStatus]) -> Iterable[str]:
    """Nodes on which a sandbox is another one than on most: it could give other scores, so that runs refuse them."""
    answered = [node for node in nodes if node.evalcell is not None]
    for name in sorted({name for node in answered for name in (*node.works, *node.fails)}):
        notes = Counter(node.works.get(name) for node in answered)
        usual = notes.most_common(1)[0][0]
        for node in answered:
            if (has := node.works.get(name)) != usual and not (name == "wasm" and name in node.fails):
                why = f"works as {has}" if has else f"does not work ({node.fails.get(name, 'it is not there')})"
                most = f"as {usual}" if usual else "not at all"
                yield (
                    f"node {node.host} ({node.id[:8]}): sandbox {name} {why}, but {most} on most nodes; "
                    "a run with it is refused: make them alike"
                )


def node_facts() -> Facts:
    """Return versions, room in /dev/shm, and of each sandbox whether it works and how; data alone."""
    found: Facts = {**facts(), "shm": None, "works": {}, "fails": {}}
    if hasattr(os, "statvfs") and os.path.isdir("/dev/shm"):
        room = os.statvfs("/dev/shm")
        found["shm"] = room.f_bavail * room.f_frsize
    for backend in backends().values():
        if not backend.elsewhere and not backend.hidden:
            try:
                found["works"][backend.name] = find(backend.name).check()
            except SandboxError as e:
                found["fails"][backend.name] = str(e)
    return found
