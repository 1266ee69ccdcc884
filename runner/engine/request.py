"""A run as a request, and `prepare`, which finds and checks what it needs. Every entry point uses it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, TypeAlias

from pydantic import field_serializer, field_validator

from runner.core.errors import ColumnsError
from runner.core.settings import FileSettings, JudgeSettings, LocalSettings, Name
from runner.core.text import printable
from runner.core.types import Case, Evaluator, Result
from runner.engine.aggregate import Aggregation
from runner.engine.compatibility import refuse_unfit
from runner.engine.local import Watch, score_grouped
from runner.engine.rows import ResultSource
from runner.inputs.datasets.column_notes import default_notes, misfit_notes, setting_notes
from runner.inputs.datasets.dataset import Dataset, open_dataset
from runner.inputs.datasets.formats.streams import refuse_encoding
from runner.inputs.datasets.frames import FrameRows
from runner.inputs.datasets.notes import RowNotes
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.required_columns import Cases, refuse_lacking
from runner.inputs.datasets.row_columns import ALL, RowColumns, parse_column
from runner.inputs.datasets.rows import RowReading, cases_from_rows
from runner.inputs.datasets.shapes import refuse_shapes
from runner.inputs.datasets.slices import Slice
from runner.inputs.evaluators.column import Source, needed_column
from runner.inputs.evaluators.inline import mapped_native
from runner.inputs.evaluators.judges import imports_judge
from runner.inputs.evaluators.load import HowRead, in_folder, split_entry
from runner.inputs.evaluators.mapping import Binding, bind
from runner.inputs.evaluators.python.at_load import download_notes, refuse_training, unfilled_notes
from runner.inputs.evaluators.python.file_search import file_notes
from runner.inputs.evaluators.python.guarded_imports import guarded_notes
from runner.inputs.evaluators.python.own_json import own_json
from runner.inputs.evaluators.resolve import choose, find_dataset, find_evaluator, find_files, is_path
from sandboxes.base import Sandbox, SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.groups import one_by_one
from sandboxes.registry import create

Path: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = Iterable[Mapping[str, Any]]
Scorer: TypeAlias = Path | Evaluator | Callable[..., Any]
"""A script's path, a template's name, an evaluator that was read, or a function."""


class RunRequest(LocalSettings):
    """
    A description of one run, which JSON can hold. `prepare` reads and checks what it names.

    What is left out is the default, or is chosen to fit the evaluator.
    """

    evaluator: Name | Evaluator
    """A script's path, a template's name, or the evaluator itself."""
    dataset: Name | None = None
    """A path, `demo`, or `-` for standard input. None: the caller passes the rows."""

    @property
    def how_read(self) -> HowRead:
        """How a script of another tool is read."""
        return HowRead(dialect=self.dialect, entry=self.entry, failures=self.dialect_failures)

    @field_validator("encoding")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and (why := refuse_encoding(value)):
            raise ValueError(why)
        return value

    @field_validator("rows")
    @classmethod
    def _place(cls, value: str | None) -> str | None:
        if value is not None:
            from runner.inputs.datasets.places import parse_place  # here: few datasets name a place

            parse_place(value)
        return value

    @field_serializer("sandbox")
    def _as_set(self, config: SandboxConfig) -> dict[str, Any]:
        # If no backend was set, one is chosen.
        return config.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True, eq=False, repr=False)  # to make these methods takes time at each start
class PreparedRun:
    """A run whose parts were found and checked. Its sandbox is not open yet."""

    request: RunRequest
    evaluator: Evaluator
    sandbox: Sandbox
    why: str
    """The sandbox, and the reason for it: `no packages declared -> wasm`."""
    binding: Binding | None = None
    """None: each row has a mapping of its own, as worked examples do."""

    keep: RowColumns | None = None
    """The columns that results carry."""
    id_source: Source | None = None
    """None: the column `id`."""
    stored: str | None = None
    """The path of a dataset that the store has; the request has its name."""
    rows: int | None = None
    """How many that has, if the store knows."""
    part: Slice | None = None
    """Some of a dataset's rows, if the run is one part of several."""

    @property
    def reading(self) -> RowReading:
        """How a text file is read."""
        declared = () if self.binding is None else (*self.binding.json_columns, *self._own_json())
        return RowReading(
            declared=declared, **{name: getattr(self.request, name) for name in FileSettings.model_fields}
        )

    def _own_json(self) -> list[str]:
        """The columns that the script itself reads as JSON, by their names or by those of its parameters."""
        if self.binding is None or self.evaluator.language != "python" or self.evaluator.is_inline:
            return []
        found = own_json(self.evaluator.source, self.evaluator.name)
        return [*found, *(column for name, column in self.binding.needs().items() if name in found)]

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns to read. None: all."""
        found = [None if self.binding is None else self.binding.columns]
        found += [part.columns for part in (self.keep, self.id_source) if part is not None]
        every = [part for part in found if part is not None]
        return frozenset[str]().union(*every) if len(every) == len(found) else None

    @property
    def other_needs(self) -> dict[str, str]:
        """The columns that are needed beside those of parameters, and what for."""
        found = {} if self.keep is None else dict.fromkeys(self.keep.needs().values(), self.keep.use)
        found.pop("id", None)  # each row has one
        if self.id_source is not None and (column := needed_column(self.id_source)):
            found[column] = "for the id"
        found |= dict.fromkeys(self.request.json_columns, "to read as JSON")
        return found

    @property
    def dataset(self) -> str | None:
        """Its path; None where the caller has the rows."""
        request = self.request
        if request.dataset is None or self.stored is not None:
            return self.stored
        named = "json-distance" if isinstance(request.evaluator, Evaluator) else request.evaluator
        return find_dataset(request.dataset, named, self.evaluator.language)

    @property
    def inputs(self) -> list[str]:
        """The paths of all files that the run reads."""
        named, dataset = self.request.evaluator, self.dataset
        script: list[str] = []
        if isinstance(named, str) and is_path(named):
            path = in_folder(split_entry(named)[0])
            script = [str(path), *(str(path.parent / file) for file in self.evaluator.files)]
        rows = [dataset] if dataset is not None and dataset != "-" else []
        return [*script, *rows, *self.sandbox.config.files.values()]

    def aggregation(self) -> Aggregation:
        """Return what runs the script's `aggregate`."""
        request = self.request
        constant = self.binding.mapping.literals if self.binding else {}
        return Aggregation(self.evaluator, constant, request.limits, request.aggregate_timeout, request.seed)

    @contextmanager
    def open(
        self, rows: Rows | None = None, stdin: BinaryIO | None = None, remarks: bool = True
    ) -> Iterator[Dataset | Lookahead]:
        """
        Open the dataset, or these rows, as cases. Raises DatasetError, and ColumnsError if it lacks columns.

        Without `remarks` nobody is told what is odd in given rows: to look for it takes longer than to score a row.
        """
        if (path := self.dataset) is None:
            given = () if rows is None else rows
            header = rows.names if isinstance(rows, FrameRows) else ()
            notes = RowNotes()
            read = cases_from_rows(given, self.columns, self.id_source, self.reading, notes)
            cases = Lookahead(read, header, notes)
            refuse_lacking_columns("the dataset", cases, [self])
            cases.remarks += self.column_notes(cases) if remarks else []
            yield cases
            return
        with open_dataset(
            path,
            stdin=stdin,
            columns=self.columns,
            id_source=self.id_source,
            reading=self.reading,
            name=None if self.stored is None else self.request.dataset,
            part=self.part,
        ) as dataset:
            if self.part is None:  # it was looked at in the first part; rows of others may lack them
                refuse_lacking_columns(dataset.name, dataset, [self])
                dataset.remarks += self.column_notes(dataset)
            yield dataset

    def column_notes(self, cases: Cases) -> list[str]:
        """Return what there is to say of how columns fill parameters. `cases`: of which none was read yet."""
        if self.binding is None:
            return []
        own = (cases, self.evaluator, self.binding)
        config = self.sandbox.config
        given = [] if config.files else file_notes(self.evaluator)
        given += [] if config.files or config.network else download_notes(self.evaluator)
        given += [] if config.files else unfilled_notes(self.evaluator)
        given += [] if config.lock else guarded_notes(self.evaluator, (*self.evaluator.packages, *config.packages))
        return [*self.binding.notes, *default_notes(*own), *setting_notes(*own), *misfit_notes(*own), *given]

    def score_grouped(
        self,
        cases: Iterable[Case],
        opened: Sandbox,
        watch: Watch | None = None,
        source: ResultSource | None = None,
        open: Callable[[], Awaitable[None]] | None = None,
        halt: Callable[[], bool] | None = None,
    ) -> AsyncGenerator[Sequence[Result], None]:
        """
        Return the results of the cases, up to the `limit`, in groups.

        `opened`: the open sandbox; `source`, `halt`: as `score_grouped`.
        """
        request, most = self.request, self.request.limit
        return score_grouped(
            self.evaluator,
            cases if most is None else islice(cases, most),
            opened,
            limits=request.limits,
            mapping=request.mapping,
            seed=request.seed,
            keep=None if self.keep is None else self.keep.of,
            watch=watch,
            repeat=request.repeat,
            source=source,
            open=open,
            broker=opened.broker,
            halt=halt,
        )

    score = one_by_one(score_grouped)


