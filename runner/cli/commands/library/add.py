"""`evalcell add`, and the evaluators and datasets of the store: list them, delete one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from rich.table import Table
from rich.text import Text

from runner.cli.exit_codes import DONE
from runner.cli.values import place
from runner.cli.views import render
from runner.core.text import json_text, rows_of, size_of
from runner.inputs.datasets.dataset import SUFFIXES, open_dataset, refuse_irregular
from runner.inputs.datasets.formats.streams import COMPRESSION_SUFFIXES
from runner.inputs.datasets.formats.unnest import write_rows
from runner.inputs.evaluators.evaluator_files import names_of
from runner.inputs.evaluators.resolve import STORE_PREFIX, find_evaluator
from runner.results.store import open_store
from runner.results.store.names import split_file_name
from runner.results.store.types import DatasetInfo, EvaluatorInfo
from sandboxes.base import Language

_LOOKED_AT = 1000  # rows for the names of columns


def add(file: str, name: str | None, language: str | None, rows: str | None = None) -> int:
    """Keep a script or a dataset. Raises EvaluatorError, DatasetError, InputError and StoreError."""
    if file.lower().endswith((*SUFFIXES, *COMPRESSION_SUFFIXES)):
        if rows is None:
            return _add_dataset(file, name)
        with TemporaryDirectory(prefix="evalcell-add-") as folder:
            place(rows)
            refuse_irregular(file)
            write_rows(file, rows, there := Path(folder) / f"{split_file_name(os.path.basename(file))[0]}.jsonl")
            return _add_dataset(os.fspath(there), name)
    evaluator = find_evaluator(file, cast("Language | None", language))
    with open_store() as store:
        saved = store.add_evaluator(evaluator, name=name)
    out = render.out()
    files = f" with {names_of(saved.files)}" if saved.files else ""
    out.say(render.text(f"{saved.reference}{files} is version {saved.version}: evalcell run {saved.reference} DATASET"))
    return DONE


def _add_dataset(file: str, name: str | None) -> int:
    made, suffix = split_file_name(os.path.basename(file))
    rows, columns = _counted(file)
    with open_store() as store:
        info = store.add_dataset(Path(file), name=name or made, suffix=suffix, rows=rows, columns=columns)
    render.out().say(
        render.text(f"{STORE_PREFIX}{info.name} has {rows_of(rows)}: evalcell run EVALUATOR {STORE_PREFIX}{info.name}")
    )
    return DONE


def _counted(file: str) -> tuple[int, list[str]]:
    """The rows, broken ones too, and the columns of the first thousand."""
    columns: dict[str, None] = {}
    refuse_irregular(file)  # it is read a second time
    with open_dataset(file) as dataset:
        cases = iter(dataset)
        rows = 0
        for case in islice(cases, _LOOKED_AT):
            rows += 1
            columns |= dict.fromkeys([*sorted(case.present - {"metadata"}), *case.metadata])
        rows += sum(1 for _ in cases)
    return rows, [*columns]


def list_evaluators(count: int, *, as_json: bool) -> int:
    """Return a line each. Raises StoreError."""
    with open_store() as store:
        page = store.evaluators(count=count)
    made = render.table("evaluator", "language", "saved", "what it scores")
    for one in page.items:
        about = one.description.strip().splitlines()
        made.add_row(
            Text(f"{one.name}@{one.number}"),
            Text(one.language),
            Text(f"{one.saved.astimezone():%Y-%m-%d %H:%M}"),
            render.text(about[0] if about else ""),
        )
    return _listed(page.items, made, "evalcell add SCRIPT keeps one", more=page.next is not None, as_json=as_json)


def list_datasets(count: int, *, as_json: bool) -> int:
    """Return a line each. Raises StoreError."""
    with open_store() as store:
        page = store.datasets(count=count)
    made = render.table("dataset", "rows", "size", "added", "columns")
    for one in page.items:
        made.add_row(
            Text(f"{STORE_PREFIX}{one.name}"),
            Text("" if one.rows is None else f"{one.rows:,}"),
            Text(size_of(one.bytes)),
            Text(f"{one.created.astimezone():%Y-%m-%d %H:%M}"),
            render.text(", ".join(one.columns), limit=80),
        )
    return _listed(page.items, made, "evalcell add DATASET keeps one", more=page.next is not None, as_json=as_json)


def _listed(items: Sequence[EvaluatorInfo | DatasetInfo], table: Table, step: str, *, more: bool, as_json: bool) -> int:
    out = render.out()
    if as_json:
        out.out(json_text([one.model_dump(mode="json") for one in items]), highlight=False)
        return DONE
    if items:
        out.print(table)
    if more:
        out.say(Text("there are more: --count N lists them"))
    out.say(Text(step if items else f"none yet; {step}"))
    return DONE


def delete_evaluator(name: str, *, force: bool) -> int:
    """Delete one. Raises NotStoredError, InUseError and StoreError."""
    with open_store() as store:
        store.delete_evaluator(name, force=force)
    render.out().say(render.text(f"deleted {name} with all its versions"))
    return DONE


def delete_dataset(name: str, *, force: bool) -> int:
    """Delete one. Raises NotStoredError, InUseError and StoreError."""
    with open_store() as store:
        freed = store.delete_dataset(name.removeprefix(STORE_PREFIX), force=force)
    render.out().say(render.text(f"deleted {name}; {size_of(freed)} are free again"))
    return DONE
