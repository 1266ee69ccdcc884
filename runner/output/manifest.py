"""manifest.json of a results folder: how a run was done, so that it can be traced and done again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from runner.cli.main import installed
from runner.evaluators.mapping import bind
from runner.results.summary import Summary
from runner.types import Evaluator, InputMapping
from sandboxes.base import Limits, Sandbox

if TYPE_CHECKING:
    from runner.cli.run import Options

State = Literal["unfinished", "finished", "interrupted", "failed"]


@dataclass(frozen=True)
class Run:
    """What a run is known to be before its first row. `mapping` goes over the script's own."""

    options: Options
    evaluator: Evaluator
    mapping: InputMapping
    limits: Limits
    sandbox: Sandbox


def begun(run: Run, lock: str) -> dict[str, Any]:
    """
    The manifest of a run that goes on, and of one that was killed. Its sandbox is open.

    `lock` is the path at which the sandbox's lock is kept. Of variables it has the names alone.
    """
    evaluator, options, sandbox, config = run.evaluator, run.options, run.sandbox, run.sandbox.config
    return {
        "evalcell": installed(),
        "state": "unfinished",
        "error": None,
        "started": _written(_now()),
        "finished": None,
        "command": shlex.join(_command(run, lock if sandbox.lock is not None else options.lock)),
        "evaluator": {
            "name": evaluator.name,
            "version": evaluator.version,
            "path": options.evaluator,
            "sha256": sha256(evaluator.source.encode()).hexdigest(),
        },
        "dataset": {"path": options.dataset, "limit": options.limit, "rows": None, "notes": []},
        "mapping": bind(evaluator, run.mapping).mapping.model_dump(mode="json"),
        "limits": run.limits.model_dump(mode="json"),
        "seed": options.seed,
        "isolation": sandbox.isolation,
        "packages": list(config.packages),
        "lock": lock if sandbox.lock is not None else None,
        "files": config.files,
        "env": list(config.env),
        "network": config.network,
        "allow_weak_isolation": config.allow_weak_isolation,
        "sandbox": sandbox.manifest,
        "summary": None,
    }


def ended(
    begun: dict[str, Any],
    state: State,
    summary: Summary,
    notes: Sequence[str],
    seconds: float,
    error: str | None = None,
) -> dict[str, Any]:
    """
    The manifest of a run that is over, from that of its beginning, `seconds` ago by `elapsed`.

    `error` is what it failed with. The end is counted from the beginning: the machine's date may have been set
    meanwhile.
    """
    dataset = begun["dataset"] | {"rows": summary.rows, "notes": list(notes)}
    figures = summary.model_dump(mode="json")
    finished = _written(datetime.fromisoformat(begun["started"]) + timedelta(seconds=seconds))
    return begun | {"state": state, "error": error, "finished": finished, "dataset": dataset, "summary": figures}


def elapsed() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    asleep_too = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if asleep_too is None else time.clock_gettime(asleep_too)


def _command(run: Run, lock: str | None) -> list[str]:
    """The command that does the same again: what it prints and writes is up to whoever runs it."""
    options = run.options
    words = ["evalcell", "run", options.evaluator, options.dataset, "--sandbox", run.sandbox.config.backend]
    words += _given("--lang", {"python": "py", "typescript": "ts"}.get(options.language or ""))
    words += _given("--map", options.paths)
    words += _given("--set", options.literals)
    words += _given("--limit", options.limit)
    words += _given("--seed", options.seed)
    words += _given("--timeout", options.timeout)
    words += _given("--memory", options.memory)
    words += _given("--isolation", options.isolation)
    words += _given("--jobs", options.jobs)
    words += _given("--with", options.packages)
    words += _given("--lock", lock)
    words += _given("--install-timeout", options.install_timeout)
    words += _given("--file", options.readable)
    words += _given("--env", options.env)
    words += _given("--env-file", options.env_file)
    words += ["--allow-network"] * options.network
    words += ["--allow-weak-isolation"] * options.weak
    return [*words, *_given("--fail-if", options.gates), *_given("--max-failed", options.max_failed)]


def _given(option: str, value: object) -> Iterator[str]:
    """The option with its value, once for each of several; nothing where it was not given."""
    for one in value if isinstance(value, tuple) else () if value is None else (value,):
        yield from (option, f"{one:.15g}" if isinstance(one, float) else str(one))


def _now() -> datetime:
    return datetime.now(UTC)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
