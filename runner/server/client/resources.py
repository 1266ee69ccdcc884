"""Operations on the evaluators and datasets that a server keeps."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path as File
from typing import TypeVar, Unpack
from uuid import uuid4

from runner.core.errors import InputError, ServerError
from runner.core.settings import DialectOptions, FileOptions
from runner.core.text import describe
from runner.core.types import Evaluator
from runner.engine.arguments import make_request
from runner.engine.request import Path, Rows, Scorer
from runner.inputs.evaluators.entrypoint import NATIVE
from runner.inputs.evaluators.resolve import find_evaluator
from runner.results.store.errors import NameTakenError, VersionConflictError
from runner.results.store.types import DatasetInfo, EvaluatorInfo, EvaluatorVersion, Page
from runner.server.client.requests import Ask
from runner.server.client.rows import RowSpool, digest_of, refuse_unreadable, spool_rows
from runner.server.client.server import Server
from runner.server.service.types import ScriptCheck
from sandboxes.base import Language

T = TypeVar("T")
_PAGE = 100
_SUFFIX: dict[Language, str] = {"python": ".py", "typescript": ".ts"}


def local(evaluator: Scorer, **how: Unpack[DialectOptions]) -> Evaluator:
    """
    Return an evaluator of this machine: a path, a template's name, a function, or what was read.

    Raises:
        EvaluatorError: It is not an evaluator.
    """
    request, _ = make_request(evaluator, (), **how)
    named = request.evaluator
    return named if isinstance(named, Evaluator) else find_evaluator(named, request.language, **request.how_read)


def how_read(evaluator: Evaluator) -> dict[str, str]:
    """Return what a server is told of a script that was written for another tool, or looks so; of our own, nothing."""
    if evaluator.dialect is None:
        if evaluator.entry is not None:
            return {"dialect": NATIVE, "entry": evaluator.entry}
        return {} if evaluator.asked_dialect is None else {"dialect": evaluator.asked_dialect}
    entry = {} if evaluator.entry is None else {"entry": evaluator.entry}
    return {"dialect": evaluator.dialect, **entry, "dialect_failures": evaluator.dialect_failures}


async def add(
    server: Server,
    evaluator: Scorer,
    *,
    name: str | None = None,
    language: Language | None = None,
    expected: str | None = None,
) -> EvaluatorVersion:
    """
    Keep an evaluator on the server; the same source, read in the same way, is no new version.

    Args:
        evaluator: As in `evaluate`.
        name: Its name there. None: its own.
        language: As in `evaluate`.
        expected: The version that was edited, if a newer one must not be replaced.

    Returns:
        Its newest version.

    Raises:
        EvaluatorError: It is not an evaluator.
        VersionConflictError: Somebody else saved a newer version than `expected`.
    """
    read = await server.call(lambda: local(evaluator, language=language))
    file_name = f"{read.name}{_SUFFIX[read.language]}"
    asked = {
        "dialect": read.asked_dialect,
        "entry": read.asked_entry,
        "dialect_failures": read.dialect_failures,
        "files": read.files,
    }
    body = {"source": read.source, "language": read.language, "file_name": file_name, **asked}
    if expected is None:
        ask = Ask("POST", "/v1/evaluators", body=body | ({"name": name} if name else {}), headers=key())
        return await server.ask_for(EvaluatorVersion, ask)
    path = f"/v1/evaluators/{part(name or read.name)}"
    try:
        ask = Ask("PUT", path, body={"source": read.source, **asked}, headers={"if-match": f'"{expected}"'})
        return await server.ask_for(EvaluatorVersion, ask)
    except ServerError as error:
        if error.type != "version-conflict":
            raise
        theirs = await server.ask_for(EvaluatorVersion, Ask("GET", path))
        raise VersionConflictError(str(error), read, theirs) from None


async def evaluator(server: Server, reference: str) -> EvaluatorVersion:
    """
    Return a version of an evaluator: of `NAME` the newest, else `NAME@3` or `NAME@` and the first digits of its hash.
    """
    return await server.ask_for(EvaluatorVersion, Ask("GET", f"/v1/evaluators/{part(reference)}"))


def evaluators(server: Server) -> AsyncGenerator[EvaluatorInfo, None]:
    """List all evaluators, as EvaluatorInfo."""
    return list_all(server, "/v1/evaluators", Page[EvaluatorInfo])


def versions(server: Server, name: str) -> AsyncGenerator[EvaluatorVersion, None]:
    """List all versions of an evaluator, as EvaluatorVersion."""
    return list_all(server, f"/v1/evaluators/{part(name)}/versions", Page[EvaluatorVersion])


async def check(
    server: Server,
    evaluator: str,
    *,
    language: Language | None = None,
    file_name: str | None = None,
    files: Mapping[str, str] | None = None,
) -> ScriptCheck:
    """
    Read a script's source without running it: its parameters, outputs and packages, or what is wrong, and where.

    Args:
        evaluator: The source.
        language: The script's. None: by the `file_name`, else Python.
        file_name: The script's, for messages.
        files: The texts of the files that belong to it, by their paths from its folder: `utils/text.py`.
    """
    body = {"source": evaluator, "language": language, "file_name": file_name, "files": dict(files or {})}
    return await server.ask_for(ScriptCheck, Ask("POST", "/v1/check", body=body))


async def add_dataset(
    server: Server, dataset: Path | Rows, *, name: str | None = None, **reading: Unpack[FileOptions]
) -> DatasetInfo:
    """
    Send a dataset to the server, which keeps its rows in UTF-8.

    Args:
        dataset: A file, a data frame or rows.
        name: Its name there. None: the file's; rows get one by their content.
        **reading: `rows` is the place of the rows in a JSON file that is no array, as a path: `data`; `encoding` is
            that of a text file.

    Raises:
        DatasetError: It cannot be read.
        InputError: The name stands for another dataset.
    """
    if isinstance(dataset, str | os.PathLike):
        file = File(dataset)
        return await send_dataset(
            server, file, f"{name}{''.join(file.suffixes[-2:])}" if name else file.name, **reading
        )
    found = await server.call(lambda: spool_rows(dataset, few=0))
    with found:
        return await sent_rows(server, found, name)


async def send_dataset(
    server: Server, file: File, file_name: str, *, another: bool = False, **reading: Unpack[FileOptions]
) -> DatasetInfo:
    """Send a file. With `another`, a name that is taken gets the beginning of the content's hash behind it."""
    await server.call(lambda: refuse_unreadable(file, **reading))
    more = {name: value for name, value in reading.items() if value is not None}
    ask = Ask("POST", "/v1/datasets", {"name": file_name, **more}, file=file, headers=key(), within=600)
    try:
        return await server.ask_for(DatasetInfo, ask)
    except InputError as error:
        if not (another and isinstance(error, NameTakenError)):
            raise
    digest = await server.call(lambda: digest_of(file))
    stem, _, suffix = file_name.partition(".")
    ask = Ask("POST", "/v1/datasets", {"name": f"{stem[:50]}-{digest[:8]}.{suffix}", **more}, file=file, headers=key())
    return await server.ask_for(DatasetInfo, ask)


