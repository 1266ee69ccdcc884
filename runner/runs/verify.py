"""Rows of a finished run, run again from what its folder holds, and whether they give the same."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from runner.core.errors import DatasetError, InputError, NotComparableError, ResumeError
from runner.core.settings import FileSettings, JudgeSettings, RunSettings
from runner.core.text import json_text, printable, read_bounded, rows_of, whole
from runner.core.types import Case, Result
from runner.engine.request import PreparedRun, RunRequest, prepare
from runner.engine.rows import Row
from runner.engine.scoring.diff import unlike, windows
from runner.engine.scoring.failure_limits import parse_most
from runner.engine.threads import DaemonCall
from runner.inputs.evaluators.evaluator_files import digests_of
from runner.inputs.evaluators.judges import imports_judge
from runner.results.output.digests import digests, file_digest
from runner.results.output.folder import LOCK, MANIFEST, RECORD, REQUEST, ROWS
from runner.results.output.resume import ANEW, read_manifest
from runner.results.output.stored_rows import StoredRow, stored_rows, whole_lines
from runner.results.store.errors import NotStoredError
from runner.runs.early_stop import RANDOM, shuffle
from runner.runs.store_references import found_run, is_stored, source_of
from sandboxes.base import Model, Sandbox, SandboxConfig
from sandboxes.registry import backends
from sandboxes.words.wording import Setting

if TYPE_CHECKING:
    from runner.results.store.store import Store
    from runner.results.store.types import RunInfo

MOST_BYTES = 32 << 20
"""Of a request or a lock."""
VERIFIED_ROWS = "100"
"""Rows that are run again, if nobody says."""
SHOWN_ROWS = 20
_CHARACTERS, _FOLDERS = 300, 8
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


class RowMismatch(Model):
    """A row that does not give what the run wrote."""

    id: str
    line: int
    """Of the results file."""
    fields: dict[str, tuple[Any, Any]]
    """By field: what the run wrote, and what it is now. Long texts are cut."""


class Verification(Model):
    """What became of a run's rows that were run again."""

    run: str
    evaluator: str
    sandbox: str
    rows: int
    """All rows of the run."""
    sample: int
    """Rows that were run again."""
    equal: int = 0
    different: int = 0
    lost: int = 0
    """Rows that the sandbox lost, then or now: they prove nothing."""
    mismatches: tuple[RowMismatch, ...] = ()
    """The first rows that differ."""
    notes: tuple[str, ...] = ()
    digests: dict[str, str]
    """SHA-256 in hex of the results, the script, its files, the dataset, the lock and the judges' record."""
    finished: str
    """When the run ended."""

    @property
    def passed(self) -> bool:
        """True if rows were compared, and no one differs."""
        return self.equal > 0 and not self.different

    @property
    def verdict(self) -> str:
        """What became of the sample, in words."""
        if self.different:
            return f"{self.different:,} of {rows_of(self.sample)} differ"
        if self.passed:
            return f"equal: {rows_of(self.sample)} of {self.rows:,} give the same again"
        return "no verdict: no row could be compared"

    def statement(self) -> dict[str, Any]:
        """Return an in-toto statement on the results, with the predicate Test Result 0.1; nothing is signed."""
        configuration = [
            {"name": name, "digest": {"sha256": digest}} for name, digest in self.digests.items() if name != ROWS
        ]
        test = f"{self.equal} of {self.sample} rows of {self.rows} are equal when they are run again in {self.sandbox}"
        failed = [f"row {one.id}, line {one.line}: {', '.join(one.fields)}" for one in self.mismatches]
        return {
            "_type": STATEMENT,
            "subject": [{"name": ROWS, "digest": {"sha256": self.digests[ROWS]}}],
            "predicateType": TEST_RESULT,
            "predicate": {
                "result": "PASSED" if self.passed else "FAILED",
                "configuration": configuration,
                "passedTests": [test] if self.passed else [],
                "failedTests": failed if failed or self.passed else [test],
            },
        }


