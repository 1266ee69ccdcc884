"""An evaluator as the page has it while one writes: not kept yet, tried on a few rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

import templates
from runner.core.errors import ColumnsError, EvaluatorError, InputError
from runner.core.text import printable
from runner.core.types import DialectFailures, InputMapping
from runner.inputs.datasets.required_columns import PLACEHOLDER
from runner.inputs.evaluators.resolve import choose
from runner.results.store.types import EvaluatorVersion, KeptMapping
from runner.runs.audit.words import audit_lines
from runner.runs.pool.types import TryReply
from runner.server.http.web import forms, header_form, mapping_form
from runner.server.http.web.blame import blame, definition
from runner.server.http.web.mapping_form import MappingForm
from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError, problem_or_raise
from runner.server.service.service import Service
from runner.server.service.types import (
    MOST_EXAMPLES,
    MOST_ROWS,
    MOST_WORD,
    AuditRequest,
    CheckRequest,
    EvaluateRequest,
    SandboxFit,
    ScriptSource,
)
from sandboxes.base import Language, Problem, SandboxConfig
from sandboxes.errors import SandboxError, UnsupportedConfigError

_PLACE = re.compile(r"[^\s:]{1,80}:(\d{1,7})(?::(\d{1,7}))?: (.*)")
_SECONDS = "2"
"""That a row may take while one types, if the form does not say: a script that loops should not be waited for long."""
FILE = "file:"
"""Begins the name of a field that holds a file."""
DRAFT_ROWS = 5
"""Rows that are scored while one types."""

_NO_FIELDS = ("files", "mapping", "remembers")
EMPTY: dict[str, Any] = {
    **{"problems": "[]", "detail": "", "busy": False, "columns": MappingForm("")},
    **{"reply": None, "pace": None, "same": None, "read": None, "patience": _SECONDS},
}
"""What `tried.html` shows before anything was tried."""


@dataclass
class Draft:
    """The fields of the editor's form, as text."""

    name: str = ""
    language: Language = "python"
    source: str = ""
    expected: str = ""
    """The version that was opened."""
    dataset: str = ""
    """Empty: the typed rows."""
    first: str = "1"
    rows: str = ""
    mapping: str = ""
    id: str = ""
    """The column with the rows' ids; empty: `id`."""
    remembers: bool = False
    """Whether mapping and ids are those that are kept for the dataset."""
    timeout: str = ""
    memory: str = ""
    sandbox: str = ""
    dialect: str = ""
    """The tool that it was written for; empty: found out by reading it."""
    entry: str = ""
    dialect_failures: DialectFailures = "failed"
    files: dict[str, str] = field(default_factory=dict)
    """The texts of the files that belong to it, by their names."""

    @property
    def script(self) -> dict[str, Any]:
        """The script with its files and how it is read, as a ScriptSource."""
        how = {"dialect": self.dialect or None, "entry": self.entry or None}
        return {"source": self.source, "language": self.language, "files": self.files, **how}


def of_form(form: Mapping[str, str]) -> Draft:
    """Return the draft that a form sends. Raises InputError for a word that is too long."""
    known: dict[str, Any] = {name: form[name] for name in asdict(Draft()) if name in form and name not in _NO_FIELDS}
    for name, label in (("dialect", "Read as"), ("entry", "What is called")):
        known[name] = known.get(name, "").strip()
        if len(known[name]) > MOST_WORD:
            raise InputError(f"{label}: it has more than {MOST_WORD} characters; shorten it")
    language: Language = "typescript" if known.pop("language", "") == "typescript" else "python"
    failures: DialectFailures = "as-zero" if known.pop("dialect_failures", "") == "as-zero" else "failed"
    known |= {"mapping": mapping_form.of_form(form), "remembers": mapping_form.is_remembered(form)}
    return Draft(language=language, dialect_failures=failures, files=_files(form), **known)


def _files(form: Mapping[str, str]) -> dict[str, str]:
    """The files of a form: those that are shown and were not taken out, and a new one."""
    shown = {name.removeprefix(FILE): text for name, text in form.items() if name.startswith(FILE)}
    found = {name: text.replace("\r\n", "\n") for name, text in shown.items() if f"drop:{name}" not in form}
    if new := form.get("new_file", "").strip():
        found[new] = form.get("new_text", "").replace("\r\n", "\n")
    return found


def of_version(version: EvaluatorVersion, **more: Any) -> Draft:
    """Return the draft of a version that is kept, read as it was when it was saved."""
    draft = Draft(version.name, version.language, version.source, dialect_failures=version.dialect_failures)
    draft = replace(draft, files=version.files)
    return replace(draft, dialect=version.how_read["dialect"] or "", entry=version.entry or "", **more)


