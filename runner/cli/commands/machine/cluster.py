"""`evalcell cluster`: the nodes and workers of a Ray cluster, and what is wrong with whom."""

from __future__ import annotations

from rich.text import Text

from runner.cli import signals
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, INTERRUPTED
from runner.cli.views import render
from runner.core.text import json_text
from sandboxes.cluster.status import ClusterStatus, look


def cluster(on: str, as_json: bool) -> int:
    """Print what is there; return COULD_NOT_JUDGE where no node can run evalcell. Raises SandboxUnavailableError."""
    found: list[ClusterStatus] = []

    async def ask() -> None:
        found.append(await look(on))

    if signals.run(ask()):
        return INTERRUPTED
    [status] = found
    if as_json:
        print(json_text(status.model_dump(mode="json"), indent=2))
    else:
        _print(status)
    return DONE if any(node.evalcell for node in status.nodes) else COULD_NOT_JUDGE


def _print(status: ClusterStatus) -> None:
    out = render.out()
    nodes = render.table("node", "processors", "evalcell", "Python", "sandboxes")
    for node in status.nodes:
        works = ", ".join(node.works) or ("none" if node.alive else "")
        host = f"{node.host} ({node.id[:8]})"
        versions = [node.evalcell or ("?" if node.alive else "gone"), node.python or ""]
        nodes.add_row(*(render.text(cell) for cell in (host, str(node.processors), *versions, works)))
    out.print(nodes)
    if status.workers:
        workers = render.table("worker", "process", "sandbox", "rows", "rows/s", "batches", "minutes")
        for worker in status.workers:
            cells = [worker.host, str(worker.pid), worker.sandbox or "opening", f"{worker.rows:,}"]
            cells += [f"{worker.rows_per_second:,.1f}", str(worker.batches), f"{worker.seconds / 60:.1f}"]
            workers.add_row(*(render.text(cell) for cell in cells))
        out.print(workers)
    count = f"{len(status.workers)} worker{'s' * (len(status.workers) != 1)}"
    free = f"{status.processors} processors, {status.free:g} of them free"
    out.say(render.text(f"{free}; {count}, {status.rows_per_second:,.1f} rows/s"))
    for problem in status.problems:
        what, _, step = problem.rpartition("; ")
        out.say(Text("WRONG ", style="red").append(render.text(what or step)))
        if what:
            out.say(Text("      -> ").append(render.text(step)))
