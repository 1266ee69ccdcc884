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

from runner.core.entry_points import settings_of
from runner.core.settings import SETTINGS, FileSettings, value_of
from runner.core.types import Evaluator
from runner.core.version import installed_version
from runner.engine.request import PreparedRun, RunRequest
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.evaluator_files import digests_of
from runner.inputs.evaluators.mapping import bind
from runner.results.output.digests import Digests
from sandboxes.judges.grant import Judges

State = Literal["unfinished", "finished", "stopped", "interrupted", "failed"]
"""`stopped`: as its verdict was sure. It has not all rows."""

_READ = [name for name in FileSettings.model_fields if name in SETTINGS]
"""How the dataset's file is read."""


def start_manifest(prepared: PreparedRun, lock: str, digests: Digests) -> dict[str, Any]:
    """
    Return the manifest of a run that goes on, and of one that was killed. Its sandbox is open.

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


def resume_manifest(
    old: dict[str, Any], prepared: PreparedRun, lock: str, digests: Digests, *, opened: bool
) -> dict[str, Any]:
    """
    Return the manifest of a run that goes on, from the one that it left. `opened`: its sandbox was needed again.

    The old one may be somebody else's: it says whether there is a lock, and never where; `lock` is its place.
    """
    kept = lock if old["lock"] is not None and os.path.isfile(lock) else None
    made = start_manifest(prepared, "", digests) | {"started": old["started"], "lock": kept}
    made["command"] = command(prepared, kept)
    if "order" in old:
        made["order"] = old["order"]
    return made if opened else made | {"sandbox": old["sandbox"]}


def conditions(prepared: PreparedRun, digests: Digests) -> dict[str, Any]:
    """
    Return what decides the rows' results, but for the sandbox's identity and lock, which are known once it is open.
    """
    request, evaluator, sandbox = prepared.request, prepared.evaluator, prepared.sandbox
    config = sandbox.config
    return {
        "evalcell": installed_version(),
        "evaluator": {
            "name": evaluator.name,
            "version": evaluator.version,
            "path": _named(request.evaluator),
            "sha256": sha256(evaluator.source.encode()).hexdigest(),
            **({"files": digests_of(evaluator.files)} if evaluator.files else {}),
            "outputs": {name: config.model_dump(mode="json") for name, config in evaluator.configs.items()},
        },
        "dataset": {
            "path": request.dataset,
            "sha256": digests.dataset,
            **({} if digests.stamp is None else {"stamp": digests.stamp}),
            "id": request.id,
            **{"place" if name == "rows" else name: _plain(getattr(request, name)) for name in _READ},
            "keep": list(request.keep),
            "limit": request.limit,
        },
        "mapping": bind(evaluator, request.mapping).mapping.model_dump(mode="json"),
        "limits": request.limits.model_dump(mode="json"),
        "seed": request.seed,
        "repeat": request.repeat,
        "cache": request.cache,
        **({"order": "random"} if request.stop_when_sure else {}),
        "isolation": sandbox.isolation,
        "packages": list(config.packages),
        "files": config.files,
        "file_sha256": dict(digests.files),
        "env": list(config.env),
        "disk": config.disk,
        "network": config.network,
        **({} if config.judges is None else {"judges": judges_of(config.judges)}),
        **{name: value for name in ("engine", "image", "runtime") if (value := getattr(config, name)) is not None},
        "allow_weak_isolation": config.allow_weak_isolation,
    }


def repeat_request(prepared: PreparedRun) -> str:
    """Return the run's request as JSON, with its script in it: what runs the same again, beside the dataset."""
    return prepared.request.model_copy(update={"evaluator": prepared.evaluator}).model_dump_json()


def judges_of(judges: Judges) -> dict[str, Any]:
    """Return what a manifest says of what was granted; of keys, the names of their variables."""
    inner = {"env_file", "hosts", "beside", "door", "goes_on", "remembers", "rounds", "shared"}
    granted = judges.model_dump(mode="json", exclude=inner)
    return {"hosts": [host.name for host in judges.hosts], **granted}


def finish_manifest(
    manifest: dict[str, Any],
    state: State,
    summary: Summary,
    notes: Sequence[str],
    seconds: float,
    error: str | None,
) -> dict[str, Any]:
    """
    Return the manifest of a run that is over, from that of its beginning, `seconds` ago by `elapsed`.

    `error` is what it failed with. The end is counted from the beginning: the machine's date may have been set
    meanwhile.
    """
    dataset = manifest["dataset"] | {"rows": summary.rows, "notes": list(notes)}
    figures = summary.model_dump(mode="json")
    finished = _written(datetime.fromisoformat(manifest["started"]) + timedelta(seconds=seconds))
    return manifest | {"state": state, "error": error, "finished": finished, "dataset": dataset, "summary": figures}


def seconds_since(started: str) -> float:
    """Return the seconds since a time that a manifest has; none if the machine's date was set back."""
    return max(0.0, (_now() - datetime.fromisoformat(started)).total_seconds())


def monotonic_seconds() -> float:
    """
    Return the seconds of a monotonic clock; it counts the time that the machine sleeps if the system has such a clock.
    """
    asleep_too = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if asleep_too is None else time.clock_gettime(asleep_too)


def command(prepared: PreparedRun, lock: str | None) -> str:
    """Return the command that repeats the run, without its options for output."""
    return shlex.join(_words(prepared, lock))


def _words(prepared: PreparedRun, lock: str | None) -> list[str]:
    request = prepared.request
    words = ["evalcell", "run", _named(request.evaluator), request.dataset or "-"]
    words += ["--sandbox", prepared.sandbox.config.backend]
    return words + setting_words("evalcell run", request, lock)


def setting_words(door: str, request: RunRequest, lock: str | None) -> list[str]:
    """Return the options of a command that give a request its settings, but for the sandbox's name."""
    words: list[str] = []
    for name in settings_of(door):
        setting, held = SETTINGS[name], value_of(name)
        value: Any = lock if name == "lock" else _value(request, name)
        if name == "sandbox" or value is None or (value == held.default and name != "lock"):
            continue
        if name == "lang":
            value = {"python": "py", "typescript": "ts"}[value]
        elif isinstance(value, dict):
            value = tuple(f"{key}={json.dumps(one) if name == 'set' else one}" for key, one in value.items())
        elif setting.unit > 1:
            value //= setting.unit
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else _given(option, value)
    return words


def _value(request: RunRequest, name: str) -> Any:
    """The value of a setting in a request; None where a request has none."""
    found: Any = request
    for field in (SETTINGS[name].field or name).split("."):
        found = getattr(found, field, None)
    return found


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


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
