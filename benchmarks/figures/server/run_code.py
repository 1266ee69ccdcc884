"""
Programs by `/run_code`, as a trainer sends them: one of a hundred loops, takes memory or forks without end.

    python -m benchmarks.figures.server.run_code [PROGRAMS] [CLIENTS] [ADDRESS]

Prints the programs a second; those that were lost, or told as wrong without being it; the longest time in which no
answer came; and how late programs without an end were stopped. With the ADDRESS of another server of the protocol
(`http://127.0.0.1:8080/run_code` of SandboxFusion) both get the same programs in turns, of a second kind: no forks, as
that server runs them with no wall around. Nothing else should run meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks.measure import Figures
from tests.server.http.served import Served

PROGRAMS, CLIENTS = 20_000, 64
SECONDS = 2.0
"""For each program; a trainer gives ten."""
LATE_BAR, RATIO_BAR, STALL_BAR = 0.05, 2.0, 5.0
TURNS = 4
"""Of each server, where two are compared."""
_BAD = {
    "loop": "while True:\n    pass\n",
    "memory": "x = []\nwhile True:\n    x.append(b'x' * 2**20)\n",
    "fork": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
}
_GOOD = "n = int(input())\nprint(sum(i * i for i in range(n)))\n"


@dataclass
class Tally:
    """What became of programs."""

    outcomes: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)
    """Seconds past its limit of each program that was stopped for it."""
    seconds: float = 0.0
    stall: float = 0.0
    """The most seconds in which no answer came."""

    @property
    def rate(self) -> float:
        """Programs a second."""
        return self.outcomes.total() / self.seconds

    def count(self, beginning: str) -> int:
        """Good programs with an outcome that begins so."""
        return sum(number for name, number in self.outcomes.items() if name.startswith(f"good: {beginning}"))

    @property
    def wrong(self) -> int:
        """Good programs that were told as wrong."""
        return self.count("") - self.count("right") - self.count("lost")

    @property
    def p99_late(self) -> float:
        """The lateness that one of a hundred exceeds."""
        return sorted(self.late)[max(0, -(-len(self.late) * 99 // 100) - 1)] if self.late else 0.0


def program(number: int, forks: bool) -> tuple[str, str]:
    """What kind of program has this number, and its text: one of a hundred never ends by itself."""
    kinds = list(_BAD) if forks else ["loop", "memory"]
    kind = kinds[number // 100 % len(kinds)] if number % 100 == 50 else "good"
    return kind, _BAD.get(kind, _GOOD)


async def score(tally: Tally, url: str, numbers: range, clients: int, forks: bool = True) -> None:
    """Run the programs with these numbers."""
    waiting = iter(numbers)
    began = last = time.perf_counter()

    async def client(http: httpx.AsyncClient) -> None:
        nonlocal last
        for number in waiting:
            kind, code = program(number, forks)
            asked = {"code": code, "stdin": f"{number % 50}\n", "language": "python", "run_timeout": SECONDS}
            asked |= {"compile_timeout": SECONDS, "memory_limit_MB": 256}
            tally.outcomes[f"{kind}: {await one(http, url, asked, number, tally.late)}"] += 1
            tally.stall, last = max(tally.stall, time.perf_counter() - last), time.perf_counter()

    async with httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_connections=clients)) as http:
        await asyncio.gather(*(client(http) for _ in range(clients)))
    tally.seconds += time.perf_counter() - began


async def one(http: httpx.AsyncClient, url: str, asked: dict[str, object], number: int, late: list[float]) -> str:
    """The outcome of one program, which is asked for again after 504, as verl does."""
    for _ in range(3):
        try:
            reply = await http.post(url, json=asked)
        except httpx.HTTPError as error:
            return f"lost ({type(error).__name__})"
        if reply.status_code != 504:
            break
        await asyncio.sleep(1)
    if reply.status_code != 200:
        return f"lost ({reply.status_code})"
    run = reply.json()["run_result"]
    if run is None:
        return "lost (SandboxError)"
    if run["status"] == "TimeLimitExceeded":
        late.append(run["execution_time"] - SECONDS)
        return "too late"
    right = run["stdout"] == f"{sum(i * i for i in range(number % 50))}\n"
    return "right" if right and run["return_code"] == 0 else f"ended with {run['return_code']}"


@contextmanager
def serving() -> Iterator[str]:
    """Serve, warm, while it lasts."""
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder))
        try:
            asyncio.run(score(Tally(), f"{server.url}/run_code", range(20), 4))
            yield f"{server.url}/run_code"
        finally:
            server.end()


def measure(count: int, clients: int) -> Tally:
    """Run the programs, forks among them, on a server of our own."""
    tally = Tally()
    with serving() as url:
        asyncio.run(score(tally, url, range(count), clients))
    return tally


def compare(count: int, clients: int, other: str) -> tuple[Tally, Tally]:
    """Run programs without forks on a server of our own and on the other one, in turns."""
    ours, theirs = Tally(), Tally()
    with serving() as url:
        asyncio.run(score(Tally(), other, range(20), 4, forks=False))
        for turn in range(TURNS):
            numbers = range(count * turn // TURNS, count * (turn + 1) // TURNS)
            for tally, address in ((ours, url), (theirs, other)):
                asyncio.run(score(tally, address, numbers, clients, forks=False))
    return ours, theirs


def show(name: str, tally: Tally) -> None:
    """Print what became of the programs."""
    print(f"{name}: {tally.rate:,.1f} programs/s, {tally.seconds:,.0f} s, load {os.getloadavg()[0]:.1f}")
    for outcome, number in sorted(tally.outcomes.items()):
        print(f"{number:>8,}  {outcome}")
    late = f"{tally.p99_late:.3f} s late at p99, {max(tally.late, default=0):.3f} s at most"
    print(f"  {tally.count('lost')} lost, {tally.wrong} wrong by our fault; {late}; no answer for {tally.stall:.2f} s")


def figure_run_code(figures: Figures, count: int = 1_000, clients: int = CLIENTS) -> None:
    """Programs of a trainer, fewer than by the module itself."""
    tally = measure(count, clients)
    name = f"{count:,} programs by /run_code, 1 % bombs, {clients} clients"
    figures.add(f"{name}: a second", f"{tally.rate:,.1f}")
    lost, wrong = tally.count("lost"), tally.wrong
    figures.add(f"{name}: lost, wrong by our fault", f"{lost}, {wrong}", "0, 0", met=lost == wrong == 0)
    figures.add(
        f"{name}: the longest time without an answer",
        f"{tally.stall:.2f} s",
        f"≤ {STALL_BAR:.0f} s",
        met=tally.stall <= STALL_BAR,
    )
    late, bar = tally.p99_late, f"≤ {LATE_BAR * 1e3:.0f} ms"
    figures.add(f"{name}: stopped late, p99", f"{late * 1e3:.0f} ms", bar, met=late <= LATE_BAR)


def main(count: int = PROGRAMS, clients: int = CLIENTS, other: str | None = None) -> None:
    """Run the programs on a server of their own, and print what became of them."""
    print(f"{count:,} programs by /run_code, {clients} clients, {len(os.sched_getaffinity(0))} cores", flush=True)
    if other is None:
        show("evalcell", measure(count, clients))
        return
    ours, theirs = compare(count, clients, other)
    show("evalcell", ours)
    show(other, theirs)
    print(f"{ours.rate / theirs.rate:.2f} times as many programs a second as by the other one (bar {RATIO_BAR})")


if __name__ == "__main__":
    count, clients, other = [*sys.argv[1:4], "", "", ""][:3]
    main(int(count or PROGRAMS), int(clients or CLIENTS), other or None)
