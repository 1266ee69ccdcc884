"""Scripts with their tool's package in the process sandbox, beside the tool's own runner in a plain process."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import EVALCELL, Figures, run, spread, timed
from benchmarks.side_by_side import Bare, waiting
from runner.core.types import InputMapping
from runner.runs.api.warm import WarmRun, row_request
from sandboxes import SandboxConfig
from sandboxes.guest.supervisor import procfs
from tests.inputs.foreign.vendors.comparison import Row, real_rows
from tests.inputs.foreign.vendors.environment import HERE, UnavailableError, oracle_command, python, variables

TIMES = 6
"""The 200 real rows, so often."""
ROUNDS = 5
STARTS = 3
BAR = 0.8


class Case(NamedTuple):
    """A script, and what its tool's runner is."""

    script: str
    """A file of the tool's folder in `tests/inputs/foreign/vendors/scripts`, and the name in it."""
    oracle: str = ""
    """Named by the tool, unless it says otherwise."""
    given: dict[str, Any] = {}  # noqa: RUF012


CASES = {
    "deepeval": Case("length_ratio.py:LengthRatio", given={"threshold": 0.5}),
    "inspect": Case("last_number.py:last_number", "inspect_ai"),
    "mlflow": Case("same.py:same"),
    "phoenix": Case("words.py:words"),
    "opik": Case("words.py:Words"),
    "weave": Case("words.py:Words"),
    "pydantic-evals": Case("overlap.py:Overlap", "pydantic_evals"),
    "ragas": Case("words.py:Words"),
}


def figure_vendors(figures: Figures) -> None:
    for vendor, case in CASES.items():
        try:
            _vendor(figures, vendor, case)
        except UnavailableError as error:
            figures.add(f"a script of {vendor} with its package", "not measured", beside=str(error))


def _vendor(figures: Figures, vendor: str, case: Case) -> None:
    """
    Judged by rows a second once both have loaded the script. Beside it stands the ratio of processor time, which other
    programs of the machine do not change, and both from start to exit.
    """
    every = rows()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in every), "utf-8")
        path, entry = case.script.split(":")
        script = HERE / "scripts" / vendor / path
        oracle = HERE / "oracles" / f"{case.oracle or vendor}_oracle.py"
        theirs = oracle_command([python(vendor), oracle], script, entry, file, case.given)
        name = f"{script}:{entry}"
        ratios, rates, own, busy = [], [], [], []
        with loop(theirs) as bare, contextlib.closing(_warm(name, case.given)) as ours:
            _all_scored(ours, every)
            for _ in range(ROUNDS):
                began = processor()
                own.append(len(every) / bare.seconds())
                between = processor()
                rates.append(len(every) / timed(partial(_all_scored, ours, every)))
                ratios.append(rates[-1] / own[-1])
                busy.append((between - began) / (processor() - between))
        starts = _starts(name, case, file, theirs)
    ratio = statistics.median(ratios)
    figures.add(
        f"{vendor}'s package, process, 1 worker, {len(every):,} rows / its own runner",
        spread(ratios),
        f"≥ {BAR}",
        f"rows/s: {spread(rates, ',.0f')}, its own {spread(own, ',.0f')}; in processor time {spread(busy)}; {starts}",
        met=ratio >= BAR,
    )


def processor() -> float:
    """Seconds of processor time of this process and all below it, also of those that have ended."""
    spent = 0
    for process in (os.getpid(), *procfs.descendants(os.getpid())):
        with contextlib.suppress(OSError):
            spent += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return spent / os.sysconf("SC_CLK_TCK")


def rows() -> list[Row]:
    """Rows whose metadata have what Weave's script takes by a name of its own. Raises UnavailableError."""
    try:
        found = real_rows("text") * TIMES
    except FileNotFoundError as error:
        raise UnavailableError(str(error)) from None
    more = [{"metadata": row["metadata"] | {"target": json.dumps(row["reference"])}} for row in found]
    return [row | one | {"id": str(number)} for number, (row, one) in enumerate(zip(found, more, strict=True))]


def loop(command: list[str]) -> contextlib.AbstractContextManager[Bare]:
    """A tool's runner that has loaded the script, and waits to judge all rows once more."""
    return waiting([*command, "timed"], variables(), subprocess.DEVNULL)


def _warm(name: str, given: dict[str, Any]) -> WarmRun:
    config = SandboxConfig(backend="process", jobs=1)
    return WarmRun(row_request(name, sandbox=config, mapping=InputMapping(literals=given)))


def _all_scored(ours: WarmRun, every: list[Row]) -> None:
    outcomes = {result.outcome for result in ours.score(every, None)}
    assert outcomes == {"scored"}, outcomes


def _starts(name: str, case: Case, file: Path, theirs: list[str]) -> str:
    """Seconds from start to exit, of a command each."""
    given = [f"--set={key}={json.dumps(value)}" for key, value in case.given.items()]
    result = file.with_name("results.jsonl")
    command = [*EVALCELL, "run", name, str(file), "-q", "--sandbox", "process", "-j", "1", *given, "-o", str(result)]
    ours, own = [], []
    for _ in range(STARTS):
        ours.append(timed(partial(run, command)))
        own.append(timed(partial(run, theirs, **variables())))
    return f"start to exit {spread(ours)} s, its own {spread(own)} s"
