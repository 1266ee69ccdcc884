"""The tools: what the service does, in few steps that an agent can take."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import anyio
from pydantic import Field

from runner.core.entry_points import settings_of
from runner.core.setting_types import model_field
from runner.core.settings import nest_settings
from runner.core.text import list_names, printable, suggestion
from runner.core.types import ErrorKind, InputMapping, Outcome
from runner.engine.arguments import config_or_preset
from runner.engine.scoring.tally import Tally
from runner.inputs.evaluators.evaluator_files import MAX_FILES
from runner.results.store.errors import NotStoredError
from runner.results.store.types import OVER, EvaluatorVersion, Order, RunInfo, RunSpec, Selection
from runner.runs.audit.words import verdict_line
from runner.runs.pool.types import MOST_TRIED, TriedRow
from runner.runs.verify import VERIFIED_ROWS
from runner.server.mcp.replies import as_reply
from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError
from runner.server.service.scripts import all_templates, templates_listed
from runner.server.service.service import Service
from runner.server.service.types import (
    MOST_EXAMPLES,
    AuditRequest,
    CheckRequest,
    EvaluateRequest,
    EvaluatorInput,
    Progress,
    RunEvent,
    StateChange,
    Template,
)
from sandboxes.base import Language, Limits

T = TypeVar("T")
Reply: TypeAlias = dict[str, Any]
Kind = Literal["evaluators", "templates", "datasets", "runs", "sandboxes"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Source = Annotated[str, Field(min_length=1, max_length=256 << 10, description="The whole script.")]
Files = Annotated[
    dict[str, str],
    Field(
        max_length=MAX_FILES,
        description="The texts of modules and data beside the script, by their paths from it: "
        '{"helper.py": …, "utils/text.py": …}.',
    ),
]
Rows = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]
Mapping = Annotated[
    dict[str, Any],
    Field(
        description="The columns or JSON paths of the output, reference, input or context, whatever the script calls "
        'them, or of a parameter by its own name: {"output": "metadata.answer"}.'
    ),
]
Values = Annotated[dict[str, Any], Field(description='Parameters with one value for all rows: {"words": ["yes"]}.')]
Sandbox = Annotated[
    str | None, Field(max_length=100, description="A sandbox's name, such as wasm. Left out: the one that fits.")
]
First = Annotated[int, Field(ge=1, le=1_000_000, description="The number of a row, from 1.")]
Timeout = Annotated[float | None, Field(gt=0, le=600, description="Seconds for each row.")]

_ROWS = 20
_SHOWN = 20_000
"""Characters of an evaluator's files that are shown at once."""
_LISTED = 50
_NAMES = {
    {"map": "mapping", "set": "values", "fail_if": "gates"}.get(name, name): name for name in settings_of("run of MCP")
}
"""Arguments of `run`, and the settings that they are."""


