"""Pages of evaluators: the editor, saving, versions and what differs between them."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from markupsafe import Markup, escape
from pydantic import TypeAdapter, ValidationError
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from runner.core.errors import EvaluatorError, InputError
from runner.inputs.evaluators.foreign import registry as dialects
from runner.inputs.evaluators.zip_file import read_folder, read_zip
from runner.results.store.types import EvaluatorVersion, KeptMapping
from runner.server.http.route import PageRoute
from runner.server.http.v1.parts import Here, while_there
from runner.server.http.web import draft as drafts
from runner.server.http.web import forms, header_form, mapping_form
from runner.server.http.web.draft import DRAFT_ROWS, EMPTY, Draft
from runner.server.http.web.render import link, page, value
from runner.server.service.base import call_in_thread, parsed_version
from runner.server.service.errors import ServiceError, problem_or_raise
from runner.server.service.service import Service
from runner.server.service.types import EvaluatorInput

router = APIRouter(route_class=PageRoute)
_LISTED = 100
_ADDRESS = 8000
"""Characters of an address that leads on; a request's headers have 32 KB."""
_NO_AUDIT: dict[str, Any] = {"labels": "", "examples": "", "detail": "", "lines": ()}
_DIFF = 2000
"""Lines of a difference that are shown."""


@router.get("/evaluators/new")
async def new(request: Request, service: Here, template: str = "", dataset: str = "") -> Response:
    """Return the editor with a template, a dropped script, or something to begin with."""
    draft = drafts.of_template(template)
    if dataset or "draft" in request.query_params:
        draft = replace(draft, dataset=dataset or await _newest_dataset(service))
    return await _editor(request, service, _mapped(draft, request))


def _mapped(draft: Draft, request: Request) -> Draft:
    """The draft with the mapping of an address, or with that which is kept."""
    query = request.query_params
    chosen = replace(draft, mapping=query.get("mapping", ""), id=query.get("id", ""))
    return replace(chosen, remembers="mapping" not in query)


@router.post("/evaluators/try")
async def attempt(request: Request, service: Here) -> Response:
    """Score a few rows with the script as it stands: a part of the page for its script, else the page."""
    draft = drafts.of_form(await forms.fields(request))
    found = await while_there(request, drafts.try_draft, service, draft)
    if "x-evalcell-part" in request.headers:
        made = page(request, "attempt.html", **found)
        if found["busy"]:
            made.headers["Retry-After"] = "1"
        return made
    return await _editor(request, service, draft, tried=found)


@router.post("/evaluators/audit")
async def audit(request: Request, service: Here) -> Response:
    """Return the editor with what an audit of the script as it stands finds."""
    form = await forms.fields(request)
    draft = drafts.of_form(form)
    fields = {name: form.get(f"audit_{name}", "").strip() for name in ("labels", "examples")}
    found = await while_there(request, drafts.audit_draft, service, draft, **fields)
    return await _editor(request, service, draft, side="audit", audit=_NO_AUDIT | fields | found)


@router.post("/evaluators/unpack")
async def unpack(request: Request, service: Here) -> Response:
    """Return the evaluator of a zip, or of files by their names as JSON, that were dropped: what a draft of it has."""
    data = await request.body()
    try:
        if request.headers.get("content-type") == "application/zip":
            found = await call_in_thread(read_zip, data)
        else:
            texts = TypeAdapter(dict[str, str]).validate_json(data)
            files = {name: text.encode("utf-8", "replace") for name, text in texts.items()}
            found = await call_in_thread(read_folder, files, None, "what was dropped")
    except (EvaluatorError, ValidationError) as error:
        why = str(error) if isinstance(error, EvaluatorError) else "what was dropped cannot be read; drop a zip of it"
        return JSONResponse({"detail": why.split("\n")[0]}, 422)
    reply = found.model_dump(mode="json", include={"name", "language", "source", "files"})
    return JSONResponse(reply | {"taken": await service.has_evaluator(found.name)})


@router.post("/evaluators/header")
async def write_header(request: Request, service: Here) -> Response:
    """Write the form's fields into the script's header: the script alone for the page's script, else the page."""
    form = await forms.fields(request)
    draft, alone = drafts.of_form(form), "x-evalcell-part" in request.headers
    try:
        draft = replace(draft, source=header_form.with_fields(draft.source, draft.language, form))
    except InputError as error:
        if alone:
            return PlainTextResponse(str(error).split("\n")[0], 422)
        return await _editor(request, service, draft, tried=EMPTY | {"detail": str(error)})
    return PlainTextResponse(draft.source) if alone else await _editor(request, service, draft)


