"""An evaluator as the page has it while one writes: not kept yet, tried on a few rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

import templates
from runner.core.errors import EvaluatorError, InputError
from runner.core.text import printable
from runner.core.types import DialectFailures
from runner.results.store.types import EvaluatorVersion
from runner.server.http.web import forms, header_form
from runner.server.service.errors import ServiceError, problem_or_raise
from runner.server.service.service import Service
from runner.server.service.types import MOST_WORD, CheckRequest, EvaluateRequest, SandboxFit, ScriptSource
from sandboxes.base import Language, Problem, SandboxConfig

_PLACE = re.compile(r"[^\s:]{1,80}:(\d{1,7})(?::(\d{1,7}))?: (.*)")
_SECONDS = "2"
"""That a row may take while one types, if the form does not say: a script that loops should not be waited for long."""
FILE = "file:"
"""Begins the name of a field that holds a file."""
DRAFT_ROWS = 5
"""Rows that are scored while one types."""

EMPTY: dict[str, Any] = {
    **{"problems": "[]", "detail": "", "mapping": "", "busy": False},
    **{"reply": None, "speed": None, "same": None, "read": None, "patience": _SECONDS},
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
    known: dict[str, Any] = {name: form[name] for name in asdict(Draft()) if name in form and name != "files"}
    for name, label in (("dialect", "Read as"), ("entry", "What is called")):
        known[name] = known.get(name, "").strip()
        if len(known[name]) > MOST_WORD:
            raise InputError(f"{label}: it has more than {MOST_WORD} characters; shorten it")
    language: Language = "typescript" if known.pop("language", "") == "typescript" else "python"
    failures: DialectFailures = "as-zero" if known.pop("dialect_failures", "") == "as-zero" else "failed"
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


def of_template(name: str, language: Language | None = None) -> Draft:
    """Return a draft to begin with: a template with the rows of its demo, or the starter. Raises ServiceError."""
    if not name:
        source, _ = templates.starter("python")
        return Draft(name="my-evaluator", source=source, rows=_lines(_STARTER_ROWS))
    try:
        chosen = language or templates.languages(name)[0]
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


async def try_draft(service: Service, draft: Draft) -> dict[str, Any]:
    """Return the rows with the script as it stands, as `tried.html` shows them. What is wrong is a sentence in it."""
    read = None
    try:
        if not draft.source.strip():
            return EMPTY
        asked = request_of(draft)
        checked = await service.check(CheckRequest(**draft.script))
        read = checked if checked.dialect else None
        reply = await service.evaluate(asked)
    except Exception as error:
        return _failed(error) | {"read": read}
    places = [
        Problem(line=one.line, column=one.column or 1, message=one.result.error.message)
        for one in reply.results
        if one.line and one.result.error
    ]
    found = {(one.line, one.column, one.message): one for one in (*reply.problems, *places)}
    times = [one.result.duration_ms for one in reply.results if one.result.error is None]
    speed = 1000 / max(0.05, median(times)) if times else None
    first = reply.results[0].result if len(reply.results) > 1 else None
    same = first if first and first.error and all(one.result.error == first.error for one in reply.results) else None
    shown = {"problems": _problems(found.values()), "reply": reply, "speed": speed, "same": same, "read": read}
    return EMPTY | shown


def _failed(error: Exception) -> dict[str, Any]:
    problem = problem_or_raise(error)
    if isinstance(error, EvaluatorError):
        place, words = _place(error)
        return EMPTY | {"problems": _problems([place] if place else ()), "detail": words}
    paths: dict[str, str] = problem.more.get("paths") or {}
    lines = [f"{name} = {column}" for name, column in paths.items()]
    lines += [f"{name} := VALUE" for name in problem.more.get("values") or ()]
    detail = problem.more.get("why", problem.detail)  # a mapping is shown as one, with a button
    return EMPTY | {"detail": detail, "busy": problem.retryable, "mapping": "\n".join(lines)}


def _place(error: EvaluatorError) -> tuple[Problem | None, str]:
    """Where in the script it is, and what is wrong there: the message names a file, the place, and shows its line."""
    first = str(error).split("\n")[0]
    found = _PLACE.match(first)
    if found is None:
        return None, first
    line, column = int(found[1]), int(found[2] or 1)
    where = f"line {line}, column {column}" if found[2] else f"line {line}"
    return Problem(line=line, column=column, message=found[3]), f"{where}: {found[3]}"


def _problems(found: Any) -> str:
    return json.dumps([{"line": one.line, "column": one.column, "message": one.message} for one in found])


def request_of(draft: Draft) -> EvaluateRequest:
    """Return what the service is asked. Raises InputError."""
    typed = None if draft.dataset else forms.rows(draft.rows, DRAFT_ROWS)
    if typed == []:
        raise InputError('there is no row to try; choose a dataset, or type a row such as {"output": "a"}')
    return EvaluateRequest(
        **draft.script,
        dialect_failures=draft.dialect_failures,
        rows=typed,
        dataset=draft.dataset or None,
        first=forms.whole_number(draft.first or "1", "the first row"),
        count=DRAFT_ROWS,
        mapping=forms.mapping(draft.mapping),
        limits=forms.limits({**asdict(draft), "timeout": draft.timeout.strip() or _SECONDS}),
        sandbox=SandboxConfig(backend=draft.sandbox) if draft.sandbox else None,
    )


async def fits(service: Service, draft: Draft) -> list[SandboxFit]:
    """Return each sandbox with yes or why not; none while the script is no evaluator."""
    try:
        return await service.fits(script=ScriptSource(**draft.script))
    except InputError:
        return []


def header(draft: Draft) -> dict[str, str]:
    """Return the fields of the header's form; empty while the header cannot be read."""
    try:
        return header_form.as_fields(draft.source, draft.language)
    except EvaluatorError:
        return header_form.as_fields("", draft.language)
