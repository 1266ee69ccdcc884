"""Grades as OpenAI's graders do: `grade(sample, item)`, and graders that are JSON."""

from __future__ import annotations

from .frame import TYPE_CHECKING, below, calling, find_function, invalid, load, words
from .similarity import similarity

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MATH = ("floor", "ceil", "exp", "sqrt", "log")


def wrap(source: str, entry: str, grader: dict[str, Any] | None) -> Callable[..., Any]:
    """
    Return the function that takes a row's words.

    `grader`: the source is none of a script, but this grader's JSON.
    """
    if grader is not None:
        grade, kind = _grader(grader), str(grader.get("type"))

        def call_grader(**row: Any) -> Any:
            return _finished(grade(sample_of(row), item_of(row)), kind)

        return call_grader
    return calling(find_function(load(source), entry), lambda row: ((sample_of(row), item_of(row)), {}), result)


def sample_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the output as OpenAI's `sample`."""
    output, text = row.get("output"), row.get("output")
    if not isinstance(output, str):
        import json

        text = "" if output is None else json.dumps(output, ensure_ascii=False)
    parsed = output if isinstance(output, dict | list) else None
    message = {"role": "assistant", "content": text}
    sample = {"output_text": text, "output_json": parsed, "output_tools": [], "choices": [{"message": message}]}
    return sample | _payload(row, "sample") | below(row, "sample.")


def _payload(row: dict[str, Any], name: str) -> dict[str, Any]:
    """An object of its own for `sample` or `item`, as in a request to OpenAI; empty where the row has none."""
    own = (row.get("metadata") or {}).get(name)
    return own if isinstance(own, dict) else {}


def item_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row's columns, as OpenAI's `item`."""
    item, own = dict(row.get("metadata") or {}), _payload(row, "item")
    if own:  # beside a sample it is all of it; alone, the row may be meant as well
        item = dict(own) if _payload(row, "sample") else own | item
    for name in ("input", "reference"):
        if name in row:
            item[name] = row[name]
    return item | below(row, "item.")


def result(value: Any) -> Any:
    """Return a number as the score."""
    if isinstance(value, bool | int | float):
        return {"score": float(value)}
    if type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1:
        return {"score": float(value)}
    return invalid(f"grade returned {words(value)}: return a number")


def _finished(value: Any, kind: str) -> Any:
    """A grader's score; a verdict has a label too."""
    if isinstance(value, dict):
        return value
    found = result(value)
    if kind == "string_check" and "score" in found:
        found["label"] = "pass" if found["score"] else "fail"
    return found


def _grader(grader: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """What gives a grader's score for a sample and an item."""
    kind = grader.get("type")
    if kind == "python":
        return find_function(load(grader["source"]), "grade")
    if kind == "string_check":
        return lambda sample, item: float(
            _checked(
                grader["operation"],
                fill_template(grader["input"], sample, item),
                fill_template(grader["reference"], sample, item),
            )
        )
    if kind == "text_similarity":
        return lambda sample, item: similarity(
            grader["evaluation_metric"],
            fill_template(grader["input"], sample, item),
            fill_template(grader["reference"], sample, item),
        )
    return _multi(grader)


def _multi(grader: dict[str, Any]) -> Callable[[Any, Any], Any]:
    import math

    parts = {name: _grader(one) for name, one in grader["graders"].items()}
    known = {"min": min, "max": max, "abs": abs} | {name: getattr(math, name) for name in _MATH}
    whole = compile(formula(grader["calculate_output"]), "calculate_output", "eval")

    def graded(sample: Any, item: Any) -> Any:
        values: dict[str, Any] = {}
        for name, part in parts.items():
            value = part(sample, item)
            if not isinstance(value, bool | int | float):
                return invalid(f"the grader {name} gave {words(value)}: it must be a number")
            values[name] = float(value)
        return float(eval(whole, {"__builtins__": {}, **known}, values))

    return graded


def formula(text: str) -> str:
    """
    Return the formula of a multi grader as Python has it: OpenAI's `^` is power, and there is no text in a formula.
    """
    return text.strip().replace("^", "**")


def _checked(operation: str, value: str, reference: str) -> bool:
    if operation == "eq":
        return value == reference
    if operation in ("ne", "neq"):
        return value != reference
    return reference in value if operation == "like" else reference.lower() in value.lower()


def fill_template(template: str, sample: Any, item: Any) -> str:
    """Return the text with `{{ sample.… }}` and `{{ item.… }}` filled. Raises KeyError for what there is not."""
    import json
    import re

    def value_of(found: re.Match[str]) -> str:
        value: Any = {"sample": sample, "item": item}
        for part in found[1].split("."):
            try:
                value = value[int(part)] if isinstance(value, list) else value[part]
            except (KeyError, IndexError, TypeError, ValueError):
                raise KeyError(f"the template's {found[1]} is not in the row") from None
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return re.sub(r"\{\{\s*([\w.-]+)\s*\}\}", value_of, template)
