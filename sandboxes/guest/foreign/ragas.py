"""Calls Ragas' metrics."""

from __future__ import annotations

import contextlib
import os

from .frame import TYPE_CHECKING, invalid, parameters, words
from .vendor import FactoryCache, by_name, case_words, open_script, plain, row_arguments, text, text_or_none, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words, and columns by other names."""
    found: Any = getattr(open_script(source, RAGAS_DO_NOT_TRACK="true"), entry)
    from ragas._analytics import _analytics_batcher
    from ragas.dataset_schema import SingleTurnSample
    from ragas.metrics.base import SingleTurnMetric

    _analytics_batcher.shutdown()  # a process with its thread cannot be forked: each batch would load the package
    _analytics_batcher._flush_thread.join()
    made = isinstance(found, type)
    if issubclass(found if made else type(found), SingleTurnMetric):
        with contextlib.suppress(Exception):
            _run_idle(SingleTurnMetric, SingleTurnSample)
    metric = FactoryCache(found if made else lambda: found)
    settings = parameters(found)[0] if made else {}
    fields = set(SingleTurnSample.model_fields)

    async def call(**row: Any) -> Any:
        given = {name: value for name, value in row_arguments(row).items() if name in settings}
        one: Any = metric(given, case_words(row, response="output", user_input="input"))
        columns = {**columns_of(row), **{name: row[name] for name in row_arguments(row) if name not in settings}}
        if isinstance(one, SingleTurnMetric):
            sample = SingleTurnSample(**{name: columns[name] for name in columns if name in fields})
            return _value(await one.single_turn_ascore(sample), None)
        own, accepts_any = parameters(getattr(one, "_func", None) or one.ascore)
        return result(await one.ascore(**{name: columns[name] for name in columns if accepts_any or name in own}))

    return waiting(call)


def _run_idle(base: type, sample: Callable[..., Any]) -> None:
    """
    Have Ragas score once with a metric of ours, before any fork.

    What its first row imports and makes, each batch would import and make anew.
    """
    import asyncio

    class Idle(base):  # type: ignore[misc]
        name = "idle"
        _required_columns: Mapping[Any, set[str]] = {}

        def init(self, run_config: Any) -> None:
            """Nothing to prepare."""

        async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> float:
            return 0.0

    home = os.environ["HOME"]
    os.environ["HOME"] = os.devnull  # where it cannot keep a file with a number for this machine: it goes on without
    try:
        asyncio.run(Idle().single_turn_ascore(sample(user_input="", response="", reference="")))
    finally:
        os.environ["HOME"] = home


def columns_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row by Ragas' names too, which hold text."""
    columns = {**(row.get("metadata") or {}), **row}
    for ours, theirs in (("output", "response"), ("input", "user_input")):
        if ours in row:
            columns[theirs] = text_or_none(row, ours)
    if row.get("reference") is not None:
        columns["reference"] = text(row["reference"])
    return columns


def result(found: Any) -> Any:
    """Return Ragas' result in our words; it has no value where the metric raised, or gave what is not allowed."""
    if found.value is None:
        reason = str(found.reason)
        if reason.startswith("Error executing metric"):
            raise RuntimeError(reason)
        return invalid(reason)
    return _value(found.value, found.reason)


def _value(value: Any, reason: str | None) -> Any:
    if isinstance(value, list):
        parts = [plain(one, reason) for one in value]
        if None not in parts:
            return by_name([(str(at), one) for at, one in enumerate(parts) if one is not None], one=False)
    return plain(value, reason) or invalid(f"the metric returned {words(value)}: return a number or text")
