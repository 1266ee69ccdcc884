"""The folder of a run in parts: the plan, the parts, and the manifest of all of them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.core.errors import OutputError, ResumeError
from runner.core.text import printable, read_bounded
from runner.engine.request import PreparedRun
from runner.engine.scoring.summary import Summary
from runner.inputs.datasets.location import File, is_url
from runner.results.output.digests import Digests, digests
from runner.results.output.files import replace_file, same_file, write_error
from runner.results.output.folder import (
    LOCK,
    MANIFEST,
    PARTS,
    PLAN,
    ROWS,
    check_folder,
    part_name,
    refuse_rows,
    remove_parts,
)
from runner.results.output.folder_lock import FolderLock
from runner.results.output.links import refuse_links
from runner.results.output.manifest import (
    State,
    finish_manifest,
    monotonic_seconds,
    resume_manifest,
    seconds_since,
    start_manifest,
)
from runner.results.output.resume import ANEW, change_error, changes, read_manifest, refuse_fewer
from runner.runs.parts.types import FIGURES, IDS, PartFigures, PartPlan, WorkerGreeting
from runner.runs.parts.work import read_figures
from sandboxes.host.regular import read_regular
from sandboxes.words.wording import Setting

_MARK = ".evalcell-mark"
_PLAN = 1 << 30
_LOCK = 8 << 20


class PartsFolder:
    """
    The folder of one run in parts. Nothing is touched before `take`.

    `found` are the dataset's files. `lock`, which the run reads, may be the folder's own, and then stays as it is.

    Raises OutputError for a folder that can not, or must not be written.
    """

    def __init__(
        self,
        path: str,
        prepared: PreparedRun,
        found: Sequence[File],
        *,
        inputs: Sequence[str],
        lock: str | None,
        overwrite: bool = False,
    ) -> None:
        self.path = path
        self._overwrite = overwrite
        self._fewer: PartPlan | None = None
        """The plan of a run that goes on with more rows."""
        self.plan: PartPlan | None = None
        """The plan of the run that goes on."""
        self.identity: str | None = None
        """The sandbox of the run that goes on."""
        self.lock: str | None = None
        """The lock of its packages."""
        self._folder = Path(path)
        self._prepared = prepared
        self._given_lock = prepared.request.sandbox.lock
        self._found = found
        self._keeps_lock = lock is not None and same_file(lock, str(self._folder / LOCK))
        self._held = FolderLock(self._folder)
        self._digests = Digests()
        self._manifest: dict[str, Any] | None = None
        self._began = 0.0
        self._old: dict[str, Any] | None = None
        check_folder(path, self._folder)
        refuse_links(self._folder, (ROWS, MANIFEST, LOCK), (PARTS,))
        refuse_links(self._folder / PARTS, (PLAN,), (IDS,))
        parts = os.path.realpath(self._folder / PARTS)
        if any(os.path.realpath(one).startswith(parts + os.sep) for one in inputs):
            raise OutputError(
                f"{Setting('output', path)}: the parts in it are what the run reads; choose another folder"
            )
        if not os.path.isfile(os.path.join(parts, PLAN)) and _holds_more(parts):
            raise OutputError(
                f"{Setting('output', path)}: no run wrote the folder {PARTS} in it; choose another folder"
            )
        if not overwrite:
            refuse_rows(self._folder, self._held)

    def take(self, *, resume: bool) -> None:
        """Let nobody else write there, and look for the run that goes on. Raises OutputError and ResumeError."""
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{Setting('output', self.path)} cannot be made ({error.strerror}); choose another place"
            ) from error
        self._held.take()
        try:
            files = dict(self._prepared.sandbox.config.files)
            stamps = "".join(f"{os.path.basename(one.path)} {one.stamp}\n" for one in self._found)
            self._digests = digests(None, files, f"{len(self._found):,} files, {sha256(stamps.encode()).hexdigest()}")
            if resume:
                self._find()
            elif not self._overwrite:  # another run may have been here meanwhile
                refuse_rows(self._folder)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others write there. Safe twice."""
        with suppress(OSError):
            (self._folder / _MARK).unlink(missing_ok=True)
        self._held.release()

    def begin(self) -> Path:
        """Remove what an earlier run left, unless it goes on; return the folder for keys of ids. Raises WriteError."""
        try:
            if self._fewer is None:
                for old in (self._folder / ROWS, self._folder / MANIFEST):
                    old.unlink(missing_ok=True)
                remove_parts(self._folder)
            parts = self._folder / PARTS
            shutil.rmtree(parts / IDS, ignore_errors=True)
            (parts / IDS).mkdir(parents=True)
        except OSError as error:
            raise write_error(str(self._folder / PARTS), error) from error
        return Path(os.path.abspath(parts / IDS))

    def mark(self) -> tuple[str, str]:
        """
        Return a file that whoever sees this folder sees, and what it has.

        `release` removes it.

        Raises:
            WriteError: It cannot be written.
        """
        place = Path(os.path.abspath(self._folder / _MARK))
        content = secrets.token_hex(16)
        self._replace(Path(_MARK), content)
        return str(place), content

    def keep(self, plan: PartPlan) -> None:
        """Write the plan, which a run that goes on needs. Raises WriteError, and ResumeError for other parts."""
        if self._fewer is not None:
            self._extend(self._fewer, plan)
        self.plan = plan
        self._replace(Path(PARTS, PLAN), plan.model_dump_json())

    def part(self, number: int) -> str:
        """Return the path of a part's folder."""
        return os.path.abspath(self._folder / PARTS / part_name(number))

    def figures(self, plan: PartPlan) -> dict[int, PartFigures]:
        """Return the figures of the parts that are finished, by number."""
        found = ((number, read_figures(self.part(number))) for number in range(1, len(plan.parts) + 1))
        return {number: one for number, one in found if one is not None}

    def go_on(self, first: WorkerGreeting, parts: int) -> None:
        """Write the manifest of a run that goes on. Raises WriteError."""
        kept = str(self._folder / LOCK) if first.lock is not None else None
        if self._old is not None:
            made = resume_manifest(self._old, self._prepared, str(self._folder / LOCK), self._digests, opened=True)
            self._began = monotonic_seconds() - seconds_since(self._old["started"])
        else:
            made, self._began = (
                start_manifest(self._prepared, str(self._folder / LOCK), self._digests),
                monotonic_seconds(),
            )
        made |= {"sandbox": first.manifest, "parts": parts, "lock": kept}
        if first.lock is not None and not self._keeps_lock:
            self._replace(Path(LOCK), first.lock)
        self._manifest = made
        self._replace(Path(MANIFEST), _json(made))

    def end(self, state: State, summary: Summary, notes: Sequence[str], error: str | None) -> None:
        """Write how the run ended, if it began. Raises WriteError."""
        manifest = self._manifest
        if manifest is None:
            if self._old is None or state != "finished":
                return
            manifest, self._began = self._old, monotonic_seconds() - seconds_since(self._old["started"])
            if manifest["state"] == "finished":
                return
        last = finish_manifest(manifest, state, summary, notes, monotonic_seconds() - self._began, error)
        if state == "finished":
            shutil.rmtree(self._folder / PARTS / IDS, ignore_errors=True)
        self._replace(Path(MANIFEST), _json(last))

    def _find(self) -> None:
        manifest, plan = self._folder / MANIFEST, self._folder / PARTS / PLAN
        if not plan.is_file():
            if (self._folder / ROWS).exists():
                raise ResumeError(f"{self.path} has a run that is not in parts; {ANEW}")
            return
        if not manifest.exists():
            return  # no row was scored
        try:
            found = PartPlan.model_validate_json(read_regular(plan, _PLAN))
        except (OSError, ValidationError):
            raise ResumeError(f"{printable(str(plan))} is no plan as a run writes it; {ANEW}") from None
        self._old = read_manifest(manifest)
        if several := list(changes(self._old, self._prepared, self._digests, self._others(found))):
            raise change_error(self.path, several)
        self.identity = self._old["sandbox"]["sandbox"]
        if self._old["lock"] is not None and self._given_lock is None:
            self.lock = read_bounded("the lock", str(self._folder / LOCK), _LOCK)
        limit, before = self._prepared.request.limit, self._old["dataset"].get("limit")
        refuse_fewer(self.path, found.rows, limit)
        if limit == before:
            self.plan = found
        else:
            self._fewer = found

    def _extend(self, old: PartPlan, new: PartPlan) -> None:
        """Parts that get more rows are not finished any more."""
        if [part.slice.model_copy(update={"taken": None}) for part in old.parts] != [
            part.slice.model_copy(update={"taken": None}) for part in new.parts[: len(old.parts)]
        ]:
            raise ResumeError(f"{self.path} cannot be resumed: its parts are others; {ANEW}")
        for number, (before, now) in enumerate(zip(old.parts, new.parts, strict=False), 1):
            if before.rows != now.rows:
                try:
                    Path(self.part(number), FIGURES).unlink(missing_ok=True)
                except OSError as error:
                    raise write_error(self.part(number), error) from error

    def _others(self, plan: PartPlan) -> Sequence[str]:
        """The names of files that are others than when the run was planned, as far as it has parts of them."""
        now = {one.path if is_url(one.path) else os.path.abspath(one.path): one.stamp for one in self._found}
        before = {part.slice.path: part.slice.stamp for part in plan.parts}
        paths = [path for path, stamp in before.items() if now.get(path) != stamp]
        if self._prepared.request.limit is None:
            paths += now.keys() - before.keys()
        return sorted(os.path.basename(path) for path in paths)

    def _replace(self, name: Path, content: str) -> None:
        path = self._folder / name
        try:
            replace_file(path, content)
        except OSError as error:
            raise write_error(str(path), error) from error


def _holds_more(parts: str) -> bool:
    """True if there is more than a run that was stopped before its plan may leave."""
    try:
        return any(name != IDS for name in os.listdir(parts))
    except OSError:
        return False  # it is not there, or no folder: then writing says so


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"
