# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters.order]
# type = "string"
# default = "any"
# choices = ["any", "same"]
# description = "Whether the calls may come in any order, or must come in that of the reference."
#
# [tool.evalcell.parameters.arguments]
# type = "string"
# default = "all"
# choices = ["all", "expected", "none"]
# description = "Which arguments count: all, those that the reference has, or none, so that names alone do."
#
# [tool.evalcell.parameters.count_extra]
# type = "boolean"
# default = true
# description = "Whether calls beyond the expected ones lower the score."
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "fence"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
# ///
"""
How well the tool calls of an agent match the expected ones, from 0 to 1: names, arguments by field, missing and extra.

A call is paired with an expected one of the same name, the best pairs first; with `order` "same" in the order of the
reference. A pair scores the share of its arguments that are equal, among those that either side has: 1 without any. The
score is the sum over the pairs divided by the number of expected calls and extra ones. No calls where none are expected
score 1. Equal is what JSON calls equal: 1 and 1.0 are, true and 1 are not. The label is `match`, or what is
wrong first: `wrong_tool`, `order`, `missing`, `extra` or `arguments`.

Both sides are read as they come: a call, a list of them, a message, or a list of messages, of which those of the
assistant count. Known are OpenAI's `tool_calls`, `function_call` items and completions, Anthropic's `tool_use` blocks,
LangChain's messages, Gemini's `functionCall`, and `{"name": …, "arguments": {…}}`. Text is parsed as JSON, or what
`extract` takes out of it. An output that is other text, null or a message without calls makes none. One that is broken
JSON or of another shape has the label `invalid` and scores 0; such a reference has that label and no score.

Source: none; the measure is the share of matching fields, as in the Berkeley Function-Calling Leaderboard's checks.
"""

import json

from templates.parts.json_text import extraction_note, find_json, parse_json, refuse

SHOWN_NAMES = 5
WORDS = 60
DEPTH = 30
ARGUMENTS = ("arguments", "args", "input", "parameters")
CALL_KEYS = ("tool_calls", "invalid_tool_calls", "function_call", "functionCall", "function")
INNER = ("message", "messages", "choices", "output", "content", "parts", "candidates", "kwargs", "data")
BESIDE = ("id", "type", "index", "call_id")
OTHER_ROLES = ("user", "system", "developer", "tool", "function")
OTHER_TYPES = ("human", "system", "tool", "tool_result", "function_call_output")


class Call:
    def __init__(self, name: str, arguments: object) -> None:
        self.name = name
        self.arguments = arguments


def evaluate(
    output: object,
    reference: object,
    order: str = "any",
    arguments: str = "all",
    count_extra: bool = True,
    extract: str = "fence",
) -> dict[str, object]:
    part = find_json(output, extract)
    score = None  # a reference that cannot be read says nothing about the output
    try:
        expected = read_calls(find_json(reference, extract), "the reference", prose=False)
        score = 0.0
        actual = read_calls(part, "the output", prose=True)
    except ValueError as error:
        return {"label": "invalid", "score": score, "explanation": f"Failed to read calls: {error}"}
    pairs = in_order(expected, actual, arguments) if order == "same" else in_any_order(expected, actual, arguments)
    missing = [call.name for at, call in enumerate(expected) if at not in [i for i, _ in pairs]]
    extra = [call.name for at, call in enumerate(actual) if at not in [j for _, j in pairs]]
    wrong, whole, points = [], 0, 0.0
    for i, j in pairs:
        share, fields = compare(expected[i], actual[j], arguments)
        points += share
        whole += share == 1
        if fields:
            wrong.append(f"{cut(expected[i].name)} ({join_names(fields)})")
    count = len(expected) + (len(extra) if count_extra else 0)
    told = [f"{whole} of {len(expected)} expected call(s) made as expected, of {len(actual)} made"]
    told += [f"arguments differ: {join_names(wrong)}"] if wrong else []
    told += [f"missing: {join_names(missing)}"] if missing else []
    told += [f"extra: {join_names(extra)}"] if extra else []
    return {
        "label": label_of(missing, extra if count_extra else [], wrong),
        "score": points / count if count else 1.0,
        "explanation": f"{'; '.join(told)}.{extraction_note(output, part)}",
    }


def label_of(missing: list[str], extra: list[str], wrong: list[str]) -> str:
    if missing and extra:
        return "order" if sorted(missing) == sorted(extra) else "wrong_tool"
    return "missing" if missing else "extra" if extra else "arguments" if wrong else "match"


