"""`resume`: what a results folder has of a run that was stopped, and whether the run that goes on is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from runner.core.errors import ResumeError
from runner.core.text import describe, list_names, printable, read_bounded, rows_of, whole
from runner.core.types import Evaluator
from runner.engine.request import PreparedRun
from runner.inputs.datasets.rows import DECODER
from runner.results.output.digests import Digests
from runner.results.output.manifest import conditions
from runner.results.output.stored_rows import RowsPrefix, whole_batches, whole_lines
from runner.results.output.stored_run import StoredPart, StoredRun
from sandboxes.base import Sandbox
from sandboxes.host.regular import read_regular
from sandboxes.words.wording import Message, Setting

_INSTEAD = Message("give ", Setting("overwrite"), " in place of ", Setting("resume"))
ANEW, _ANEW_OR = Message("to start anew, ", _INSTEAD), Message(_INSTEAD, " to start anew")
LOCK = "requirements.lock"
_MANIFEST_BYTES = 16 << 20
_LOCK_BYTES = 8 << 20
_SHOWN = 60  # characters of a value


class ResumableRun(StoredRun):
    """
    The rows of a run that goes on, and its manifest. `more`: it was finished, and now has more rows to score.

    It gives the engine each row's result, in order, after comparing.

    Nothing in the folder is trusted: the manifest must say what this run says, and each row what its case says.
    """

    identity: str

    def __init__(
        self,
        folder: str,
        rows: Path,
        kept: RowsPrefix,
        manifest: dict[str, Any],
        evaluator: Evaluator,
        *,
        more: bool = False,
    ) -> None:
        identity: str = manifest["sandbox"]["sandbox"]
        finished = not more and manifest["state"] == "finished" and _results_of(manifest) == kept.rows
        super().__init__([StoredPart(rows, kept)], evaluator, identity, finished=finished, again=str(_ANEW_OR))
        self.folder = folder
        self.manifest = manifest
        self.kept = kept
        self._path = rows

    def check(self, sandbox: Sandbox) -> None:
        """Raise ResumeError unless the sandbox and its packages are those of the beginning."""
        if sandbox.identity != self.identity:
            raise change_error(self.folder, [_was("the sandbox", self.identity, sandbox.identity)])
        if sandbox.lock is not None and sandbox.config.lock is None and sandbox.lock != self._lock():
            raise ResumeError(
                f"{self.folder} cannot be resumed: the packages resolve to other versions than those of its "
                f"requirements.lock; give that one as {Setting('sandbox.lock')}, or {_ANEW_OR}"
            )

    def _lock(self) -> str | None:
        lock = self.manifest["lock"]
        return None if lock is None else read_bounded("the lock", str(self._path.parent / LOCK), _LOCK_BYTES)

    def refuse_more(self) -> None:
        """Refuse a row that is not known. Raises ResumeError if the run was finished."""
        if self.finished:
            raise ResumeError(f"{self.folder} is finished, and the dataset has more rows now; {ANEW}")


def find_resumed(
    folder: str, manifest: Path, rows: Path, prepared: PreparedRun, digests: Digests, total: int | None
) -> ResumableRun | None:
    """
    Return what can be resumed; None where nothing was begun.

    `total` is the number of rows, where it is known.

    Raises:
        ResumeError: If it is not the same run, or not intact.
    """
    if prepared.dataset is not None and digests.dataset is None and digests.stamp is None:
        named = (
            "standard input" if prepared.dataset == "-" else f"{printable(whole(prepared.dataset))}, no regular file,"
        )
        raise ResumeError(
            f"{named} cannot be read a second time, so that no run of it can be resumed; save it as a file"
        )
    try:
        kept = whole_lines(rows)
    except FileNotFoundError:
        kept = RowsPrefix()
    except OSError as e:
        raise ResumeError(f"{rows} cannot be read ({e.strerror}); {ANEW}") from None
    if not manifest.exists():
        if kept.rows:
            raise ResumeError(f"{folder} has rows, but no {manifest.name} that tells what they are of; {ANEW}")
        return None
    old = read_manifest(manifest)
    if old.get("order") is not None and old["dataset"].get("limit") != prepared.request.limit:
        limits = old["dataset"].get("limit"), prepared.request.limit
        raise change_error(folder, [f"{_was('`limit`', *limits)}, and its rows are in a random order of so many"])
    if found_changes := list(changes(old, prepared, digests)):
        raise change_error(folder, found_changes)
    evaluator, sandbox, request = prepared.evaluator, prepared.sandbox, prepared.request
    there = kept.rows // request.repeat
    refuse_fewer(folder, there, request.limit)
    before, wanted = (
        old["dataset"].get("limit"),
        min((n for n in (total, request.limit) if n is not None), default=None),
    )
    # A run that ended before its limit has all rows there are; that of rows in Python, all that there were.
    more = wanted != there and (before == there if total is None else wanted is not None and wanted > there)
    found = ResumableRun(folder, rows, kept, old, evaluator, more=more)
    if sandbox.isolation == "batch" and not found.finished:
        kept = whole_batches(rows, kept, evaluator, sandbox.batch, prepared.request.repeat)
        found = ResumableRun(folder, rows, kept, old, evaluator, more=more)
    return found


def refuse_fewer(folder: str, there: int, limit: int | None) -> None:
    """Raise ResumeError if there are more rows than are to be scored. More of the same dataset may be."""
    if limit is not None and there > limit:
        raise change_error(folder, [f"it has {rows_of(there)} already, and `limit` is {limit}"])


def _results_of(manifest: dict[str, Any]) -> int | None:
    rows = manifest["dataset"].get("rows")
    return rows * manifest["repeat"] if isinstance(rows, int) else None


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest, with the parts that are used. Raises ResumeError."""
    where = printable(whole(str(path)))
    try:
        data = read_regular(path, _MANIFEST_BYTES + 1)
        if len(data) > _MANIFEST_BYTES:
            raise ValueError(f"larger than {_MANIFEST_BYTES >> 20} MB")
        found = DECODER.decode(data.decode())
    except OSError as e:
        raise ResumeError(f"{where} cannot be read ({e.strerror}); {ANEW}") from None
    except json.JSONDecodeError as e:
        raise ResumeError(f"{where}:{e.lineno}: not JSON: {e.msg} at column {e.colno}; {ANEW}") from None
    except (ValueError, RecursionError) as e:
        raise ResumeError(f"{where}: not a manifest: {printable(str(e), 120)}; {ANEW}") from None
    for name, kind in (
        (("state",), str),
        (("started",), str),
        (("lock",), str | None),
        (("evaluator",), dict),
        (("dataset",), dict),
        (("sandbox", "sandbox"), str),
    ):
        if not isinstance(_at(found, name), kind):
            raise ResumeError(
                f"{where}: not a manifest: `{'.'.join(name)}` is {describe(_at(found, name), 40)}; {ANEW}"
            )
    try:
        started = datetime.fromisoformat(found["started"])
        if started.tzinfo is None or not 1970 <= started.year < 9000:  # its end is counted from it
            raise ValueError
    except ValueError:
        raise ResumeError(f"{where}: `started` is {describe(found['started'], 40)}, which is no time; {ANEW}") from None
    made: dict[str, Any] = found
    return made


