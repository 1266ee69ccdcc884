"""Calls lm-eval's `process_results(doc, results)`."""

from __future__ import annotations

from .frame import TYPE_CHECKING, below, calling, find_function, invalid, load, words
from .vendor import by_name, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words."""
    return calling(
        find_function(load(source), entry), lambda row: ((doc_of(row), results_of(row.get("output"))), {}), result
    )


def doc_of(row: dict[str, Any]) -> dict[str, Any]:
    """
    Return the row of the task's own dataset: the column `doc` of lm-eval's samples, else all columns but the output.
    """
    doc = row.get("doc")
    if isinstance(doc, str):
        import json

        doc = json.loads(doc)
    if not isinstance(doc, dict):
        doc = {**(row.get("metadata") or {}), **{name: row[name] for name in ("input", "reference") if name in row}}
    return {**doc, **below(row, "doc.")}


def results_of(output: Any) -> list[Any]:
    """
    Return one result for each request of the row; lm-eval's samples have numbers and bools of a likelihood as texts.
    """
    return [_likelihood(one) for one in output] if isinstance(output, list) else [output]


def _likelihood(one: Any) -> Any:
    if isinstance(one, list) and len(one) == 2 and str(one[1]) in ("True", "False"):
        return float(one[0]), str(one[1]) == "True"
    return one


def result(value: Any) -> Any:
    """Return the metrics by their names; what only all rows together make a figure of is left out."""
    if not isinstance(value, dict):
        return invalid(f"process_results returned {words(value)}: return a dict with a number for each metric")
    found = [(str(name), one) for name, each in value.items() if (one := plain(each)) is not None]
    return (
        by_name(found) if found else invalid(f"no metric of {words(value)} is a number: there is none for a row alone")
    )