def _with_settings(method: Any) -> Any:
    """Give `run` an argument for each setting."""
    own = signature(method, eval_str=True)
    *first, title, _ = own.parameters.values()
    added = [
        Parameter(argument, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        for argument, name in _NAMES.items()
        for kind, default in [_SPOKEN.get(argument) or model_field(name)]
    ]
    method.__signature__ = own.replace(parameters=[*first, *added, title])
    return method


_SPOKEN: dict[str, tuple[Any, Any]] = {"mapping": (Mapping | None, None), "values": (Values | None, None)}
"""Types that `try` has, too."""


class McpTools:
    """Every tool as a method; its docstring is what an agent reads."""

    def __init__(self, service: Callable[[], Service]) -> None:
        self._service = service

    async def list_(self, kind: Kind, after: str | None = None) -> Reply:
        """
        List what there is: evaluators, templates (evaluators to start from), datasets, runs, or sandboxes.

        A long list has `next`: give it as `after`.
        """
        service = self._service()
        if kind == "templates":
            found = await call_in_thread(templates_listed)
            return {"items": [{"name": one.name, "about": _sentence(one.description)} for one in found]}
        if kind == "sandboxes":
            return {"items": [one.model_dump(mode="json", exclude_defaults=True) for one in await service.fits()]}
        if kind == "evaluators":
            return as_reply(await call_in_thread(service.store.evaluators, after, _LISTED))
        if kind == "datasets":
            return as_reply(await call_in_thread(service.store.datasets, after, _LISTED))
        page = await service.runs(after, _LISTED)
        return as_reply({"items": [_short(one) for one in page.items], "next": page.next})

    async def show(
        self,
        kind: Literal["evaluator", "template", "dataset", "run"],
        name: Name,
        first: First = 1,
        count: Annotated[int, Field(ge=1, le=_ROWS)] = 5,
        language: Language = "python",
        file: Name | None = None,
    ) -> Reply:
        """
        Show one thing: an evaluator's source and parameters (`NAME`, or `NAME@3` for a version), a template's source in
        a `language`, some rows of a dataset (`first`, `count`) with the template that fits it, or a run with its
        summary.

        Of an evaluator with many files beside the script, `files` tells their sizes; `file` shows one.
        """
        service = self._service()
        if kind == "evaluator":
            version = await call_in_thread(service.store.evaluator, name)
            if file is not None:
                return _file(version, file)
            source, how = version.source, version.how_read
            about = await service.check(
                CheckRequest(
                    source=source,
                    language=version.language,
                    dialect=how["dialect"],
                    entry=how["entry"],
                    files=version.files,
                )
            )
            parts = about.model_dump(mode="json", include={"parameters", "outputs", "packages", "mapping", "problems"})
            return _source(version.model_dump(mode="json"), parts)
        if kind == "template":
            return _template({one.name: one for one in await call_in_thread(all_templates)}, name, language)
        if kind == "dataset":
            rows = await service.dataset_rows(name, first, count)
            likely = (await service.suggest(name)).model_dump(mode="json", exclude={"command", "rows"})
            return as_reply(rows.model_dump(mode="json") | {"suggestion": likely})
        return as_reply(await service.run(name))

    async def check(
        self,
        source: Source,
        language: Language = "python",
        dialect: Name | None = None,
        entry: Name | None = None,
        files: Files | None = None,
    ) -> Reply:
        """
        Read a script without running it: its parameters, outputs and packages, or `problems` with line and column.

        A script defines `evaluate`. Its parameters are columns (`output`, `reference`, `input`, `metadata`), and it
        returns a score, a label, a bool, or {"label": …, "score": …, "explanation": …}. Scripts of promptfoo,
        LangSmith, Langfuse, Braintrust, OpenAI's graders and others are taken as they are; where one could be several,
        `dialect` and `entry` (its function) say which.
        """
        asked = CheckRequest(source=source, language=language, dialect=dialect, entry=entry, files=files or {})
        return as_reply(await self._service().check(asked))

    async def try_(
        self,
        source: Source | None = None,
        evaluator: Name | None = None,
        language: Language = "python",
        rows: Annotated[list[dict[str, Any]] | None, Field(max_length=MOST_TRIED)] = None,
        dataset: Name | None = None,
        first: First = 1,
        count: Annotated[int, Field(ge=1, le=_ROWS)] = 5,
        mapping: Mapping | None = None,
        values: Values | None = None,
        sandbox: Sandbox = None,
        timeout: Timeout = None,
        dialect: Name | None = None,
        entry: Name | None = None,
        files: Files | None = None,
    ) -> Reply:
        """
        Score a few rows at once, in a sandbox, and keep nothing.

        Give a `source`, or a kept `evaluator`; and `rows`, or `count` rows of a kept `dataset` from `first`. Each
        result shows the arguments after mapping, the result, what was printed, and for an error its line in the script.
        Use it before `save`.
        """
        request = EvaluateRequest(**_score_fields(locals()))
        reply = await self._ask_evaluator(evaluator, self._service().evaluate(request))
        tally = Tally()
        for row in reply.results:
            tally.add(row.result)
        counts = tally.summary().model_dump(include={"rows", "scored", "abstained", "failed", "lost", "mean"})
        about = {"summary": counts, "sandbox": reply.sandbox, "why": reply.why, "seconds": round(reply.seconds, 3)}
        problems = [one.model_dump(mode="json") for one in reply.problems]
        return as_reply({**about, "problems": problems, "results": [_tried(row) for row in reply.results]})

    async def audit(
        self,
        source: Source | None = None,
        evaluator: Name | None = None,
        language: Language = "python",
        rows: Annotated[list[dict[str, Any]] | None, Field(max_length=MOST_TRIED)] = None,
        dataset: Name | None = None,
        examples: Annotated[list[dict[str, Any]] | None, Field(max_length=MOST_EXAMPLES)] = None,
        labels: Annotated[Name | None, Field(description="A column with what people say of each output.")] = None,
        sample: Annotated[int | None, Field(ge=2, le=1_000, description="Rows that are planted in: 60.")] = None,
        mapping: Mapping | None = None,
        values: Values | None = None,
        sandbox: Sandbox = None,
        timeout: Timeout = None,
        dialect: Name | None = None,
        entry: Name | None = None,
        files: Files | None = None,
    ) -> Reply:
        """
        Tell what a grader gets wrong: right, wrong, changed and damaged outputs are planted in rows that have a
        `reference`, and their scores say. Use it on each script that you wrote, before `save`.

        Each of `findings` has a row that shows it. `does_not_see` and `treats_as_different` are listed, and yours to
        judge. With `examples` (rows, each with what is `expected`: {"output": "a", "reference": "a", "expected":
        {"score": 1}}) the script is changed in up to 100 ways; `mutants` has those that no example notices, each with
        an example that would: read what it expects before you add it.
        """
        request = AuditRequest(**_score_fields(locals()))
        found = await self._ask_evaluator(evaluator, self._service().audit(request))
        about: Reply = {"verdict": verdict_line(found).text, "rows": found.rows, "calls": found.calls}
        about["findings"] = [one.model_dump(mode="json", exclude={"status"}) for one in found.findings]
        about["does_not_see"] = [one.words for one in found.blind]
        about["treats_as_different"] = [one.words for one in found.strict]
        for name in ("mutants", "people", "judges"):
            if (part := getattr(found, name)) is not None:
                about[name] = part.model_dump(mode="json", exclude_none=True)
                for many in {"gaps", "disagreements"} & about[name].keys():
                    about[name][f"{many}_in_all"] = len(about[name][many])
                    about[name][many] = about[name][many][:_ROWS]
        return as_reply(about)

    async def save(
        self,
        source: Source,
        name: Name,
        language: Language = "python",
        expected: Name | None = None,
        dialect: Name | None = None,
        entry: Name | None = None,
        files: Files | None = None,
    ) -> Reply:
        """
        Keep a script as an evaluator, or as a new version of the one with this name; versions never change.

        `expected` is the version that you edited: if somebody saved another one meanwhile, it is refused. Its `files`
        stay if you leave them out.
        """
        if files is None and expected is not None:
            files = (await call_in_thread(self._service().store.evaluator, name)).files
        given = EvaluatorInput(
            source=source, name=name, language=language, dialect=dialect, entry=entry, files=files or {}
        )
        found = await self._service().save_evaluator(given, expected=expected)
        about = found.model_dump(mode="json", exclude={"source", "files"}) | {"reference": found.reference}
        return as_reply(about | ({"files": [*found.files]} if found.files else {}))

    async def add_dataset(self, name: Name, rows: Rows) -> Reply:
        """Keep rows as a dataset, to `run` evaluators on. At most 1,000; larger files are uploaded on the page."""

        async def stream() -> AsyncIterator[bytes]:
            for row in rows:
                yield json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

        return as_reply(await self._service().add_dataset(stream(), f"{name}.jsonl"))

    @_with_settings
    async def run(
        self, evaluator: Name, dataset: Name, title: Annotated[str, Field(max_length=200)] = "", **settings: Any
    ) -> Reply:
        """Start a run of a kept evaluator over all rows of a kept dataset; return its `id` at once, for `status`."""
        said = {_NAMES[name]: value for name, value in settings.items() if value not in (None, (), {}, False)}
        fields = nest_settings({name: value for name, value in said.items() if name != "sandbox"})
        spec = RunSpec(
            evaluator=evaluator,
            dataset=dataset,
            sandbox=config_or_preset(said.get("sandbox")),
            title=title,
            **fields
            | {
                "limits": Limits(**fields.get("limits", {})),
                "mapping": InputMapping(**fields.get("mapping", {})),
            },
        )
        return as_reply(_short(await self._ask_evaluator(evaluator, self._service().start_run(spec))))

    async def _ask_evaluator(self, evaluator: str | None, asked: Awaitable[T]) -> T:
        """What is asked of an evaluator. A template is none before it is saved, which its name does not show."""
        try:
            return await asked
        except NotStoredError:
            if evaluator not in {one.name for one in await call_in_thread(templates_listed)}:
                raise
            shown = f'`show` with {{"kind": "template", "name": "{evaluator}"}}'
            raise ServiceError(
                "not-found", f"{evaluator} is a template, not an evaluator; call {shown}, then `save` its source"
            ) from None

    async def status(self, run: Name, wait: Annotated[float, Field(ge=0, le=60)] = 20) -> Reply:
        """Return a run's state, progress, and in the end its summary. Waits up to `wait` seconds for the end."""
        service = self._service()
        last: RunEvent | None = None
        with anyio.move_on_after(wait):
            async for event in service.events(run, 0):
                last = event
                if isinstance(event.data, StateChange) and event.data.state in OVER:
                    break
        found = await service.run(run)
        progress = last.data.model_dump(mode="json") if last is not None and isinstance(last.data, Progress) else None
        return as_reply(found.model_dump(mode="json", exclude_none=True) | ({"progress": progress} if progress else {}))

    async def cancel(self, run: Name) -> Reply:
        """Stop a run; its results so far stay."""
        return as_reply(_short(await self._service().cancel(run)))

    async def results(
        self,
        run: Name,
        order: Order = "worst",
        outcome: Outcome | None = None,
        label: Annotated[str | None, Field(max_length=200)] = None,
        error: ErrorKind | None = None,
        low: float | None = None,
        high: float | None = None,
        search: Annotated[str, Field(max_length=200)] = "",
        by: Annotated[str, Field(max_length=200)] = "",
        group: Annotated[str | None, Field(max_length=200)] = None,
        first: Annotated[int, Field(ge=0, le=1_000_000)] = 0,
        count: Annotated[int, Field(ge=1, le=_ROWS)] = 5,
    ) -> Reply:
        """
        Return rows of a run with their results, the worst scores first, then those that failed, then those that
        abstained.

        `order` may be `row` or `best`; the others filter: `low` and `high` bound the score, `group` is a value of the
        column `by`. `total` counts those that match.
        """
        chosen = Selection(
            order=order,
            outcome=outcome,
            label=label,
            error=error,
            low=low,
            high=high,
            search=search,
            by=by,
            group=group,
            first=first,
            count=count,
        )
        return as_reply(await self._service().results(run, chosen))

    async def compare(self, base: Name, new: Name, by: Annotated[str | None, Field(max_length=200)] = None) -> Reply:
        """
        Compare two runs of one dataset: is `new` better than `base`? The verdict is by the 95 % interval of the mean
        difference of paired rows; `by` is a column to group by.
        """
        return as_reply(await self._service().compare(base, new, by=by))

    async def verify(self, run: Name, sample: Annotated[str, Field(max_length=20)] = VERIFIED_ROWS) -> Reply:
        """
        Run rows of a finished run again, and tell whether they give the same; `mismatches` has the first that differ.

        `sample` is a number of rows or a share, such as "1%"; the digest of the results chooses them.
        """
        found = await self._service().verify(run, sample)
        return as_reply({"verdict": found.verdict, **found.model_dump(mode="json")})


def _template(known: dict[str, Template], name: str, language: Language) -> Reply:
    if (found := known.get(name)) is None:
        near = suggestion(name, known) or '; `list` with {"kind": "templates"} names them'
        raise ServiceError("not-found", f"there is no template {printable(name, 80)!r}{near}")
    if language not in found.sources:
        raise ServiceError("not-found", f"the template {name} is in {', '.join(found.sources)} only; ask for that")
    about = {"name": name, "description": found.description, "languages": list(found.languages)}
    return {**about, "source": found.sources[language]}


def _sentence(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=\.)\s|\n\s*\n", text.strip(), maxsplit=1)[0][:200].replace("\n", " ")


def _source(version: Reply, about: Reply) -> Reply:
    """An evaluator's source is shown whole: it is there to be edited. So are its files, if they are few and small."""
    source, files = version.pop("source"), version.pop("files")
    if sum(map(len, files.values())) > _SHOWN:
        files = {name: f"{len(text):,} characters" for name, text in files.items()}
    return {**as_reply({**version, **about}), "source": source, **({"files": files} if files else {})}


def _file(version: EvaluatorVersion, name: str) -> Reply:
    if name not in version.files:
        near = suggestion(name, version.files) or f"; it has {list_names(version.files, 20)}"
        raise ServiceError("not-found", f"{version.reference} has no file {printable(name, 80)!r}{near}")
    return {"evaluator": version.reference, "file": name, "text": version.files[name]}


def _tried(row: TriedRow) -> Reply:
    result = row.result
    keep = {*("number", "id", "outcome", "label", "score", "explanation", "outputs", "error", "stdout")}
    keep |= {"duration_ms", "waiting_ms"}
    found = result.model_dump(mode="json", include=keep, exclude_defaults=True)
    place = {"line": row.line, "column": row.column} if row.line is not None else {}
    seen = {"left_out": "arguments and returned value are too large"} if row.left_out else {}
    return {**found, **place, "arguments": row.arguments, "returned": row.returned, **seen}


def _short(run: RunInfo) -> Reply:
    """A run without its summary."""
    names = {"id", "title", "evaluator", "number", "dataset", "sandbox", "state", "total", "rows", "counts", "error"}
    found: Reply = run.model_dump(mode="json", include=names, exclude_none=True)
    return found


def _score_fields(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request for scores, of what a tool is given."""
    fields = {name: value for name, value in given.items() if name not in ("self", "values", "timeout")}
    return fields | {
        "language": given["language"] if given["source"] else None,
        "files": given["files"] or {},
        "mapping": InputMapping(paths=given["mapping"] or {}, literals=given["values"] or {}),
        "sandbox": config_or_preset(given["sandbox"]),
        "limits": Limits() if given["timeout"] is None else Limits(timeout=given["timeout"]),
    }