class RunVerification:
    """
    One verification: `score`, then `report`. The rows of the sample are chosen by the digest of the results.

    `dataset` is where the dataset lies now, if it was moved. With `same_rights` the script is given what the folder
    says that it had of this machine: whoever made the folder chose that, and the script. `name` is how messages call
    the run, and `lease` gives the sandbox in which it runs, in place of the one that was prepared.

    Raises NotComparableError for a folder that is no whole run, or from which it cannot be run again, InputError for no
    sample or for a right that is not given, and what `prepare` does.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        sample: str,
        dataset: str | None = None,
        same_rights: bool = False,
        *,
        name: str | None = None,
        lease: Callable[[Sandbox], Sandbox] = lambda sandbox: sandbox,
    ) -> None:
        self._name = printable(whole(os.fspath(folder))) if name is None else name
        self._folder = place = Path(folder)
        if not place.is_dir():
            raise InputError(f"there is no folder {self._name}; name that of a run, -o FOLDER/")
        if not (place / REQUEST).is_file():
            if runs := sorted(printable(each.parent.name, 60) for each in islice(place.glob(f"*/{REQUEST}"), _FOLDERS)):
                names = ", ".join(f"{self._name.rstrip('/')}/{run}/" for run in runs)
                raise NotComparableError(f"{self._name} holds several runs; verify each of them: {names}")
            raise NotComparableError(
                f"{self._name} has no {REQUEST}; name the folder of a run, -o FOLDER/, that this version has written"
            )
        try:
            manifest = read_manifest(place / MANIFEST)
            request = RunRequest.model_validate_json(read_bounded("the request", str(place / REQUEST), MOST_BYTES))
        except (ResumeError, ValidationError) as error:
            why = str(error).splitlines()[0].removesuffix(f"; {ANEW}")
            raise NotComparableError(f"{self._name} cannot be run again: {printable(why, 200)}; run it anew") from None
        if manifest["state"] not in ("finished", "stopped"):
            raise NotComparableError(
                f"the run {self._name} is {printable(manifest['state'], 40)}; wait for its end, or finish it with "
                f"{Setting('resume')}"
            )
        self._manifest = manifest
        self._same_rights = same_rights
        self.run = self._prepare(request, dataset)
        self.run = replace(self.run, sandbox=lease(self.run.sandbox))
        self._repeat = request.repeat
        self._digests = self._check_digests()
        self._lines = whole_lines(place / ROWS)
        rows = self._lines.rows // self._repeat
        most = parse_most(sample, "sample")
        if not most.number:
            raise InputError(f"a sample of no rows tells nothing; take some: {Setting('sample', '1%')}")
        count = min(rows, max(1, round(most.number * rows if most.is_share else most.number)))
        if self.run.sandbox.isolation == "batch":  # a row may be what those beside it made of it
            count = rows
        if not rows:
            raise NotComparableError(f"{self._name} has no rows, so that none can be run again")
        self._chosen = frozenset(random.Random(self._digests[ROWS]).sample(range(rows), count))
        self._rows = rows
        self._notes: list[str] = []
        self._equal = self._different = self._lost = 0
        self._mismatches: list[RowMismatch] = []

    @property
    def sample(self) -> int:
        """The number of rows that are run again."""
        return len(self._chosen)

    def _prepare(self, request: RunRequest, dataset: str | None) -> PreparedRun:
        sandbox: dict[str, Any] = {"backend": self._manifest["sandbox"]["sandbox"].partition("/")[0]}
        if self._manifest["lock"] is not None:
            sandbox["lock"] = read_bounded("the lock", str(self._folder / LOCK), MOST_BYTES)
        judges = request.judges
        if (record := self._folder / RECORD).is_file():
            judges = judges.model_copy(update={"replay": str(record)})
        config = request.sandbox.model_copy(update={**sandbox, "judges": None})
        asked = list(_rights(config))
        if (judges.judge or judges.allow_host or judges.secret) and judges.replay is None:
            asked.append("judges, with keys of yours")
        if asked and not self._same_rights:
            raise InputError(
                f"the script of {self._name} would be given {', '.join(asked)}: whoever made the folder chose that; if "
                f"you trust them, add {Setting('same_rights')}"
            )
        update: dict[str, Any] = {
            "judges": judges.model_copy(update={"record": None, "budget": None}),
            "sandbox": config,
            **{"require": (), "gates": (), "baseline": None, "fail_if_worse": None, "cache": False},
            "keep": (),  # no column that is kept is compared, and the store's request names some that no row need have
        }
        if dataset is not None:
            update["dataset"] = dataset
        if request.dataset in (None, "-") and dataset is None:
            raise InputError(
                f"the rows of {self._name} were no file; save them as one, and name it: {Setting('dataset', 'FILE')}"
            )
        return prepare(request.model_copy(update=update))

    def _check_digests(self) -> dict[str, str]:
        """The digests of all that decides the results, which are those of the manifest."""
        path, manifest = self.run.dataset, self._manifest
        evaluator = self.run.evaluator
        found = digests(path, self.run.sandbox.config.files)
        if path is not None and not os.path.exists(path):
            raise DatasetError(
                f"there is no file {printable(whole(path))}, which the run has read; say where it is: "
                f"{Setting('dataset', 'FILE')}"
            )
        named: dict[str, tuple[Any, str | None]] = {
            ROWS: (_at(manifest.get("results"), "sha256"), file_digest(str(self._folder / ROWS))),
            "dataset": (manifest["dataset"].get("sha256"), found.dataset),
            "script": (_at(manifest["evaluator"], "sha256"), sha256(evaluator.source.encode()).hexdigest()),
        }
        for kind, stated_files, files in (
            ("script file", manifest["evaluator"].get("files"), digests_of(evaluator.files)),
            ("file", manifest.get("file_sha256"), found.files),
        ):
            named |= {f"{kind} {name}": (_at(stated_files, name), digest) for name, digest in files.items()}
        for name, (then, now) in named.items():
            if then != now:
                raise NotComparableError(
                    f"{self._name}: {name} has another content than its {MANIFEST} says; restore what the run had, "
                    "and verify again"
                )
        every = {name: now for name, (_, now) in named.items()}
        every |= {name: file_digest(str(self._folder / name)) for name in (LOCK, RECORD)}
        return {name: digest for name, digest in every.items() if digest is not None}

    async def score(self) -> AsyncGenerator[Result, None]:
        """Yield each result of the sample after comparing it. Raises what a run does."""
        written = self._written()
        with ExitStack() as stack:
            async with self.run.sandbox as opened:
                cases = await DaemonCall(lambda: stack.enter_context(self.run.open()), "evalcell-dataset").get()
                then = self._manifest["sandbox"]["sandbox"]
                if opened.identity != then:
                    self._notes.append(f"the run was in {printable(then, 80)}, and this is {opened.identity}")
                async with aclosing(self.run.score(self._some(cases), opened)) as found:
                    async for result in found:
                        line, row = next(written, (0, None))
                        self._compare(result, line, row)
                        yield result

    def _some(self, cases: Iterable[Case]) -> Iterator[Case]:
        if self._manifest.get("order") is not None:
            cases = shuffle(cases, self.run.request.seed, self.run.request.limit)
        for at, case in enumerate(islice(cases, self._rows)):
            if at in self._chosen:
                yield case

    def _written(self) -> Iterator[tuple[int, StoredRow]]:
        try:
            for at, (_, row) in enumerate(stored_rows(self._folder / ROWS, self._lines, self.run.evaluator)):
                if at // self._repeat in self._chosen:
                    yield at + 1, row
        except ResumeError as error:
            raise NotComparableError(str(error)) from None

    def _compare(self, result: Result, line: int, stored: StoredRow | None) -> None:
        if stored is None:
            raise NotComparableError(f"{self._name} has fewer rows than its dataset gives; run it anew")
        if "lost" in (stored.outcome, result.outcome):
            self._lost += 1
            return
        row = Row(stored.id, result.number, stored.repeat)
        row.given = stored.given
        was = stored.result(row, self.run.evaluator, stored.sandbox, cached=False)
        found = unlike((was, result), 0.0)
        for name in ("id", "repeat", "given"):
            if getattr(was, name) != getattr(result, name):
                found[name] = (getattr(was, name), getattr(result, name))
        if not found:
            self._equal += 1
            return
        self._different += 1
        if len(self._mismatches) < SHOWN_ROWS:
            fields: dict[str, Any] = {name: tuple(windows(each, _CHARACTERS)) for name, each in found.items()}
            self._mismatches.append(RowMismatch(id=printable(stored.id, 80), line=line, fields=fields))

    def report(self) -> Verification:
        """Return what was found."""
        scored = (self._equal + self._different + self._lost) // self._repeat
        if scored < len(self._chosen):
            self._notes.append(f"the dataset has only {rows_of(scored)} of the {len(self._chosen):,} of the sample")
        return Verification(
            run=self._name,
            evaluator=f"{self.run.evaluator.name} {self.run.evaluator.version}",
            sandbox=self._manifest["sandbox"]["sandbox"],
            rows=self._rows,
            sample=len(self._chosen),
            equal=self._equal,
            different=self._different,
            lost=self._lost,
            mismatches=tuple(self._mismatches),
            notes=tuple(self._notes),
            digests=self._digests,
            finished=str(self._manifest.get("finished")),
        )


@contextmanager
def open_verification(
    run: str | os.PathLike[str], sample: str, dataset: str | None = None, same_rights: bool = False
) -> Iterator[RunVerification]:
    """
    Open the verification of a folder, or of a run of the store by its id or as `latest`.

    Raises what `RunVerification` does, NotStoredError and StoreError.
    """
    if not is_stored(name := os.fspath(run)):
        yield RunVerification(run, sample, dataset, same_rights)
        return
    from runner.results.store import open_store  # here: most runs are folders

    with open_store() as store:
        info = found_run(store, name)
        try:
            store.dataset_of(info.id)
        except NotStoredError:  # that of a command is where it was
            dataset = dataset or store.spec(info.id).dataset
        with run_folder(store, info, dataset=dataset) as folder:
            yield RunVerification(folder, sample, same_rights=same_rights, name=info.id)


@contextmanager
def run_folder(
    store: Store,
    run: RunInfo,
    permit: Callable[[RunRequest], RunRequest] = lambda request: request,
    beside: Path | None = None,
    *,
    dataset: str | None = None,
) -> Iterator[Path]:
    """
    Write a run of the store as the folder that a run writes, in the folder `beside`.

    `permit` gives the request as it may run; `dataset` is a file in place of the store's. Raises NotComparableError
    for a run that cannot be run again from what the store keeps, NotStoredError, StoreError, and what `permit` does.
    """
    version, spec = store.script(run.id), store.spec(run.id)
    evaluator = version.evaluator()
    if evaluator.version != run.version:
        raise NotComparableError(
            f"{run.id} was of the script {run.version}, which the store no longer has; run it anew"
        )
    config = spec.sandbox if isinstance(spec.sandbox, SandboxConfig) else SandboxConfig()
    asked = {name: getattr(spec, name) for name in (*RunSettings.model_fields, *FileSettings.model_fields)}
    asked["baseline"] = None
    path = dataset or str(store.dataset_path(store.dataset_of(run.id)))
    request = permit(RunRequest(evaluator=evaluator, dataset=path, sandbox=config, **asked))
    lacks = None
    if imports_judge(evaluator) or request.judges != JudgeSettings():
        lacks = "what judges said"
    elif run.owner == "cli" and (evaluator.packages or config.packages) and config.lock is None:
        lacks = "the lock of its packages"
    if lacks is not None:
        raise NotComparableError(
            f"the store does not keep {lacks} of {run.id}; a folder does: run it anew with {Setting('output', 'RUN/')}"
        )
    with source_of(store, run, beside) as source:
        folder = source.path.parent
        manifest = {
            "state": source.manifest["state"],
            "started": (run.started or run.created).isoformat(),
            "finished": None if run.ended is None else run.ended.isoformat(),
            "lock": None,  # the request has it
            "evaluator": {
                "sha256": sha256(evaluator.source.encode()).hexdigest(),
                "files": digests_of(evaluator.files),
            },
            "dataset": {"sha256": run.digest},
            "sandbox": {"sandbox": run.sandbox},
            "results": {"sha256": file_digest(str(source.path))},
            **({"order": RANDOM} if spec.stop_when_sure else {}),
        }
        (folder / MANIFEST).write_text(json_text(manifest), "utf-8")
        (folder / REQUEST).write_text(request.model_dump_json(), "utf-8")
        yield folder


def _rights(config: SandboxConfig) -> Iterator[str]:
    """What a script would have of this machine and of its user, in words. Raises NotComparableError for no sandbox."""
    backend = backends().get(config.backend)
    if backend is None or backend.hidden:
        raise NotComparableError(f"there is no sandbox {printable(config.backend, 40)!r} that could run it again")
    if config.network:
        yield "the network"
    for kind, names in (("variable", config.env), ("file", config.files.values())):
        yield from (f"the {kind} {printable(name, 80)}" for name in names)
    for kind in ("env_file", "engine", "image", "runtime"):
        if (value := getattr(config, kind)) is not None:
            yield f"the {kind} {printable(value, 80)}"
    if config.allow_weak_isolation:
        yield "weak isolation"
    if backend.elsewhere or backend.by_name:
        yield f"the sandbox {backend.name}"


def _at(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
