"""The summary of a run that ended before its last row: of the results that are stored."""

from __future__ import annotations

from pathlib import Path

from runner.engine.scoring.summary import Summary
from runner.results.reports.runs import read_run
from runner.results.store.store import Store
from runner.results.store.types import RunInfo
from runner.runs.stored import source_of


def summary_of(store: Store, info: RunInfo, beside: Path | None) -> Summary:
    """
    The summary, without times and gates.

    Raises NotComparableError, InputError and StoreError where the results cannot be read. Blocks.
    """
    with source_of(store, info, beside) as source:
        found = read_run(source, worst=0, show="worst", failed=False, listed=False).summary
    return found.model_copy(update={"repeat": store.spec(info.id).repeat})