@router.post("/evaluators/save")
async def save(request: Request, service: Here) -> Response:
    """
    Keep the script as a new version. A version of somebody else is shown before it is written over.

    The page's script gets JSON of what is kept, or the part of a page that says why nothing is.
    """
    form = await forms.fields(request)
    draft, alone = drafts.of_form(form), "x-evalcell-part" in request.headers
    try:
        saved = await _saved(service, draft, fresh="fresh" in form)
    except Exception as error:
        return await _refused(request, service, draft, problem_or_raise(error), alone=alone)
    chosen = {"dataset": draft.dataset, "mapping": draft.mapping, "id": draft.id}
    address = link(f"/evaluators/{quote(saved.name)}", {}, **chosen)
    if alone:
        told = {"name": saved.name, "number": saved.number, "version": saved.version, "address": address}
        return JSONResponse(told | {"reference": saved.reference})
    return RedirectResponse(address if len(address) <= _ADDRESS else f"/evaluators/{quote(saved.name)}", 303)


@router.post("/evaluators/run")
async def run(request: Request, service: Here) -> Response:
    """Go on to a run with what was tried: the script, kept if it was changed, its mapping, limits and sandbox."""
    form = await forms.fields(request)
    draft = drafts.of_form(form)
    try:
        opened = await call_in_thread(service.store.evaluator, form["opened"]) if "opened" in form else None
        same = opened is not None and _same(drafts.draft_of(opened), draft)
        version = opened if opened is not None and same else await _saved(service, draft, fresh="fresh" in form)
        if draft.remembers:
            draft = await call_in_thread(_remembered, service, draft)
    except Exception as error:
        return await _refused(request, service, draft, problem_or_raise(error))
    chosen = {name: getattr(draft, name) for name in ("dataset", "mapping", "id", "timeout", "memory", "sandbox")}
    address = link("/runs/new", {}, evaluator=version.reference, **chosen)
    if len(address) > _ADDRESS:
        problem = ServiceError("input", "the mapping is too long for a form; write it into the script's header")
        return await _refused(request, service, draft, problem)
    return RedirectResponse(address, 303)


def _same(opened: Draft, draft: Draft) -> bool:
    names = ("source", "files", "name", "dialect", "entry", "dialect_failures")
    return all(getattr(opened, name) == getattr(draft, name) for name in names)


def _text(script: Draft | EvaluatorVersion) -> str:
    """The script with its files, to be compared."""
    return "\n".join([script.source, *(f"{name}:\n{text}" for name, text in script.files.items())])


async def _saved(service: Service, draft: Draft, *, fresh: bool = False) -> EvaluatorVersion:
    """The version that is kept now, with the mapping of its dataset. A `fresh` one takes no name that is there."""
    script = EvaluatorInput(**draft.script, name=draft.name or None, dialect_failures=draft.dialect_failures)
    if fresh and draft.name and await service.has_evaluator(draft.name):
        theirs = await call_in_thread(service.store.evaluator, draft.name)
        if _text(theirs) != _text(draft):
            why = f"there is an evaluator {theirs.name} already, at version {theirs.number}"
            raise ServiceError("version-conflict", why)
    saved = await service.save_evaluator(script, expected=draft.expected or None)
    if draft.dataset and not draft.remembers:
        kept = KeptMapping(mapping=forms.mapping(draft.mapping), id_column=draft.id)
        await call_in_thread(mapping_form.keep, service.store, draft.dataset, parsed_version(saved), saved.name, kept)
    return saved


def _remembered(service: Service, draft: Draft) -> Draft:
    """The draft with the mapping that is kept. Blocks."""
    kept = mapping_form.kept_mapping(service.store, draft.dataset, draft.name)
    return replace(draft, mapping=forms.mapping_text(kept.mapping), id=kept.id_column)


async def _refused(
    request: Request, service: Service, draft: Draft, problem: ServiceError, *, alone: bool = False
) -> Response:
    if problem.kind != "version-conflict":
        failed = EMPTY | {"detail": problem.detail}
        if alone:
            return page(request, "refused.html", draft=draft, conflict=None, **failed)
        return await _editor(request, service, draft, tried=failed, status=problem.status)
    theirs = await call_in_thread(service.store.evaluator, draft.name)
    conflict = {"detail": problem.detail, "diff": difference(_text(draft), _text(theirs))}
    draft = replace(draft, expected=theirs.version)
    if alone:
        return page(request, "refused.html", draft=draft, conflict=conflict, detail="")
    return await _editor(request, service, draft, conflict=conflict, status=409)


