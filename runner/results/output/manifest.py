"""manifest.json of a results folder: a description of the run, to trace and repeat it."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from runner.core.types import Evaluator
from runner.core.version import installed
from runner.engine.aggregate import TIMEOUT as AGGREGATE_TIMEOUT
from runner.engine.request import Prepared, RunRequest
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.mapping import bind
from runner.results.output.digests import Digests
from sandboxes.base import MB

State = Literal["unfinished", "finished", "interrupted", "failed"]

_NONE = Digests()


def begun(prepared: Prepared, lock: str, digests: Digests = _NONE) -> dict[str, Any]:
    """
    The manifest of a run that goes on, and of one that was killed. Its sandbox is open.

    `lock` is the path at which the sandbox's lock is kept. Of variables it has the names alone.
    """
    sandbox = prepared.sandbox
    kept = lock if sandbox.lock is not None else None
    decided = conditions(prepared, digests)
    dataset = decided["dataset"] | {"rows": None, "notes": []}
    return {
        "evalcell": None,  # the first of the conditions
        "state": "unfinished",
        "error": None,
        "started": _written(_now()),
        "finished": None,
        "command": command(prepared, kept),
        **decided,
        "dataset": dataset,
        "lock": kept,
        "sandbox": sandbox.manifest,
        "summary": None,
    }


def resumed(old: dict[str, Any], prepared: Prepared, lock: str, digests: Digests, *, opened: bool) -> dict[str, Any]:
    """
    The manifest of a run that goes on, from the one that it left. `opened`: its sandbox was needed again.

    The old one may be somebody else's: it says whether there is a lock, and never where; `lock` is its place.
    """
    kept = lock if old["lock"] is not None and os.path.isfile(lock) else None
    made = begun(prepared, "", digests) | {"started": old["started"], "lock": kept}
    made["command"] = command(prepared, kept)
    return made if opened else made | {"sandbox": old["sandbox"]}


def conditions(prepared: Prepared, digests: Digests) -> dict[str, Any]:
    """What decides the rows' results, but for the sandbox's identity and lock, which are known once it is open."""
    request, evaluator, sandbox = prepared.request, prepared.evaluator, prepared.sandbox
    config = sandbox.config
    return {
        "evalcell": installed(),
        "evaluator": {
            "name": evaluator.name,
            "version": evaluator.version,
            "path": _named(request.evaluator),
            "sha256": sha256(evaluator.source.encode()).hexdigest(),
            "outputs": {name: config.model_dump(mode="json") for name, config in evaluator.configs.items()},
        },
        "dataset": {
            "path": request.dataset,
            "sha256": digests.dataset,
            **({} if digests.stamp is None else {"stamp": digests.stamp}),
            "id": request.id,
            "encoding": request.encoding,
            "place": request.rows,
            "empty": request.empty,
            "json_columns": list(request.json_columns),
            "keep": list(request.keep),
            "limit": request.limit,
        },
        "mapping": bind(evaluator, request.mapping).mapping.model_dump(mode="json"),
        "limits": request.limits.model_dump(mode="json"),
        "seed": request.seed,
        "repeat": request.repeat,
        "cache": request.cache,
        "isolation": sandbox.isolation,
        "packages": list(config.packages),
        "files": config.files,
        "file_sha256": dict(digests.files),
        "env": list(config.env),
        "disk": config.disk,
        "network": config.network,
        "allow_weak_isolation": config.allow_weak_isolation,
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


def seconds_since(started: str) -> float:
    """Seconds since a time that a manifest has; none if the machine's date was set back."""
    return max(0.0, (_now() - datetime.fromisoformat(started)).total_seconds())


def elapsed() -> float:
    """Seconds of a monotonic clock, which includes the time that the machine sleeps if the system has such a clock."""
    asleep_too = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if asleep_too is None else time.clock_gettime(asleep_too)


def command(prepared: Prepared, lock: str | None) -> str:
    """The command that repeats the run, without its options for output."""
    return shlex.join(_words(prepared, lock))


def _words(prepared: Prepared, lock: str | None) -> list[str]:
    request = prepared.request
    words = ["evalcell", "run", _named(request.evaluator), request.dataset or "-"]
    words += ["--sandbox", prepared.sandbox.config.backend]
    words += _given("--on", request.on)
    words += scoring_options(request, lock)
    words += _given("--id", request.id)
    words += _given("--encoding", request.encoding)
    words += _given("--rows", request.rows)
    words += _given("--empty", None if request.empty == "text" else request.empty)
    words += _given("--json-columns", request.json_columns)
    words += _given("--keep", request.keep)
    words += _given("--limit", request.limit)
    words += _given("--seed", request.seed)
    words += _given("--repeat", None if request.repeat == 1 else request.repeat)
    words += ["--cache"] * request.cache
    if request.aggregate_timeout != AGGREGATE_TIMEOUT:
        words += _given("--aggregate-timeout", request.aggregate_timeout)
    words += _given("--require", request.require)
    words += _given("--fail-if", request.gates)
    words += _given("--max-failed", request.max_failed)
    words += _given("--max-abstained", request.max_abstained)
    words += _given("--baseline", request.baseline)
    words += _given("--fail-if-worse", request.fail_if_worse)
    return [*words, *(["--allow-inconclusive"] * request.allow_inconclusive)]


def scoring_options(request: RunRequest, lock: str | None) -> list[str]:
    """The options that say how a row is scored, but for the sandbox's name."""
    config, limits = request.sandbox, request.limits.model_dump(exclude_unset=True)
    words = [*_given("--lang", {"python": "py", "typescript": "ts"}.get(request.language or ""))]
    words += _given("--dialect", request.dialect)
    words += _given("--dialect-failures", None if request.dialect_failures == "failed" else request.dialect_failures)
    words += _given("--map", tuple(f"{name}={path}" for name, path in request.mapping.paths.items()))
    words += _given("--set", tuple(f"{name}={json.dumps(v)}" for name, v in request.mapping.literals.items()))
    words += _given("--timeout", limits.get("timeout"))
    words += _given("--memory", limits["memory"] // MB if "memory" in limits else None)
    words += _given("--cpus", limits.get("cpu"))
    words += _given("--disk", None if config.disk is None else config.disk // MB)
    words += _given("--isolation", config.isolation)
    words += _given("--jobs", config.jobs)
    words += _given("--with", config.packages)
    words += _given("--lock", lock)
    words += _given(
        "--install-timeout", config.install_timeout if "install_timeout" in config.model_fields_set else None
    )
    words += _given("--file", tuple(f"{name}={path}" for name, path in config.files.items()))
    words += _given("--env", config.env)
    words += _given("--env-file", config.env_file)
    words += ["--allow-network"] * config.network
    return [*words, *(["--allow-weak-isolation"] * config.allow_weak_isolation)]


def _named(evaluator: str | Evaluator) -> str:
    return evaluator.name if isinstance(evaluator, Evaluator) else evaluator


def _given(option: str, value: object) -> Iterator[str]:
    """The option with its value, once for each of several; nothing where it was not given."""
    for one in value if isinstance(value, tuple) else () if value is None else (value,):
        yield from (option, f"{one:.15g}" if isinstance(one, float) else str(one))


def _now() -> datetime:
    return datetime.now(UTC)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
