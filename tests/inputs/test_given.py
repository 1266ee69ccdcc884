"""The hash of what an evaluator was given: equal for equal arguments, with the output apart."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core.types import InputMapping
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.call_inputs import NO_OUTPUT, fill_and_hash, split_hash
from runner.inputs.evaluators.load import parse_evaluator
from tests.engine.scripted import case, echo, fake, rows, scored

TWO = "def evaluate(output, reference): return 1.0"


def given(row: dict[str, Any], source: str = TWO, **mapping: Any) -> tuple[str, str]:
    fill, hashed = fill_and_hash(parse_evaluator(source, "e"), InputMapping(**mapping))
    (one,) = cases_from_rows([row])
    found = hashed(*fill(one))
    assert found is not None
    assert len(found) == 16
    return split_hash(found)


def test_another_output_leaves_the_hash_of_the_other_arguments() -> None:
    row = {"output": "a", "reference": "b", "input": "not given", "id": "1"}
    others, output = given(row)
    assert given(row | {"input": "something else", "id": "2"}) == (others, output)
    assert given(row | {"output": "c"})[0] == others
    assert given(row | {"output": "c"})[1] != output
    assert given(row | {"reference": "c"})[0] != others
    assert given(row | {"reference": "c"})[1] == output


def test_equal_values_have_equal_hashes_and_unequal_ones_do_not() -> None:
    values = ["1", 1, 1.5, True, None, [], {}, [1, 2], [2, 1], [[1], 2], {"a": 1, "b": 2}, {"a": "1"}, "\ud800", "é"]
    assert len({given({"output": "", "reference": value}) for value in values}) == len(values)
    turned = {"output": "", "reference": {"b": 2, "a": 1}}
    assert given(turned) == given({"output": "", "reference": {"a": 1, "b": 2}})


@pytest.mark.parametrize("path", ["output", "$.output", "output.text", "$['output']"])
def test_a_parameter_that_is_mapped_to_the_output_is_the_output(path: str) -> None:
    source = "def evaluate(answer, reference): return 1.0"
    every = [given({"output": {"text": t}, "reference": 1}, source, paths={"answer": path}) for t in "ab"]
    assert every[0][0] == every[1][0]
    assert every[0][1] != every[1][1]


def test_the_output_may_be_any_column_that_is_mapped_to_the_parameter_output() -> None:
    every = [given({"prediction": text, "reference": 1}, paths={"output": "prediction"}) for text in "ab"]
    assert every[0][0] == every[1][0]
    assert every[0][1] != every[1][1]


def test_without_a_parameter_for_the_output_everything_is_the_input() -> None:
    source = "def evaluate(output_length): return 1.0"
    every = [given({"n": n}, source, paths={"output_length": "n"}) for n in (1, 2)]
    assert [output for _, output in every] == [NO_OUTPUT, NO_OUTPUT]
    assert every[0][0] != every[1][0]


def test_arguments_by_position_are_hashed_as_those_by_keyword_are() -> None:
    row = {"output": "a", "reference": "b"}
    assert given(row, "def evaluate(output, reference, /): return 1.0") == given(row)


def test_a_literal_counts_and_a_default_that_nothing_fills_does_not() -> None:
    row, source = {"output": "a", "reference": "b"}, "def evaluate(output, reference, k=1): return 1.0"
    assert given(row, source) == given(row)
    assert given(row, source, literals={"k": 2}) != given(row)


def test_each_result_of_a_call_has_the_hash_and_one_without_a_call_has_none() -> None:
    found = scored([*rows(2), case(3).model_copy(update={"broken": "why"})], fake(echo))
    assert [result.given is None for result in found] == [False, False, True]
    assert found[0].given != found[1].given


def test_the_column_of_the_output_is_no_other_input_in_the_metadata() -> None:
    evaluator = parse_evaluator("def evaluate(response, metadata):\n    return 1\n", "whole")
    fill, hash_given = fill_and_hash(evaluator, InputMapping(paths={"output": "prediction"}))

    def half(**row: object) -> tuple[str, str]:
        (case,) = cases_from_rows([row])
        return split_hash(hash_given(*fill(case)) or "")

    one, other = half(prediction="a", topic="x"), half(prediction="b", topic="x")
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert half(prediction="a", topic="y")[0] != one[0]
    # A part of a column does not stand for the whole of it.
    fill, hash_given = fill_and_hash(evaluator, InputMapping(paths={"output": "metadata.reply.text"}))
    assert half(reply={"text": "a", "tool": 1}) != half(reply={"text": "a", "tool": 2})
