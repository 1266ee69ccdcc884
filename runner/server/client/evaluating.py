"""`evaluate` on a server: rows at once or as a run, and the report that `evaluate` on this machine gives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as File
from typing import Any, Unpack, cast

import templates
from runner.core.errors import EvaluatorError, ExamplesError, ServerError
from runner.core.settings import (
    WORST,
    ClientAuditOptions,
    ClientOptions,
    DialectOptions,
    FileOptions,
    RunSettings,
    ServerOptions,
)
from runner.core.signature import with_settings
from runner.core.text import printable
from runner.core.types import Evaluator, Result, Show
from runner.engine.arguments import config_or_preset
from runner.engine.request import Path, Rows, Scorer
from runner.engine.scoring.run_totals import Repeats
from runner.engine.scoring.shown_rows import ShownRows, Worst
from runner.engine.scoring.tally import Tally
from runner.inputs.call import as_mapping, with_whole_call
from runner.inputs.datasets.dataset import SUFFIXES
from runner.inputs.datasets.formats.streams import COMPRESSION_SUFFIXES
from runner.inputs.evaluators.resolve import find_dataset, is_path
from runner.results.store.errors import NotStoredError
from runner.results.store.types import EvaluatorVersion
from runner.runs.audit.types import Audit, AuditOptions
from runner.runs.examples.load import any_examples, find_examples, row_of
from runner.runs.pool.types import MOST_TRIED, TryReply
from runner.runs.report import Report
from runner.server.client import resources
from runner.server.client.requests import Ask
from runner.server.client.resources import add, local, send_dataset, sent_rows
from runner.server.client.rows import spool_rows
from runner.server.client.runs import Watch, cancelling, page, start_run, status, wait
from runner.server.client.server import Server
from runner.server.service.types import MOST_ROWS
from sandboxes.base import Call, Language, SandboxConfig

_RESULTS = 500
_TRIED = ("sandbox", "limits", "mapping", "seed", "limit")
"""Settings with which a few rows are scored at once."""
_OPENING = 900.0
"""Seconds in which a server opens a sandbox and scores a few rows."""


@with_settings("Client.evaluate", ClientOptions)
async def evaluate(
    server: Server,
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    title: str = "",
    watch: Watch | None = None,
    **settings: Unpack[ClientOptions],
) -> Report:
    """
    Score a dataset on the server, and wait for all results: what `evaluate` does, as far as a server can.

    Up to 100 rows are scored at once, and nothing of them is kept; all else is a run of the server, and each result
    carries the columns in `keep`, or else those that the evaluator was given, input, output and reference. Who stops
    waiting stops the run.

    Args:
        evaluator: The name of one that the server keeps, such as `polite@3`; or one of this machine, which it then
            keeps: a path, a template's name, a function or an `Evaluator`.
        dataset: The name of one that the server keeps; or a file, `demo`, a data frame or rows, which are sent.
        title: The run's.
        watch: Called with each event of the run.
        **settings: As in `evaluate`. `sandbox` may also be the name of a preset; `baseline` is a run of the server.

    Raises:
        ServerError: The server cannot be reached, or did not do what it was asked.
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.
    """
    said: dict[str, Any] = {**settings}
    given = {name: value for name, value in locals().items() if name not in ("server", "settings", "said")} | said
    asked = cast("ServerOptions", {name: said[name] for name in said if name in ServerOptions.__annotations__})
    how = {name: said[name] for name in said if name in DialectOptions.__annotations__}
    sending = {name: said[name] for name in said if name in FileOptions.__annotations__}
    worst, show = settings.get("worst", WORST), settings.get("show", "worst")
    with with_whole_call(evaluate, given):
        found = await _evaluator(server, evaluator, how)
        if isinstance(dataset, str | os.PathLike):
            name = await _dataset(server, dataset, evaluator, found.language, sending)
            return await _run(server, found, name, title, asked, worst, show, watch)
        spool = await server.call(lambda: spool_rows(dataset, few=MOST_TRIED))
        with spool:
            plain = not title and not any(_is_set(name, value) for name, value in asked.items())
            script = found if isinstance(found, Evaluator) else found.evaluator()
            if plain and spool.few is not None and script.aggregate is None:
                return await _tried(server, found, spool.few[: settings.get("limit")], asked, worst, show)
            sent_dataset = await sent_rows(server, spool)
        return await _run(server, found, sent_dataset.name, title, asked, worst, show, watch)


def _is_set(name: str, value: Any) -> bool:
    """Whether only a run has this setting."""
    return name not in _TRIED and value not in (None, [], RunSettings.model_fields[name].default)


@with_settings("Client.evaluate", ClientAuditOptions)
async def audit(
    server: Server,
    evaluator: Scorer,
    dataset: Path | Rows,
    *,
    examples: Path | Iterable[Mapping[str, Any]] | None = None,
    require: Sequence[str] = (),
    sample: int | None = None,
    allow: Sequence[str] = (),
    mutants: int | None = None,
    labels: str | None = None,
    right: str | None = None,
    cluster: str | None = None,
    **settings: Unpack[ClientAuditOptions],
) -> Audit:
    """
    Tell what an evaluator gets wrong, as `audit` does here; who stops waiting stops it.

    Up to 100 rows are sent with the request; more, and a file, are kept as a dataset.

    Args:
        evaluator: As in `evaluate`; a script that is sent is not kept.
        dataset: As in `evaluate`.
        examples, require, sample, allow, mutants, labels, right, cluster: As in `runner.audit`. The examples of a path
            or a template are found here, those of an evaluator that the server keeps must be given.
        **settings: As in `evaluate`.

    Raises:
        ServerError: The server cannot be reached, or did not do what it was asked.
        InputError, UnsupportedConfigError, SandboxError: As in `runner.audit`.
    """
    said: dict[str, Any] = {**settings}
    how = {name: said[name] for name in said if name in DialectOptions.__annotations__}
    sending = {name: said[name] for name in said if name in FileOptions.__annotations__}
    found = await _evaluator(server, evaluator, how)
    body = _score_body(found, said)
    options = AuditOptions(
        sample=sample, allow=tuple(allow), mutants=mutants, labels=labels, right=right, cluster=cluster
    )
    body |= {**options.model_dump(), "require": list(require)}
    body["examples"] = await server.call(lambda: _worked(examples, evaluator, found))
    if isinstance(dataset, str | os.PathLike):
        body["dataset"] = await _dataset(server, dataset, evaluator, found.language, sending)
    else:
        with await server.call(lambda: spool_rows(dataset, few=MOST_ROWS)) as spool:
            body["rows"] = spool.few
            if spool.few is None:
                body["dataset"] = (await sent_rows(server, spool)).name
    audited = await server.ask_for(Audit, Ask("POST", "/v1/audit", body=body, within=_OPENING))
    return audited.model_copy(update={"evaluator": found.name})


def _worked(
    given: Path | Iterable[Mapping[str, Any]] | None, evaluator: Scorer, found: Evaluator | EvaluatorVersion
) -> list[dict[str, Any]] | None:
    """Worked examples as rows; those beside a script of this machine where none are given. Raises ExamplesError."""
    if given is None:
        if isinstance(found, EvaluatorVersion) or not isinstance(evaluator, str | os.PathLike):
            return None
        try:
            given = find_examples(evaluator)
        except ExamplesError:
            return None
    return [row_of(example) for example in any_examples(given)]


async def report(server: Server, run: str, *, worst: int = WORST, show: Show = "worst") -> Report:
    """
    Return all results of a run that has ended, with its summary.

    Args:
        run: Its id.
        worst: Show this many rows.
        show: Show these rows instead of the worst.

    Raises:
        ServerError: The run was cancelled, or has not ended.
    """
    info = await status(server, run)
    if info.summary is None or info.state == "cancelled":
        why = f": {printable(info.error, 600)}" if info.error else "; `wait` for its end"
        raise ServerError(f"the run {run} is {info.state} and has no report{why}", type="run-state")
    results: list[Result] = []
    while some := await page(server, run, {}, len(results), _RESULTS, info.summary.repeat):
        results += some
    script: Evaluator | None = None
    if info.number is not None:
        found = await resources.evaluator(server, f"{info.evaluator}@{info.number}")
        script = found.evaluator()
    repeats = Repeats(info.summary.repeat)
    joined = [one for one in map(repeats.add, results) if one is not None]
    shown = _shown(script, ((one, one.row) for one in joined), worst, show, info.summary.labels)
    return Report(results=results, summary=info.summary, shown=shown)


async def _run(
    server: Server,
    found: Evaluator | EvaluatorVersion,
    dataset: str,
    title: str,
    settings: ServerOptions,
    worst: int,
    show: Show,
    watch: Watch | None,
) -> Report:
    stored = found if isinstance(found, EvaluatorVersion) else await add(server, found)
    info = await start_run(server, stored.reference, dataset, title, settings)
    async with server.undone_by(cancelling(info.id)):
        info = await wait(server, info.id, watch=watch)
    if info.state == "failed":
        raise ServerError(f"the run {info.id} failed: {printable(info.error or 'see its page', 600)}", type="run-state")
    return await report(server, info.id, worst=worst, show=show)


async def _tried(
    server: Server,
    found: Evaluator | EvaluatorVersion,
    rows: list[dict[str, Any]],
    settings: ServerOptions,
    worst: int,
    show: Show,
) -> Report:
    """A few rows, scored at once."""
    script = found if isinstance(found, Evaluator) else found.evaluator()
    body = _score_body(found, settings) | {"rows": rows}
    reply = await server.ask_for(TryReply, Ask("POST", "/v1/evaluate", body=body, within=_OPENING))
    # A script that is sent has no name there.
    results = [one.result.model_copy(update={"evaluator": script.name}) for one in reply.results]
    tally = Tally(script.configs)
    for result in results:
        tally.add(result)
    pairs = zip(results, (one.arguments for one in reply.results), strict=True)
    shown = _shown(script, pairs, worst, show, tally.labels())
    return Report(results=results, summary=tally.summary(reply.seconds), shown=shown)


def _score_body(found: Evaluator | EvaluatorVersion, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says of the evaluator whose scores it asks for, and of how it runs."""
    if isinstance(found, EvaluatorVersion):
        body: dict[str, Any] = {"evaluator": found.reference}
    else:
        body = {"source": found.source, "files": found.files, "language": found.language}
        body |= resources.how_read(found)
    sandbox, limits = settings.get("sandbox"), settings.get("limits")
    config = config_or_preset(sandbox) if isinstance(sandbox, str) else sandbox
    body["sandbox"] = (
        config.model_dump(mode="json", exclude_unset=True) if isinstance(config, SandboxConfig) else config
    )
    body |= {
        "seed": settings.get("seed"),
        "mapping": as_mapping(settings.get("mapping")).model_dump(mode="json"),
    }
    if limits is not None:
        body["limits"] = limits.model_dump(mode="json", exclude_unset=True)
    return body


