"""A run as a request, and all that it needs found and checked: every door assembles a run here."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, BinaryIO, TypeAlias

from pydantic import Field, PlainValidator, SerializeAsAny, ValidationError, field_serializer

from runner.datasets.dataset import cases_from_rows, open_dataset
from runner.engine.local import refuse_unfit, score
from runner.errors import DatasetError, InputError
from runner.evaluators.mapping import bind
from runner.evaluators.resolve import choose, find_dataset, find_evaluator, find_files, is_path
from runner.text import shown
from runner.types import Case, Evaluator, InputMapping, Result
from sandboxes.base import Language, Limits, Model, Sandbox, SandboxConfig
from sandboxes.registry import create

Path: TypeAlias = str | os.PathLike[str]
Rows: TypeAlias = Iterable[Mapping[str, Any]]


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


Name = Annotated[str, PlainValidator(_name)]
"""A name that may be a path, which a system lets be no UTF-8."""


class RunRequest(Model):
    """
    One run, as JSON can say it. Nothing of it is read or checked yet: `prepare` does that.

    What is left out is chosen by what the evaluator needs, or is the default.
    """

    evaluator: Name | Evaluator
    """A script's path, a template's name, or the evaluator itself."""
    dataset: Name | None = None
    """A path, `demo`, or `-` for standard input. None: the caller has the rows."""
    language: Language | None = None
    """One of those that a template is written in."""
    sandbox: SerializeAsAny[SandboxConfig] = SandboxConfig()
    """The packages are added to the script's own. A backend that was not set is the one that fits."""
    limits: Limits = Limits()
    mapping: InputMapping = InputMapping()
    """Goes over the script's own."""
    seed: int | None = None
    """Makes the script's random numbers repeat."""
    limit: int | None = Field(default=None, ge=1)
    """Only so many rows, the first ones."""
    gates: tuple[str, ...] = ()
    """What the summary must not be, as in `mean<0.8`; docs/rules.md has the grammar."""
    max_failed: str | None = None
    """How many rows may fail: a number, or a part of all as in `5%`."""

    @field_serializer("sandbox")
    def _as_set(self, config: SandboxConfig) -> dict[str, Any]:
        # Whether a backend was set decides who chooses it.
        return config.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True)
class Prepared:
    """A run whose parts were found and fit each other. Its sandbox is not open yet."""

    request: RunRequest
    evaluator: Evaluator
    sandbox: Sandbox
    why: str
    """The sandbox, and the reason for it: `no packages declared -> wasm`."""
    columns: frozenset[str] | None = None
    """Those that the evaluator is given something of; None: perhaps all."""

    @property
    def dataset(self) -> str | None:
        """Its path; None where the caller has the rows."""
        request = self.request
        if request.dataset is None:
            return None
        named = "json-distance" if isinstance(request.evaluator, Evaluator) else request.evaluator
        return find_dataset(request.dataset, named)

    @property
    def inputs(self) -> list[str]:
        """The paths of all files that the run reads."""
        named, dataset = self.request.evaluator, self.dataset
        script = [named] if isinstance(named, str) and is_path(named) else []
        rows = [dataset] if dataset is not None and dataset != "-" else []
        return [*script, *rows, *self.sandbox.config.files.values()]

    @contextmanager
    def open(self, rows: Rows | None = None, stdin: BinaryIO | None = None) -> Iterator[Iterable[Case]]:
        """The dataset, or these rows, as cases. Raises DatasetError."""
        path = self.dataset
        if path is None:
            yield cases_from_rows(() if rows is None else rows, columns=self.columns)
            return
        with open_dataset(path, stdin=stdin, columns=self.columns) as dataset:
            yield dataset

    def score(self, cases: Iterable[Case], opened: Sandbox) -> AsyncGenerator[Result, None]:
        """The results of the cases, as far as the request's `limit` goes. `opened` is the sandbox, which is open."""
        request = self.request
        some = cases if request.limit is None else islice(cases, request.limit)
        return score(self.evaluator, some, opened, limits=request.limits, mapping=request.mapping, seed=request.seed)


def prepare(
    request: RunRequest, *, evaluator: Evaluator | None = None, worked: bool = False, lock: str = "the lock"
) -> Prepared:
    """
    Finds and checks all that a run needs, before anything of it runs.

    `evaluator` is the one that the request names, where it was read already. `worked` says that the rows are worked
    examples, which may map for themselves what nothing else does. `lock` names the lock's file in messages.

    Raises InputError for a script or mapping that cannot be used, UnsupportedConfigError for what the sandbox cannot
    do, and SandboxUnavailableError for one that is not there.
    """
    named = request.evaluator
    if evaluator is None:
        evaluator = named if isinstance(named, Evaluator) else find_evaluator(named, request.language)
    columns = None if worked else bind(evaluator, request.mapping).columns
    choice = choose(
        evaluator,
        request.sandbox,
        script=None if isinstance(named, Evaluator) else named,
        files=find_files(request.dataset, named),
        lock=lock,
    )
    sandbox = create(choice.config)
    refuse_unfit(evaluator, sandbox)
    return Prepared(request, evaluator, sandbox, choice.why, columns)


def make_request(
    evaluator: Path | Evaluator,
    dataset: Path | Rows | None,
    *,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: InputMapping | None = None,
    **more: Any,
) -> tuple[RunRequest, Rows | None]:
    """The request for what a Python caller names, and the rows where these are handed over. Raises InputError."""
    for name, given, kind, example in (
        ("limits", limits, Limits, "Limits(timeout=2)"),
        ("mapping", mapping, InputMapping, 'InputMapping(paths={"output": "metadata.answer"})'),
    ):
        if given is not None and not isinstance(given, kind):
            raise InputError(f"`{name}` must be such as {example}, not {shown(given, 60)}")
    if isinstance(dataset, Mapping):
        raise DatasetError("the dataset is one row; put it into a list: [row]")
    config = SandboxConfig(backend=sandbox) if isinstance(sandbox, str) else sandbox or SandboxConfig()
    if isinstance(evaluator, os.PathLike):
        evaluator = os.fspath(evaluator)
    elif not isinstance(evaluator, str | Evaluator):
        find_evaluator(evaluator)  # says what an evaluator is
    try:
        request = RunRequest(
            evaluator=evaluator,
            dataset=os.fspath(dataset) if isinstance(dataset, str | os.PathLike) else None,
            sandbox=config,
            limits=limits or Limits(),
            mapping=mapping or InputMapping(),
            **more,
        )
    except ValidationError as e:
        first = e.errors()[0]
        raise InputError(f"`{first['loc'][0]}`: {first['msg']}, not {shown(first['input'], 60)}") from None
    return request, None if dataset is None or isinstance(dataset, str | os.PathLike) else dataset