def draft_of(version: EvaluatorVersion, **more: Any) -> Draft:
    """Return the draft of a version to be changed: it has what somebody asked for, as the rest is said by its text."""
    draft = of_version(version, **more)
    return replace(draft, dialect=version.asked_dialect or "", entry=version.asked_entry or "")


def of_template(name: str) -> Draft:
    """Return a draft to begin with: a template with the rows of its demo, or the starter. Raises ServiceError."""
    if not name:
        source, _ = templates.starter("python")
        return Draft(name="my-evaluator", source=source, rows=_lines(_STARTER_ROWS))
    try:
        chosen = templates.languages(name)[0]
        source, demo = templates.source(name, chosen), templates.demo(name, chosen)
    except KeyError:
        raise ServiceError("not-found", f"there is no template {printable(name, 60)!r}; home lists them") from None
    rows = _cases(name)
    if demo is not None:
        with demo.open(encoding="utf-8") as file:
            rows = "".join(line for line, _ in zip(file, range(DRAFT_ROWS), strict=False))
    return Draft(name=name, language=chosen, source=source, rows=rows)


_STARTER_ROWS = (
    {"input": "What is the capital of France?", "output": "Paris", "reference": "Paris"},
    {"input": "What is 2 + 2?", "output": "5", "reference": "4"},
    {"input": "Who wrote Faust?", "output": "johann wolfgang von goethe", "reference": "Johann Wolfgang von Goethe"},
)


