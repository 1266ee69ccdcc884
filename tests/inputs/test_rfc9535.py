"""Paths by the letter of RFC 9535, where the library that reads them has more or less."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from runner.core.errors import PathError
from runner.inputs.evaluators.paths.jsonpath import parse_path

_VALUES: list[Any] = [
    *(None, True, False, 0, 1, 1.0, 1.5, -1, "", "a", "b", "1"),
    *([], [1], [True], [[0]], [[False]], {}, {"x": 1}, {"x": True}, {"x": 1.0}, {"y": 1}),
]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return bool(left == right)


def _less(left: Any, right: Any) -> bool:
    numbers = all(type(one) in (int, float) for one in (left, right))
    texts = all(isinstance(one, str) for one in (left, right))
    return bool((numbers or texts) and left < right)


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
def test_each_type_compares_as_the_rfc_has_it(operator: str) -> None:
    rows = [{"a": left, "b": right} for left, right in itertools.product(_VALUES, repeat=2)]
    rules: dict[str, Callable[[Any, Any], bool]] = {
        "==": _equal,
        "!=": lambda left, right: not _equal(left, right),
        "<": _less,
        "<=": lambda left, right: _less(left, right) or _equal(left, right),
        ">": lambda left, right: _less(right, left),
        ">=": lambda left, right: _less(right, left) or _equal(left, right),
    }
    wanted = rules[operator]
    found = parse_path(f"output[?@.a {operator} @.b]", trusted=True).value({"output": rows})
    assert list(map(repr, found)) == [repr(row) for row in rows if wanted(row["a"], row["b"])]


def test_truth_values_are_no_numbers() -> None:
    assert repr(parse_path("output[?@ > 0]").value({"output": [True, 1]})) == "[1]"


@pytest.mark.parametrize("path", ["output[?1e400]", "output[?@ == 1e400]", "output[?@ == -1e400]", "output[1e400]"])
def test_a_number_without_bound_is_refused(path: str) -> None:
    with pytest.raises(PathError, match="is not an RFC 9535 path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("output.\U0001f600", "\U0001f600"),
        ("output.é1_", "é1_"),
        (r"output['\u0000']", "\0"),
        (r"output['\n\u001f']", "\n\x1f"),
        (r"""output['"\'']""", "\"'"),
        (r"""output["'\""]""", "'\""),
        (r"output['\ud83d\ude00\/\\']", "\U0001f600/\\"),
        ("output['a-b']", "a-b"),
    ],
)
def test_names_that_the_rfc_allows(path: str, name: str) -> None:
    assert parse_path(path).value({"output": {name: 1}}) == 1


@pytest.mark.parametrize(
    "path",
    [
        *("output.a-b", "output.1a", "output[?[]]", "output[?@ == [1]]", "output[?@ == []]", "output[?@ <> 1]"),
        *(
            "output['\n']",
            "output['\0']",
            r"output['\ud83d']",
            r"output['\x']",
            r"""output['\"']""",
            r"""output["\'"]""",
        ),
        *(r"output['\udc00\ud83d']", r"output['\u12']"),
    ],
)
def test_what_the_rfc_does_not_allow_is_refused(path: str) -> None:
    with pytest.raises(PathError, match="is not an RFC 9535 path"):
        parse_path(path)