def changes(old: dict[str, Any], prepared: PreparedRun, digests: Digests, others: Sequence[str] = ()) -> Iterator[str]:
    """Yield what is not as it was, in words. `others` are the names of the dataset's files that are not."""
    new = conditions(prepared, digests)
    name = old["sandbox"]["sandbox"].partition("/")[0]
    if name != prepared.sandbox.name:
        yield _was("the sandbox", name, prepared.sandbox.name)
    for spot in _leaves(new):
        before, now = _at(old, spot), _at(new, spot)
        if spot in (("evaluator", "path"), ("dataset", "limit")) or (spot[0] == "judges" and spot[1] not in _ANSWERS):
            continue
        if spot == ("dataset", "path") and isinstance(before, str) and isinstance(now, str):
            before, now = Path(before).name, Path(now).name  # it is in messages about rows
        if before == now and type(before) is type(now):
            continue
        if spot == ("evaluator", "sha256"):
            yield _was(
                "the evaluator", f"version {old['evaluator'].get('version')}", f"version {new['evaluator']['version']}"
            )
        elif spot in (("dataset", "sha256"), ("dataset", "stamp")):
            which = f" ({list_names(others, 3)})" if others else ""
            yield f"the dataset has another content{which}"
        elif spot[:2] == ("evaluator", "files"):
            yield f"the evaluator's file {spot[-1]} has another content"
        elif spot[0] == "file_sha256":
            yield f"the file {spot[-1]} has another content"
        elif spot != ("evaluator", "version"):
            yield _was(_WORDS.get(spot, f"`{'.'.join(spot)}`"), before, now)
    for group in ("mapping", "files", "file_sha256"):
        for spot in _leaves({group: old.get(group)}):
            if _at(new, spot) is _NOTHING:
                yield _was(f"`{'.'.join(spot)}`", _at(old, spot), _NOTHING)


_ANSWERS = ("hosts", "roles", "secrets")
"""What decides about a judge's answers: a budget may be raised, and more be asked at once."""
_WORDS = {("evaluator", "name"): "the evaluator's name", ("dataset", "path"): "the dataset", ("evalcell",): "evalcell"}
_NOTHING = type("_Nothing", (), {"__repr__": lambda _: "nothing"})()


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping) and value and len(path) < 3:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif path and not (isinstance(value, Mapping) and not value):
        yield path


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name, _NOTHING) if isinstance(value, Mapping) else _NOTHING
    return value


def _was(what: str, before: object, now: object) -> str:
    said = [
        value if isinstance(value, str) and value.isprintable() else describe(value, _SHOWN) for value in (before, now)
    ]
    return f"{printable(what, 80)} was {printable(said[0], _SHOWN)} and is {printable(said[1], _SHOWN)}"


def change_error(folder: str, changes: list[str]) -> ResumeError:
    changes = list(dict.fromkeys(changes))
    more = f", and {len(changes) - 5} more" if len(changes) > 5 else ""
    return ResumeError(f"{folder} cannot be resumed: {', '.join(changes[:5])}{more}; undo that, or {_ANEW_OR}")