def read_calls(value: object, name: str, *, prose: bool) -> list[Call]:
    """Raises ValueError for what cannot be read; text that is no JSON makes no call, if allowed or blank."""
    found = parse_json(value, name, plain=True)
    if isinstance(found, str):
        if prose or not found.strip(" \t\r\n"):
            return []
        raise ValueError(f"{name} is not valid JSON")
    calls = find_calls(found)
    if calls is None:
        raise ValueError(f"{name} has no tool calls in a known shape")
    return calls


def find_calls(value: object, depth: int = 0) -> list[Call] | None:
    """The calls in their order; None for what is neither a call nor anything that may hold some."""
    if value is None or depth > DEPTH:
        return [] if value is None else None
    if isinstance(value, list):
        every = [[] if isinstance(one, str) else find_calls(one, depth + 1) for one in value]
        return None if None in every else [call for calls in every for call in calls or []]
    if not isinstance(value, dict) or not value:
        return None
    if value.get("role") in OTHER_ROLES or value.get("type") in OTHER_TYPES:
        return []
    for key in CALL_KEYS:
        if value.get(key) and isinstance(value[key], list | dict):
            return find_calls(value[key], depth + 1)
    if isinstance(value.get("name"), str):
        held = next((key for key in ARGUMENTS if key in value), None)
        if held is not None:
            return [Call(value["name"], read_arguments(value[held]))]
    for key in INNER:
        if key in value:
            return find_calls(value[key], depth + 1) if isinstance(value[key], list | dict) else []
    if isinstance(value.get("name"), str) and value.keys() <= {"name", *BESIDE}:
        return [Call(value["name"], {})]
    return [] if "tool_calls" in value or "role" in value or "type" in value else None


def read_arguments(value: object) -> object:
    """Text as the JSON that it is; nothing as no arguments."""
    if value is None or value == [] or (isinstance(value, str) and not value.strip(" \t\r\n")):
        return {}
    try:
        return json.loads(value, parse_constant=refuse) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def in_any_order(expected: list[Call], actual: list[Call], arguments: str) -> list[tuple[int, int]]:
    """Pairs of calls of one name, the best first, each call in one pair at most; in the order of the expected ones."""
    able = [
        (-compare(e, a, arguments)[0], i, j)
        for i, e in enumerate(expected)
        for j, a in enumerate(actual)
        if e.name == a.name
    ]
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for _, i, j in sorted(able):
        if i not in pairs and j not in used:
            pairs[i] = j
            used.add(j)
    return sorted(pairs.items())


def in_order(expected: list[Call], actual: list[Call], arguments: str) -> list[tuple[int, int]]:
    """The most pairs of calls of one name that come in the same order on both sides, and of these the best."""
    best = [[0.0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    gains: dict[tuple[int, int], float] = {}
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(actual))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1])
            if expected[i].name == actual[j].name:
                gains[i, j] = 1 + compare(expected[i], actual[j], arguments)[0] / (len(expected) + 1)
                best[i][j] = max(best[i][j], gains[i, j] + best[i + 1][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(expected) and j < len(actual):
        if (i, j) in gains and best[i][j] == gains[i, j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def compare(expected: Call, actual: Call, arguments: str) -> tuple[float, list[str]]:
    """The share of arguments that are equal, and the names of the others."""
    e, a = expected.arguments, actual.arguments
    if arguments == "none":
        return 1.0, []
    if not isinstance(e, dict) or not isinstance(a, dict):
        return (1.0, []) if equal(e, a) else (0.0, ["all"])
    names = sorted(e if arguments == "expected" else {**e, **a})
    wrong = [name for name in names if name not in e or name not in a or not equal(e[name], a[name])]
    return (len(names) - len(wrong)) / len(names) if names else 1.0, wrong


def equal(expected: object, actual: object) -> bool:
    pairs = [(expected, actual)]
    # A list of what is left rather than recursion, which ends in an error some hundred levels down.
    while pairs:
        e, a = pairs.pop()
        if isinstance(e, dict) and isinstance(a, dict):
            if e.keys() != a.keys():
                return False
            pairs += [(value, a[key]) for key, value in e.items()]
        elif isinstance(e, list) and isinstance(a, list):
            if len(e) != len(a):
                return False
            pairs += zip(e, a, strict=True)
        elif isinstance(e, bool) != isinstance(a, bool) or e != a:
            return False
    return True


def join_names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(map(cut, names[:SHOWN_NAMES])) + more


def cut(name: str) -> str:
    return name if len(name) <= WORDS else name[: WORDS - 1] + "…"