def refuse_lacking_columns(name: str, cases: Cases, runs: Iterable[PreparedRun]) -> None:
    """
    Raise ColumnsError or MappingError if the dataset lacks columns that one of the runs needs.

    And EvaluatorError if one takes lists of which the dataset has single values.
    """
    runs = list(runs)
    others = {column: use for run in runs for column, use in run.other_needs.items()}
    bound = [(run.evaluator, run.binding) for run in runs if run.binding is not None]
    try:
        refuse_lacking(name, cases, bound, others)
    except ColumnsError as error:
        from runner.inputs.datasets.shapes import by_other  # here: few runs lack columns

        for run in runs:
            by_other(error, name, cases, run.evaluator, run.binding, _where(run.request.evaluator, run.evaluator))
        raise
    for evaluator, binding in bound:
        refuse_shapes(name, cases, evaluator, binding)


def _where(named: str | Evaluator, evaluator: Evaluator) -> str:
    """The evaluator's file, as far as it is known, for messages."""
    return printable(os.fspath(split_entry(named)[0]) if isinstance(named, str) else evaluator.name)


def prepare(
    request: RunRequest,
    *,
    evaluator: Evaluator | None = None,
    worked: bool = False,
    lock: str = "the lock",
    stored: str | None = None,
) -> PreparedRun:
    """
    Find and check everything that a run needs, before anything runs.

    A parameter without a column is refused when the dataset is opened: only then is it known which columns there are.

    Args:
        request: What to run.
        evaluator: The request's, if it was read already.
        worked: The rows are worked examples, which may map parameters themselves.
        lock: The name of the lock file for messages.
        stored: The path of the dataset, if the request names one of the store; `runner.runs.store_references.prepare`
            finds it.

    Raises:
        InputError: The script or the mapping cannot be used.
        UnsupportedConfigError: The sandbox cannot do what is asked for.
        SandboxUnavailableError: The sandbox is not installed.
    """
    named = request.evaluator
    if evaluator is None:
        evaluator = (
            named if isinstance(named, Evaluator) else find_evaluator(named, request.language, **request.how_read)
        )
    evaluator = mapped_native(evaluator, request.mapping) if request.dialect is None else evaluator
    binding = None if worked else bind(evaluator, request.mapping)
    config, door = _judged(request, evaluator, _where(named, evaluator), worked)
    choice = choose(
        evaluator,
        config,
        script=None if isinstance(named, Evaluator) else named,
        files=find_files(request.dataset, named),
        lock=lock,
        door=door,
    )
    if door:
        from runner.engine.judges import with_rounds  # here: few ask

        choice = choice._replace(config=with_rounds(choice.config, evaluator, request.on is not None))
    refuse_training(evaluator, _where(named, evaluator), choice.config.network or bool(choice.config.files))
    if request.on is None:
        sandbox = create(choice.config)
    else:
        from sandboxes.cluster.sandbox import on_cluster  # here: most runs need no cluster

        sandbox = on_cluster(choice.config, request.on)
    refuse_unfit(evaluator, sandbox)
    if request.by is not None and not {request.by, ALL} & {*request.keep}:
        request = request.model_copy(update={"keep": (*request.keep, request.by)})
    keep = RowColumns(request.keep) if request.keep else None
    id_source = None if request.id is None else parse_column("id", request.id)
    return PreparedRun(request, evaluator, sandbox, choice.why, binding, keep, id_source, stored)


def _judged(request: RunRequest, evaluator: Evaluator, where: str, worked: bool) -> tuple[SandboxConfig, bool]:
    """
    The config with the judges that are granted; and whether the script's own clients are to reach them.

    Worked examples of a script that asks are answered from the record beside them, if nobody grants a judge.
    """
    if request.sandbox.judges is not None:
        raise UnsupportedConfigError("a sandbox is given no judges of its own; give them as `judges=JudgeSettings(…)`")
    asks = imports_judge(evaluator)
    if request.judges == JudgeSettings() and not evaluator.hosts and not asks:
        return request.sandbox, False
    from runner.engine.judges import (  # here: few ask
        find_record,
        grant_judges,
        needs_door,
        recorded_judges,
        refuse_unanswered,
        with_judges,
    )

    judges = grant_judges(request.judges, request.sandbox.env_file)
    if asks and judges is None and worked and (record := find_record(request.evaluator, evaluator)) is not None:
        judges = recorded_judges(str(record))
    if asks:
        refuse_unanswered(judges, where)
    door = needs_door(evaluator, judges)
    if judges is not None and door:
        judges = judges.model_copy(update={"beside": True})
    return with_judges(request.sandbox, judges, evaluator, where), door