def _lines(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _cases(name: str) -> str:
    """The first worked examples of a template, as rows: they have what a row has, and what is expected of it."""
    found = [
        json.loads(line) for line in templates.cases(name).read_text("utf-8").splitlines()[:DRAFT_ROWS] if line.strip()
    ]
    return _lines({key: value for key, value in case.items() if key not in ("expected", "about")} for case in found)


async def try_draft(service: Service, draft: Draft, count: int = DRAFT_ROWS) -> dict[str, Any]:
    """Return the rows with the script as it stands, as `tried.html` shows them. What is wrong is a sentence in it."""
    known: dict[str, Any] = {
        "read": None,
        "columns": MappingForm(draft.dataset, text=draft.mapping, id_column=draft.id),
    }
    try:
        if not draft.source.strip():
            return EMPTY
        asked = request_of(draft, await _rows(service, draft, count))
        checked = await service.check(CheckRequest(**draft.script))
        known["read"] = checked if checked.dialect else None
        reply = await _evaluated(service, draft, asked, known)
        if reply is None:
            return EMPTY | known
    except Exception as error:
        return _failed(error, draft) | known
    places = [blame(draft.source, checked.entry or "", one) for one in reply.results]
    found = {(one.line, one.column, one.message): one for one in (*reply.problems, *filter(None, places))}
    times = [one.result.duration_ms for one in reply.results if one.result.error is None]
    pace = max(0.05, fmean(times[1:] or times)) / 1000 if times else None  # the first one is slower
    first = reply.results[0].result if len(reply.results) > 1 else None
    same = first if first and first.error and all(one.result.error == first.error for one in reply.results) else None
    shown = {"problems": _problems(found.values()), "reply": reply, "pace": pace, "same": same}
    return EMPTY | known | shown


async def audit_draft(service: Service, draft: Draft, *, labels: str, examples: str) -> dict[str, Any]:
    """Return what an audit of the script finds, as lines; what is wrong is a sentence."""
    try:
        rows = None if draft.dataset else forms.rows(draft.rows, MOST_ROWS)
        mapping = forms.mapping(draft.mapping)
        if draft.dataset and draft.remembers:
            mapping = (
                await call_in_thread(mapping_form.kept_mapping, service.store, draft.dataset, draft.name)
            ).mapping
        asked = AuditRequest(
            **_score_fields(draft),
            rows=rows,
            dataset=draft.dataset or None,
            mapping=mapping,
            labels=labels or None,
            examples=forms.rows(examples, MOST_EXAMPLES) if examples else None,
        )
        found = await service.audit(asked)
        return {"lines": [*audit_lines(found.model_copy(update={"evaluator": draft.name or found.evaluator}))]}
    except Exception as error:
        return {"detail": problem_or_raise(error).detail}


async def _rows(service: Service, draft: Draft, count: int) -> list[dict[str, Any]]:
    """The rows to try: those that are typed, or the dataset's from its first one on."""
    if not draft.dataset:
        return forms.rows(draft.rows, DRAFT_ROWS)
    first = forms.whole_number(draft.first or "1", "the first row")
    found = await service.dataset_rows(draft.dataset, first, count)
    return [one.row for one in found.rows if one.row is not None]


async def _evaluated(service: Service, draft: Draft, asked: EvaluateRequest, known: dict[str, Any]) -> TryReply | None:
    """
    The rows, scored; columns that nobody has named are the likely ones. None: somebody must choose a column.

    `known` gets the questions of the mapping.
    """
    evaluator, rows = await service.evaluator_of(asked), asked.rows or []
    names = dict.fromkeys(name for row in rows for name in row)
    kept = KeptMapping(mapping=asked.mapping, id_column=draft.id)
    if draft.dataset:
        names |= dict.fromkeys((await call_in_thread(service.store.dataset, draft.dataset)).columns)
        if draft.remembers:
            kept = await call_in_thread(mapping_form.kept_mapping, service.store, draft.dataset, draft.name)
    kept = kept.model_copy(update={"mapping": mapping_form.known_part(evaluator, kept.mapping)})

    def ask(likely: Mapping[str, str]) -> None:
        first = rows[0] if rows else None
        known["columns"] = mapping_form.questions(evaluator, kept, draft.dataset, [*names], first, likely)

    ask({})
    rows = [{**row, "id": row[kept.id_column]} if kept.id_column in row else row for row in rows]
    asked = asked.model_copy(update={"mapping": kept.mapping, "rows": rows})
    try:
        return await service.evaluate(asked)
    except ColumnsError as error:
        likely = {name: path for name, path in error.paths.items() if path != PLACEHOLDER}
        mapping = InputMapping(paths={**kept.mapping.paths, **likely}, literals=kept.mapping.literals)
        kept = kept.model_copy(update={"mapping": mapping})
        ask(likely)
        if likely and len(likely) == len(error.paths) and not error.values:
            return await service.evaluate(asked.model_copy(update={"mapping": mapping}))
        if not known["columns"].lacks:
            raise
        return None


def _failed(error: Exception, draft: Draft) -> dict[str, Any]:
    problem = problem_or_raise(error)
    if isinstance(error, EvaluatorError):
        place, words = _place(error, draft)
        return EMPTY | {"problems": _problems([place]), "detail": words}
    detail = problem.more.get("why", problem.detail)  # a mapping is shown as one
    return EMPTY | {"detail": detail, "busy": problem.retryable}


def _place(error: EvaluatorError, draft: Draft) -> tuple[Problem, str]:
    """Where in the script it is, and what is wrong there: the message names a file, the place, and shows its line."""
    first = str(error).split("\n")[0]
    found = _PLACE.match(first)
    if found is None:
        line, words = definition(draft.source, first)
        return Problem(line=line, column=1, message=first), f"{first}; {words}" if words else first
    line, column = int(found[1]), int(found[2] or 1)
    where = f"line {line}, column {column}" if found[2] else f"line {line}"
    return Problem(line=line, column=column, message=found[3]), f"{where}: {found[3]}"


def _problems(found: Any) -> str:
    return json.dumps([{"line": one.line, "column": one.column, "message": one.message} for one in found])


def request_of(draft: Draft, rows: list[dict[str, Any]]) -> EvaluateRequest:
    """Return what the service is asked. Raises InputError."""
    if not rows and not draft.dataset:
        raise InputError('there is no row to try; choose a dataset, or type a row such as {"output": "a"}')
    return EvaluateRequest(**_score_fields(draft), rows=rows, mapping=forms.mapping(draft.mapping))


def _score_fields(draft: Draft) -> dict[str, Any]:
    """The script, its limits and its sandbox, as a ScoreRequest has them."""
    return {
        **draft.script,
        "dialect_failures": draft.dialect_failures,
        "limits": forms.limits({**asdict(draft), "timeout": draft.timeout.strip() or _SECONDS}),
        "sandbox": SandboxConfig(backend=draft.sandbox) if draft.sandbox else None,
    }


async def fits(service: Service, draft: Draft) -> list[SandboxFit]:
    """Return each sandbox with yes or why not; none while the script is no evaluator."""
    try:
        return await service.fits(script=ScriptSource(**draft.script))
    except InputError:
        return []


async def why(service: Service, draft: Draft) -> str:
    """Return the sandbox that is chosen for the script, and the reason; empty while it is no evaluator."""
    try:
        evaluator = await service.evaluator_of(EvaluateRequest(**draft.script))
        return (await call_in_thread(choose, evaluator)).why
    except (InputError, ServiceError, SandboxError, UnsupportedConfigError):
        return ""


def header(draft: Draft) -> dict[str, str]:
    """Return the fields of the header's form; empty while the header cannot be read."""
    try:
        return header_form.as_fields(draft.source, draft.language)
    except EvaluatorError:
        return header_form.as_fields("", draft.language)
