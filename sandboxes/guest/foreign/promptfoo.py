"""Calls promptfoo's Python assertions."""

from __future__ import annotations

from .frame import ROW, SCRIPT, TYPE_CHECKING, below, calling, find_function, finish_result, invalid, load, show, words
from .template import MARKS, render

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CAMEL = {
    "pass_": "pass",
    "named_scores": "namedScores",
    "component_results": "componentResults",
    "tokens_used": "tokensUsed",
}
_PARTS = ("vars.", "providerResponse.", "context.")
_SHAPES = "return a bool, a number, or a dict with pass, score and reason"


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words. The entry `<inline>`: the source is an expression, or lines."""
    if entry == "<inline>":
        return _inline(source)
    return calling(find_function(load(source), entry), lambda row: ((row.get("output"), context_of(row)), {}), result)


def _inline(source: str) -> Callable[..., Any]:
    """Code of a config: filled for each row where it is a template."""
    ready = None if MARKS.search(source) else _compiled(source)

    def call(**row: Any) -> Any:
        context = context_of(row)
        function = ready or _compiled(render(source, context["vars"]))
        return finish_result(function(row.get("output"), context), result)

    return call


def _compiled(code: str) -> Callable[..., Any]:
    """The code as a function of its own, with its lines as they are: one expression, or lines that return."""
    import ast
    import json
    import re

    lines = code.split("\n")
    if len(lines) == 1:
        text = f"def main(output, context):\n    return {code}\n"
    else:
        found = re.search(r"^(?!\s*$)\s+", code, re.MULTILINE)
        indent = found[0] if found else "    "
        text = "def main(output, context):\n" + "".join(f"{indent}{line}\n" for line in lines)
    module = load("", json=json)
    show(code)
    try:
        tree = ast.parse(text, SCRIPT)
    except SyntaxError as error:
        error.lineno = None if error.lineno is None else max(1, error.lineno - 1)
        raise
    exec(compile(ast.increment_lineno(tree, -1), SCRIPT, "exec", dont_inherit=True), vars(module))
    return find_function(module, "main")


def _object(value: Any) -> dict[str, Any] | None:
    """The object that a value is, or is the JSON of: in CSV, objects are texts."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import json

        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def context_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as promptfoo's context: its columns are `vars`, what was set is `config`."""
    metadata = row.get("metadata") or {}
    values = dict(metadata)
    given = row.get("input")
    if isinstance(given, dict):
        values.update(given)
    elif "input" in row:
        values["input"] = given
    if "reference" in row:
        values["reference"] = row["reference"]
        values.setdefault("expected", row["reference"])
    config = {name: row[name] for name in row if name not in ROW and not name.startswith(_PARTS)}

    def own(*names: str) -> Any:
        """What was given as a part of the context, or the column that has its name."""
        found = [config.pop(name, None) or metadata.get(name) for name in names]
        return next((value for value in found if value is not None), None)

    bound = config.get("providerResponse")
    if bound is not None and _object(bound) is None:
        raise TypeError(f"the row's providerResponse is {words(bound)}, and promptfoo's is an object")
    test = _object(own("test")) or {}
    for each in (metadata.get("vars"), test.get("vars")):
        values.update(_object(each) or {})
    values.update(below(row, "vars."))
    response = {"output": row.get("output"), **(_object(own("providerResponse", "provider_response")) or {})}
    logged, trace = own("logProbs", "log_probs"), own("trace")
    context: dict[str, Any] = {
        "prompt": _prompt(values.get("prompt"), given),
        "vars": values,
        "test": {"metadata": metadata, **test, "vars": values},
        "provider": own("provider"),
        "providerResponse": response,
    }
    if (logged := response.get("logProbs") if logged is None else logged) is not None:
        context["logProbs"] = logged
    if trace is not None:
        context["trace"] = _object(trace) or trace
    config = {**(_object(metadata.get("config")) or {}), **config}
    if config:
        context["config"] = config
    if isinstance(response.get("metadata"), dict):
        context["metadata"] = response["metadata"]
    elif metadata:
        context["metadata"] = metadata
    return {**below(row, "context."), **context}


def _prompt(value: Any, given: Any) -> str | None:
    """The text of a prompt: chat messages are JSON there."""
    if isinstance(value, dict):
        value = value.get("raw", value)
    if isinstance(value, dict | list):
        import json

        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    value = given if value is None else value
    return value if isinstance(value, str) else None


def result(value: Any) -> Any:
    """Return what promptfoo makes of a returned value."""
    if isinstance(value, str):
        lower = value.lower()
        if lower in ("true", "false"):
            value = lower == "true"
        elif value.startswith("{"):
            import json

            try:
                value = json.loads(value)
            except ValueError as error:
                return invalid(f"the assertion returned text that is no JSON ({error}): {words(value)}")
        else:
            return _number(value)
    if isinstance(value, bool):
        text = "Assertion passed" if value else "Python code returned false"
        return {"label": "pass" if value else "fail", "score": 1.0 if value else 0.0, "explanation": text}
    if isinstance(value, int | float):
        passed = value > 0
        text = "Assertion passed" if passed else "Python code returned false"
        return {"label": "pass" if passed else "fail", "score": value, "explanation": text}
    if isinstance(value, dict):
        return _graded({_CAMEL.get(key, key): value[key] for key in value})
    return invalid(f"the assertion returned {words(value)}: {_SHAPES}")


def _number(text: str) -> Any:
    """As JavaScript's parseFloat: the number that the text begins with."""
    import re

    found = re.match(r"\s*[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?)", text, re.IGNORECASE | re.ASCII)
    return result(float(found[0])) if found else invalid(f"the assertion returned {words(text)}: {_SHAPES}")


def _graded(value: dict[Any, Any]) -> Any:
    passed, score, reason = value.get("pass"), value.get("score"), value.get("reason")
    if not isinstance(passed, bool):
        return invalid(f"the assertion returned a dict whose pass is {words(passed)}, not a bool: {_SHAPES}")
    if isinstance(score, bool) or not isinstance(score, int | float):
        return invalid(f"the assertion returned a dict whose score is {words(score)}, not a number: {_SHAPES}")
    if not isinstance(reason, str):
        return invalid(f"the assertion returned a dict whose reason is {words(reason)}, not text: {_SHAPES}")
    found = {"label": "pass" if passed else "fail", "score": score, "explanation": reason + _components(value)}
    others = value.get("namedScores")
    if not others:
        return found
    if not isinstance(others, dict):
        return invalid(f"the assertion returned namedScores that are {words(others)}: return a dict of numbers")
    # The assertion's own score is `overall`, whatever its named scores are.
    beside = {"namedScores.overall" if name == "overall" else str(name): others[name] for name in others}
    return {"outputs": {"overall": found} | {name: {"score": score} for name, score in beside.items()}}


def _components(value: dict[Any, Any]) -> str:
    parts = value.get("componentResults")
    if not isinstance(parts, list):
        return ""
    lines = ""
    for part in parts:
        if isinstance(part, dict):
            one = {_CAMEL.get(key, key): part[key] for key in part}
            lines += f"\n{'pass' if one.get('pass') else 'fail'} {one.get('score')}: {one.get('reason')}"
    return lines
