"""A script in the process sandbox and in a bare loop of plain Python, taken in turns: machines are noisy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import program_in
from runner.engine.batches import shared_batch
from sandboxes import Call, Isolation, Limits, Program
from sandboxes.boxes.host_files import view
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.scripts import python

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def loaded(
    source: str, *, packages: tuple[str, ...] = (), jobs: int = 1, isolation: Isolation = "batch"
) -> AbstractAsyncContextManager[tuple[ProcessSandbox, Program]]:
    """An open sandbox, and the script in it. Raises SandboxUnavailableError."""
    config = ProcessConfig(jobs=jobs, isolation=isolation, packages=packages)
    return program_in(ProcessSandbox(config), python(source))


@contextlib.contextmanager
def bare_loop(source: str, wanted: list[Call], site: Path | None) -> Iterator[Bare]:
    """The script in a plain Python, the sandbox's own, with the packages folder that the sandbox shows."""
    with tempfile.TemporaryDirectory() as folder:
        script, rows = Path(folder, "evaluator.py"), Path(folder, "rows.json")
        script.write_text(source, encoding="utf-8")
        rows.write_text(json.dumps([call.arguments for call in wanted]), encoding="utf-8")
        command = [view().python, "-I", "-S", str(Path(__file__).with_name("bare.py")), str(script), str(rows)]
        command += [str(site)] if site else []
        with waiting(command, ONE_THREAD) as bare:
            yield bare


@contextlib.contextmanager
def waiting(command: list[str], env: Mapping[str, str], stderr: int | None = None) -> Iterator[Bare]:
    """A process that has judged all its rows once."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, encoding="utf-8", env=env) as process:
        bare = Bare(process)
        bare.seconds()
        yield bare
        assert process.stdin is not None
        process.stdin.close()


class Bare:
    """A Python that waits to evaluate all its rows once more."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def seconds(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@dataclass
class Batches:
    """Seconds that batches took, the rows' number in each alike; and the seconds of all, workers side by side."""

    rows: int
    each: list[float]
    whole: float

    @property
    def rate(self) -> float:
        return self.rows / self.whole


async def in_batches(program: Program, wanted: list[Call], runs: int, most: int) -> Batches:
    """All calls, in batches as the engine makes them, so many at once; `most` is the sandbox's `batch`."""
    waiting: list[list[Call]] = []
    while (start := sum(map(len, waiting))) < len(wanted):
        waiting.append(wanted[start : start + shared_batch(len(waiting), most)])
    each: list[float] = []

    async def worker() -> None:
        while waiting:
            batch, began = waiting.pop(0), time.perf_counter()
            async for found in program.run(batch, Limits()):
                assert found.status == "ok", found
            each.append((time.perf_counter() - began) / len(batch))

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(runs)))
    return Batches(len(wanted), each, time.perf_counter() - began)


@dataclass
class Compared:
    """Rounds of a bare loop and of sandboxes with so many workers, in turns."""

    tier: str = ""
    bare: list[float] = field(default_factory=list)
    """Rows a second."""
    boxed: dict[int, list[Batches]] = field(default_factory=dict)
    """By the number of workers."""

    def ratios(self, workers: int) -> list[float]:
        """Of rows a second, a round each."""
        return [boxed.rate / bare for boxed, bare in zip(self.boxed[workers], self.bare, strict=True)]

    def row(self, workers: int) -> float:
        """Seconds a row, p50 of all batches."""
        return statistics.median(seconds for batches in self.boxed[workers] for seconds in batches.each)


async def compared(
    source: str, wanted: list[Call], *, packages: tuple[str, ...] = (), workers: tuple[int, ...], rounds: int
) -> Compared:
    """Raises SandboxUnavailableError."""
    found = Compared(boxed={count: [] for count in workers})
    async with contextlib.AsyncExitStack() as stack:
        boxes = {n: await stack.enter_async_context(loaded(source, packages=packages, jobs=n)) for n in workers}
        sandbox = next(iter(boxes.values()))[0]
        found.tier = sandbox.manifest["tier"]
        bare = stack.enter_context(bare_loop(source, wanted, await site(packages)))
        for count, (_, program) in boxes.items():
            await in_batches(program, wanted, count + sandbox.queue, sandbox.batch)
        for _ in range(rounds):
            found.bare.append(len(wanted) / bare.seconds())
            for count, (_, program) in boxes.items():
                found.boxed[count].append(await in_batches(program, wanted, count + sandbox.queue, sandbox.batch))
    return found


async def site(packages: tuple[str, ...]) -> Path | None:
    """The folder of these packages, as the sandbox has it too. Raises SandboxUnavailableError."""
    if not packages:
        return None
    from sandboxes.packages import install, resolve

    python, deadline = Path(view().python), asyncio.get_running_loop().time() + 300
    lock = await resolve(packages, python, say=lambda line: None, deadline=deadline)
    return await install(lock, python, say=lambda line: None, deadline=deadline)
