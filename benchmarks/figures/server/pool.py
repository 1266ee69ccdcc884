"""The pool of a server: how soon a dry run answers, what 100 evaluators take, and a run against the command line's."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measure import OUTPUT, REFERENCE, Figures, dataset, held, ms, run, score, source, spread, timed
from runner.engine.request import RunRequest
from runner.inputs.evaluators.load import parse_evaluator
from runner.runs.pool.pool import WorkerPool
from runner.runs.pool.types import RunJob, RunPart, RunSegment, TryJob
from sandboxes.guest.supervisor.procfs import descendants
from tests.server.http.served import Served

RATE = 50.0
"""Requests in a second."""
EVALUATORS = 100
ROWS = 10_000
_ROW = {"output": OUTPUT, "reference": REFERENCE}


def asked(number: int = 0, **fields: object) -> RunRequest:
    evaluator = parse_evaluator(f"{source()}\n# {number}\n", "json-distance")
    return RunRequest.model_validate({"evaluator": evaluator, **fields})


async def paced(ask: Callable[[], Awaitable[str]], count: int) -> list[float]:
    """Seconds to each outcome; requests come at their times, whether or not those before are answered."""
    begin = time.perf_counter()

    async def one(number: int) -> float:
        at = begin + number / RATE
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        assert await ask() == "scored"
        return time.perf_counter() - at

    return list(await asyncio.gather(*(one(n) for n in range(count))))


async def answers(pool: WorkerPool, job: TryJob, count: int) -> list[float]:
    """Seconds to each answer of the pool."""

    async def ask() -> str:
        return (await pool.evaluate(job)).results[0].result.outcome

    return await paced(ask, count)


def quantiles(seconds: list[float]) -> tuple[float, float]:
    """The median, and what 99 of 100 do not exceed."""
    ordered = sorted(seconds)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.99)]


def figure_dry_runs(figures: Figures) -> None:
    async def body() -> tuple[list[float], list[float]]:
        job = TryJob(request=asked(), rows=[_ROW])
        with tempfile.TemporaryDirectory() as folder:
            rows = dataset(Path(folder), 200_000)
            async with WorkerPool() as pool:
                await answers(pool, job, 50)
                alone = await answers(pool, job, 1000)
                parts = pool.run(RunJob(request=asked(1, dataset=str(rows))))
                await anext(parts)
                drained = asyncio.create_task(_drained(parts))
                beside = await answers(pool, job, 500)
                assert not drained.done()
                drained.cancel()
                await asyncio.gather(drained, return_exceptions=True)
        return alone, beside

    alone, beside = asyncio.run(body())
    p50, p99 = quantiles(alone)
    busy50, busy99 = quantiles(beside)
    figures.add(
        "a dry run of one row through the pool, 50 a second: p50, p99",
        f"{ms(p50)}, {ms(p99)}",
        "8 ms, 40 ms, with HTTP",
        f"beside a run of 200,000 rows: {ms(busy50)}, {ms(busy99)}",
        met=p50 <= 8e-3 and p99 <= 40e-3,
    )


async def _drained(parts: AsyncIterator[RunPart]) -> None:
    async for _ in parts:
        pass


def figure_evaluators(figures: Figures) -> None:
    async def body() -> tuple[float, float, float]:
        async with WorkerPool() as pool:
            await pool.evaluate(TryJob(request=asked(), rows=[_ROW]))
            first = _megabytes()
            jobs = [TryJob(request=asked(number), rows=[_ROW]) for number in range(EVALUATORS)]
            for job in jobs:
                await pool.evaluate(job)
            loaded = _megabytes()
            again = [(await answers(pool, job, 1))[0] for job in jobs]
        return first, loaded, statistics.median(again)

    first, loaded, again = asyncio.run(body())
    name = f"{EVALUATORS} evaluators in use: memory of this process and its workers"
    beside = f"one evaluator: {first:.0f} MB; one of the {EVALUATORS} again: {ms(again)}"
    figures.add(name, f"{loaded:.0f} MB", "1,500 MB", beside, met=loaded <= 1500)


def _megabytes() -> float:
    own = os.getpid()
    return sum(held(process) for process in [own, *descendants(own)]) / 1024


def figure_served(figures: Figures) -> None:
    """The same through HTTP."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = Served(folder)
        try:
            alone, by_httpx, megabytes, ratios, beside = asyncio.run(_served(served, folder))
        finally:
            served.end()
    p50, p99 = quantiles(alone)
    # The bar is the server's: a client's own work on each request is not.
    name = "POST /v1/evaluate, one row, 50 a second, as a plain socket sees it: p50, p99"
    httpx50, httpx99 = quantiles(by_httpx)
    with_httpx = f"by httpx, with its own work: {ms(httpx50)}, {ms(httpx99)}"
    figures.add(name, f"{ms(p50)}, {ms(p99)}", "8 ms, 40 ms", with_httpx, met=p50 <= 8e-3 and p99 <= 40e-3)
    name = f"{EVALUATORS} evaluators in use: memory of the server and its workers"
    figures.add(name, f"{megabytes:.0f} MB", "1,500 MB", met=megabytes <= 1500)
    name = f"{ROWS:,} rows through HTTP / through the command line"
    figures.add(name, spread(ratios), "1.3", beside, met=statistics.median(ratios) <= 1.3)