async def sent_rows(server: Server, rows: RowSpool, name: str | None = None) -> DatasetInfo:
    """Send rows, under a name that their content has."""
    file = await server.call(rows.file)
    digest = await server.call(lambda: digest_of(file))
    return await send_dataset(server, file, f"{name or f'rows-{digest[:12]}'}.jsonl")


def datasets(server: Server) -> AsyncGenerator[DatasetInfo, None]:
    """List all datasets, as DatasetInfo."""
    return list_all(server, "/v1/datasets", Page[DatasetInfo])


async def list_all(server: Server, path: str, kind: type[Page[T]]) -> AsyncGenerator[T, None]:
    """Yield all items of a list that the server gives in pages."""
    after: str | None = None
    while True:
        page = await server.ask_for(kind, Ask("GET", path, {"after": after, "count": _PAGE}))
        for item in page.items:
            yield item
        if page.next is None or page.next == after:
            return
        after = page.next


def part(name: str) -> str:
    """Return a name as a part of a path. Raises InputError for what would be another path."""
    if not isinstance(name, str) or not name or "/" in name or name in (".", "..") or len(name) > 200:
        raise InputError(f"{describe(name, 60)} is no name or id of anything on a server")
    return name


def key() -> dict[str, str]:
    return {"idempotency-key": uuid4().hex}
