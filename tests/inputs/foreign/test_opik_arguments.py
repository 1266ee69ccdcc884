"""The choice of a metric's arguments is remembered for each set of columns, and is the one that Opik makes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.guest.foreign.opik import MetricArguments

COLUMNS = st.dictionaries(st.sampled_from(["input", "output", "reference", "n", "id"]), st.none() | st.integers())


class Metric:
    name = "words"

    def score(self, input: Any, /, output: Any, n: int = 0) -> Any: ...


class Open(Metric):
    def score(self, output: Any, **more: Any) -> Any: ...  # type: ignore[override]


class Opik:
    """What Opik promises of these functions, and how often they were asked."""

    def __init__(self, adds: bool = False) -> None:
        self.asked = 0
        self.adds = adds

    def refuse_missing(self, *, score_function: Any, score_name: str, kwargs: dict[str, Any]) -> None:
        for name, one in inspect.signature(score_function).parameters.items():
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD and name not in kwargs:
                raise LookupError(f"{score_name} needs {name}, and has {[*kwargs]}")

    def select(self, *, score_function: Any, score_name: str, kwargs: dict[str, Any]) -> Any:
        self.asked += 1
        parameters = inspect.signature(score_function).parameters.values()
        first = [kwargs[one.name] for one in parameters if one.kind is one.POSITIONAL_ONLY and one.name in kwargs]
        named = {one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY}
        every = any(one.kind is one.VAR_KEYWORD for one in parameters)
        found = {name: value for name, value in kwargs.items() if name in named or every}
        return first, found | ({"made": 1} if self.adds else {})


def chosen(opik: Opik) -> MetricArguments:
    return MetricArguments(opik.refuse_missing, opik.select)


def directly(metric: Any, columns: dict[str, Any], checked: bool) -> Any:
    asked = {"score_function": metric.score, "score_name": metric.name, "kwargs": columns}
    try:
        if not checked:
            Opik().refuse_missing(**asked)
    except LookupError as error:
        return str(error)
    positional, keywords = Opik().select(**asked)
    return positional, [*keywords.items()]


@given(rows=st.lists(COLUMNS), checked=st.booleans(), metric=st.sampled_from([Metric(), Open()]))
def test_each_row_gets_what_opik_chooses(rows: list[dict[str, Any]], checked: bool, metric: Any) -> None:
    choice = chosen(Opik())
    for row in rows:
        try:
            positional, keywords = choice(metric, row, checked)
            found: Any = positional, [*keywords.items()]
        except LookupError as error:
            found = str(error)
        assert found == directly(metric, row, checked)


def test_opik_is_asked_once_for_each_set_of_columns() -> None:
    opik = Opik()
    choice = chosen(opik)
    metric = Metric()
    for n in range(5):
        assert choice(metric, {"input": n, "output": n, "more": n}, False) == ([n], {"output": n})
    assert opik.asked == 1
    assert choice(metric, {"input": 1, "output": 2, "n": 3}, False) == ([1], {"output": 2, "n": 3})
    assert opik.asked == 2
    assert choice(Open(), {"output": 2, "n": 3}, False) == ([], {"output": 2, "n": 3})


def test_what_makes_values_of_its_own_is_asked_each_time() -> None:
    opik = Opik(adds=True)
    choice = chosen(opik)
    for n in range(3):
        assert choice(Metric(), {"input": n, "output": n}, False) == ([n], {"output": n, "made": 1})
    assert opik.asked == 6


def test_a_missing_argument_is_refused_each_time() -> None:
    choice = chosen(Opik())
    for _ in range(2):
        with pytest.raises(LookupError, match="words needs output"):
            choice(Metric(), {"input": 1}, False)