def _shown(
    script: Evaluator | None,
    results: Iterable[tuple[Result, dict[str, Any]]],
    worst: int,
    show: Show,
    labels: Iterable[str],
) -> ShownRows:
    found = Worst(script, worst, show)
    for result, arguments in results:
        found.watch(result, Call(id=result.number, arguments=arguments))
        found.add(result)
    return found.rows(labels)


async def _evaluator(server: Server, given: Scorer, how: Mapping[str, Any]) -> Evaluator | EvaluatorVersion:
    """One that the server keeps, or one of this machine."""
    if not isinstance(given, str) or is_path(given):
        return await server.call(lambda: local(given, **how))
    is_template = given.replace("_", "-") in templates.names()
    try:
        if not (is_template and how.get("language")):
            return await resources.evaluator(server, given)
    except NotStoredError as error:
        if not is_template:
            raise EvaluatorError(str(error)) from None
    return await server.call(lambda: local(given, **how))


async def _dataset(
    server: Server, given: Path, evaluator: Scorer, language: Language, sending: Mapping[str, Any]
) -> str:
    """The name of a dataset that the server keeps; a file is sent."""
    name = os.fspath(given)
    if isinstance(given, str) and name != "demo" and not _is_file(name):
        return name
    if name == "demo":
        named = evaluator if isinstance(evaluator, str) else "json-distance"
        file = File(find_dataset("demo", named.partition("@")[0], language))
        file_name = f"{file.parent.name.replace('_', '-')}-demo{file.suffix}"
    else:
        file, file_name = File(name), File(name).name
    info = await send_dataset(server, file, file_name, another=True, **sending)
    return info.name


def _is_file(name: str) -> bool:
    return os.path.exists(name) or name.lower().endswith((*SUFFIXES, *COMPRESSION_SUFFIXES)) or os.sep in name