@router.get("/evaluators/{reference}")
async def show_evaluator(
    request: Request, service: Here, reference: str, dataset: str = "", first: str = "1"
) -> Response:
    """Return a version, the newest or `name@n`, in the editor."""
    version = await call_in_thread(service.store.evaluator, reference)
    runs = [run for run in (await service.runs(count=_LISTED)).items if run.evaluator == version.name]
    if not dataset:
        known = [one.name for one in (await call_in_thread(service.store.datasets, count=_LISTED)).items]
        used = next((run.dataset for run in runs if run.dataset in known), "")
        dataset = used or await _newest_dataset(service)
    newest = await call_in_thread(service.store.evaluator, version.name)
    draft = _mapped(drafts.draft_of(version, expected=newest.version, dataset=dataset, first=first), request)
    every = (await call_in_thread(service.store.versions, version.name, count=_LISTED)).items
    return await _editor(request, service, draft, version=version, newest=newest, versions=every, runs=runs[:10])


async def _newest_dataset(service: Service) -> str:
    """The dataset that was kept last: most likely what one works on. Empty if there is none."""
    known = (await call_in_thread(service.store.datasets, count=_LISTED)).items
    return max(known, key=lambda one: one.created).name if known else ""


@router.get("/evaluators/{name}/diff")
async def differ(
    request: Request, service: Here, name: str, old: int, new: int, dataset: str = "", first: str = "1"
) -> Response:
    """Return two versions: what changed in the script, and both on the same rows."""
    versions = [await call_in_thread(service.store.evaluator, f"{name}@{number}") for number in (old, new)]
    query = dict(request.query_params)
    if mapping_form.OF in query:  # the form has a field for each parameter, and the address one for all
        kept = "" if mapping_form.is_remembered(query) else mapping_form.of_form(query)
        chosen: dict[str, Any] = {"old": old, "new": new, "dataset": dataset, "first": first, "mapping": kept}
        return RedirectResponse(link(request.url.path, {}, id=query.get("id"), **chosen), 303)
    found: list[dict[str, Any]] = []
    pairs: Any = []
    if dataset:
        for one in versions:
            draft = _mapped(drafts.of_version(one, dataset=dataset, first=first), request)
            found.append(await while_there(request, drafts.try_draft, service, draft, 4 * DRAFT_ROWS))
        replies = [one["reply"] for one in found]
        if all(replies):
            pairs = [(a.result, b.result) for a, b in zip(*(reply.results for reply in replies), strict=False)]
    return page(
        request,
        "diff.html",
        old=versions[0],
        new=versions[1],
        diff=difference(*map(_text, versions)),
        datasets=(await call_in_thread(service.store.datasets, count=_LISTED)).items,
        dataset=dataset,
        first=first,
        pairs=pairs,
        detail=next((one["detail"] for one in found if one["detail"]), ""),
        columns=found[-1]["columns"] if found else EMPTY["columns"],
    )


@router.post("/evaluators/{name}/delete")
async def delete(request: Request, service: Here, name: str) -> Response:
    """Delete an evaluator with its versions."""
    await call_in_thread(service.store.delete_evaluator, name)
    return RedirectResponse("/", 303)


async def _editor(
    request: Request,
    service: Service,
    draft: Draft,
    status: int = 200,
    tried: dict[str, Any] = EMPTY,
    **more: Any,
) -> Response:
    context: dict[str, Any] = {"version": None, "newest": None, "versions": (), "runs": (), "conflict": None}
    context |= {"side": "rows", "audit": _NO_AUDIT}
    return page(
        request,
        "evaluator.html",
        status,
        draft=draft,
        header=drafts.header(draft),
        dialects=[(one.name, one.title) for one in dialects.every()],
        fits=await drafts.fits(service, draft),
        why=await drafts.why(service, draft),
        datasets=(await call_in_thread(service.store.datasets, count=_LISTED)).items,
        **(context | more),
        **tried,
    )


def difference(old: str, new: str) -> Markup:
    """Return what changed from one text to the other, as lines."""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=3))[2:]
    if not lines:
        return Markup('<p class="dim">Nothing: the scripts are the same.</p>')
    kinds = {"+": "added", "-": "removed", "@": "place"}
    made = Markup("").join(
        Markup('<span class="{}">{}</span>').format(kinds.get(line[0], ""), escape(value(line)))
        for line in lines[:_DIFF]
    )
    more = f"{len(lines) - _DIFF:,} more lines are not shown" if len(lines) > _DIFF else ""
    return Markup('<pre class="diff" tabindex="0">{}</pre><p class="dim">{}</p>').format(made, more)
