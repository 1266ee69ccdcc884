"""Rows of Python values from a caller, and the ids of rows."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.column_values import MAX_ROW
from runner.inputs.datasets.ids import Ids
from runner.inputs.datasets.notes import repeated_ids
from runner.inputs.datasets.rows import cases_from_rows
from tests.inputs.reading import broken


def test_ids_are_made_unique() -> None:
    wanted: list[Any] = ["a", "a", "a#2", None, "5", None, "4", "a#2", "", "a#2#8"]
    cases = list(cases_from_rows([{"id": id} for id in wanted]))
    ids = [case.id for case in cases]
    assert ids == ["a", "a#2", "a#2#3", "4", "5", "6", "4#7", "a#2#8", "9", "a#2#8#10"]
    dataset = open_dataset("-", stdin=BytesIO(b'{"id": 1}\n{"id": "1"}\n{"id": 1}\n'))
    assert dataset.notes == []
    assert len(list(dataset)) == 3
    assert dataset.notes == [repeated_ids(2)]


@given(st.lists(st.text(max_size=2) | st.sampled_from(["x" * 40, "x" * 41, "a"]), max_size=40), st.integers(0, 9))
def test_ids_are_exact_in_memory_and_beyond(texts: list[str], in_memory: int) -> None:
    small, large = Ids(in_memory), Ids()
    given_ids = [ids.take(text, 7) for text in texts for ids in (small, large)]
    small.close()
    assert given_ids[::2] == given_ids[1::2]
    assert len(set(given_ids[::2])) == len(texts)
    assert small.repeated == len(texts) - len(set(texts)) or small.repeated > 0


class Odd(Mapping[str, Any]):
    """A row that fails in the middle."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no\x1b[2J")

    def __iter__(self) -> Iterator[str]:
        return iter(["output"])

    def __len__(self) -> int:
        return 1


def test_python_rows_that_cannot_be_used() -> None:
    loop: list[Any] = []
    loop.append(loop)
    rows: list[Any] = [
        None,
        [("output", 1)],
        Odd(),
        {"output": object()},
        {"output": {1, 2}},
        {"output": loop},
        {"output": 10**5000},
        {"output": float("inf")},
        {"output": {("a", "b"): 1}},
        {"output": "x" * (MAX_ROW + 1)},
        {"output": [[]], "id": b"\xff"},
        {"metadata": [1]},
        {"output": 1},
    ]
    *bad, good = cases_from_rows(rows)
    assert good.broken is None
    for number, case in enumerate(bad, 1):
        assert broken(case).startswith(f"row {number}: ")
    assert "column 'output': a value of type set cannot be written as JSON" in broken(bad[4])


def test_what_is_wrong_with_a_column_that_is_not_needed_does_no_harm() -> None:
    rows: list[Any] = [{"output": 1, "image": b"\xff", "tags": {"a"}}, {"output": {2}, "image": b"\xff"}]
    good, bad = cases_from_rows(rows, columns={"id", "output"})
    assert (good.output, good.metadata) == (1, {})
    assert "column 'output': a value of type set" in broken(bad)
    assert "column 'image': 1 bytes that are no UTF-8 text" in broken(next(cases_from_rows(rows[:1], {"image"})))


def test_arrays_are_lists() -> None:
    (case,) = cases_from_rows([{"output": array("d", [1, 2]), "reference": [array("i")]}])
    assert (case.output, case.reference) == ([1.0, 2.0], [[]])


def test_numpy_values() -> None:
    np = pytest.importorskip("numpy")
    (case,) = cases_from_rows([{"output": np.float32(0.5), "reference": np.arange(3), "id": np.int64(4)}])
    assert (case.output, case.reference, case.id) == (0.5, [0, 1, 2], "4")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3) | st.decimals()
    | st.dates() | st.just(object()) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3)
    | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
COLUMN = st.sampled_from(["id", "input", "output", "metadata", "x"]) | st.text(max_size=2)


@given(st.lists(JUNK | st.dictionaries(COLUMN, JUNK, max_size=5), max_size=4))
def test_any_python_rows_are_cases(rows: list[Any]) -> None:
    cases = list(cases_from_rows(rows))
    assert [case.number for case in cases] == list(range(1, len(rows) + 1))
    assert len({case.id for case in cases}) == len(rows)
    for case in cases:
        json.dumps([case.input, case.output, case.reference, case.metadata], allow_nan=False)
        case.id.encode()