class Plain:
    """A client over sockets that are kept open: it takes next to no time itself."""

    def __init__(self, url: str) -> None:
        self._host, self._port = url.removeprefix("http://").split(":")
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: bytes) -> Any:
        """What the server replies; it must not refuse."""
        # The server closes what was idle for some seconds.
        while self._idle and self._idle[-1][0].at_eof():
            self._idle.pop()[1].close()
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, int(self._port))
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        assert lines[0] == b"http/1.1 200 ok", lines
        (length,) = (line.split(b":")[1] for line in lines if line.startswith(b"content-length:"))
        reply = json.loads(await reader.readexactly(int(length)))
        self._idle.append((reader, writer))
        return reply

    def close(self) -> None:
        """Close the sockets."""
        for _, writer in self._idle:
            writer.close()


async def _served(served: Served, folder: Path) -> tuple[list[float], list[float], float, list[float], str]:
    async with httpx.AsyncClient(base_url=served.url, timeout=120) as client:

        async def post(path: str, body: dict[str, Any]) -> Any:
            reply = await client.post(path, json=body)
            assert reply.is_success, reply.text
            return reply.json()

        for number in range(EVALUATORS):
            await post("/v1/evaluators", {"name": f"e{number}", "source": f"{source()}\n# {number}\n"})
            await post("/v1/evaluate", {"evaluator": f"e{number}", "rows": [_ROW]})
        every = [served.process.pid, *descendants(served.process.pid)]
        megabytes = sum(held(process) for process in every) / 1024

        body = {"evaluator": "e1", "rows": [_ROW]}
        sent, plain = json.dumps(body).encode(), Plain(served.url)

        async def ask() -> str:
            return str((await plain.post("/v1/evaluate", sent))["results"][0]["result"]["outcome"])

        async def ask_httpx() -> str:
            return str((await post("/v1/evaluate", body))["results"][0]["result"]["outcome"])

        alone, by_httpx = await paced(ask, 1000), await paced(ask_httpx, 1000)
        plain.close()
        rows = dataset(folder, ROWS)
        posted = await client.post("/v1/datasets", params={"name": "rows.jsonl"}, content=rows.read_bytes())
        assert posted.is_success, posted.text
        pooled: list[float] = []
        lone: list[float] = []
        for number in range(3):
            began = time.perf_counter()
            found = await post("/v1/runs", {"evaluator": f"e{number}", "dataset": posted.json()["name"]})
            async with client.stream("GET", f"/v1/runs/{found['id']}/events") as events:
                async for _ in events.aiter_lines():
                    pass  # the stream of a run ends with it
            pooled.append(time.perf_counter() - began)
            ended = (await client.get(f"/v1/runs/{found['id']}")).json()
            assert (ended["state"], ended["rows"]) == ("finished", ROWS), ended
            command = score(rows, "-o", str(folder / "cli.jsonl"))
            lone.append(await asyncio.to_thread(timed, partial(run, command)))
    ratios = [one / other for one, other in zip(pooled, lone, strict=True)]
    return alone, by_httpx, megabytes, ratios, f"seconds: {spread(pooled)}, the command {spread(lone)}"


def figure_pool_run(figures: Figures) -> None:
    async def body(rows: Path, folder: Path) -> tuple[list[float], list[float]]:
        pooled: list[float] = []
        alone: list[float] = []
        async with WorkerPool() as pool:
            for number in range(3):
                began, file = time.perf_counter(), folder / "pool.jsonl"
                with file.open("wb") as out:
                    async for part in pool.run(RunJob(request=asked(number, dataset=str(rows)))):
                        if isinstance(part, RunSegment):
                            out.write(part.segment.data)
                pooled.append(time.perf_counter() - began)
                command = score(rows, "-o", str(folder / "cli.jsonl"))
                alone.append(await asyncio.to_thread(timed, partial(run, command)))
        return pooled, alone

    with tempfile.TemporaryDirectory() as folder:
        rows = dataset(Path(folder), ROWS)
        pooled, alone = asyncio.run(body(rows, Path(folder)))
    ratios = [one / other for one, other in zip(pooled, alone, strict=True)]
    beside = f"seconds: {spread(pooled)}, the command {spread(alone)}"
    name = f"{ROWS:,} rows through the pool / through the command line"
    figures.add(name, spread(ratios), "1.3, with HTTP", beside, met=statistics.median(ratios) <= 1.3)
