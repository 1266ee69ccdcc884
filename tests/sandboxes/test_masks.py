"""The values of the caller's variables are shown nowhere in what a script says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes import Execution, ScriptError
from sandboxes.protocol import TEXT
from sandboxes.words.redaction import MASK, SHORTEST, Masks, maskable

KEY = 'sk-p4ss\'wörd\\n\n"end"'


def test_a_value_is_masked_wherever_it_stands() -> None:
    error = ScriptError(type=f"E{KEY}", message=f"no {KEY}!", traceback=f"File\n{KEY}\n", hint=f"not {KEY}")
    found = Masks([KEY]).execution(Execution(call=3, status="error", error=error, output=f"{KEY}{KEY} {KEY[:-1]}"))
    assert found.error == ScriptError(type="E***", message="no ***!", traceback="File\n***\n", hint="not ***")
    assert found.output == f"****** {KEY[:-1]}"
    assert (found.call, found.status) == (3, "error")


def test_in_a_result_at_any_depth_and_in_keys() -> None:
    value = {"label": KEY, KEY: [1, None, True, 0.5, [{"deep": f"<{KEY}>"}]], "plain": "as it was"}
    execution = Execution(call=0, status="ok", value=value)
    found = Masks([KEY]).execution(execution)
    assert found.value == {"label": MASK, MASK: [1, None, True, 0.5, [{"deep": "<***>"}]], "plain": "as it was"}
    assert list(found.value) == ["label", MASK, "plain"]
    assert execution.value["label"] == KEY
    assert Masks([KEY]).execution(execution.model_copy(update={"value": KEY})).value == MASK


def test_keys_that_look_the_same_when_masked_are_still_several() -> None:
    value = {"first": 1, "second": 2, "***": 3, "****": 4}
    found = Masks(["first", "second"]).execution(Execution(call=0, status="ok", value=value)).value
    assert sorted(found.values()) == [1, 2, 3, 4]
    assert not {"first", "second"} & set(found)


@pytest.mark.parametrize("depth", [10, 50_000])
def test_however_deep_a_result_is(depth: int) -> None:
    value: Any = KEY
    for n in range(depth):
        value = [value] if n % 2 else {"k": value}
    found = Masks([KEY]).execution(Execution.model_construct(call=0, status="ok", value=value)).value
    for n in reversed(range(depth)):
        found = found[0] if n % 2 else found["k"]
    assert found == MASK


@pytest.mark.parametrize("written", [repr(KEY), json.dumps(KEY), json.dumps(KEY, ensure_ascii=False), ascii(KEY)])
def test_as_python_and_json_write_it(written: str) -> None:
    assert Masks([KEY]).text(f"KeyError({written})") == f"KeyError({written[0]}***{written[-1]})"


def test_a_value_is_used_without_the_spaces_around_it() -> None:
    assert Masks([" password\n"]).text("no: password, [ password\n]") == "no: ***, [***]"


def test_the_longest_comes_first() -> None:
    masks = Masks(["word", "password", "word"])
    assert masks.text("password word passwor") == "*** *** passwor"


def test_short_values_are_not_masked() -> None:
    masks = Masks(["", "1", "yes", "four", " yes\n", "     "])
    assert masks.text("1 yes four") == "1 yes ***"
    assert [maskable(value) for value in ("", "x" * (SHORTEST - 1), "x" * SHORTEST)] == [False, False, True]


def test_letters_that_mean_something_to_a_pattern_are_letters() -> None:
    assert Masks(["a.*b|(", "[x]+"]).text("a.*b|( [x]+ aXXb x") == "*** *** aXXb x"


def printed(masks: Masks, output: str, cut: bool) -> str:
    """What is shown of an output; `cut`: its beginning was not kept."""
    return masks.execution(Execution(call=0, status="ok", value=1, output=output, truncated=cut)).output


@pytest.mark.parametrize("kept", [5, 8, 11])
def test_what_a_cut_left_of_a_value_is_masked(kept: int) -> None:
    value = "0123456789äb"
    tail = f"{value[-kept:]} and more {value}"
    assert printed(Masks([value]), tail, cut=True) == "*** and more ***"
    assert printed(Masks([value]), tail, cut=False) == f"{value[-kept:]} and more ***"


def test_less_than_the_shortest_value_gives_nothing_away() -> None:
    assert printed(Masks(["0123456789"]), "789 and more", cut=True) == "789 and more"
    assert printed(Masks(["0123456789"]), "", cut=True) == ""


def test_what_a_cut_left_in_an_execution_is_masked() -> None:
    value = "secret-0123456789"
    masks = Masks([value])
    for truncated, shown in ((True, "*** said"), (False, "0123456789 said")):
        execution = Execution(call=0, status="ok", value=1, output="0123456789 said", truncated=truncated)
        assert masks.execution(execution).output == shown
    error = ScriptError(
        type="E", message=("x" * TEXT)[7:] + "secret-", traceback="0123456789" + ("y" * TEXT)[:-10], hint=None
    )
    masked = masks.execution(Execution(call=0, status="error", error=error)).error
    assert masked is not None
    assert (masked.message[-5:], masked.traceback[:5]) == ("xx***", "***yy")
    whole = error.model_copy(update={"message": "the word secret-", "traceback": "0123456789"})
    assert masks.execution(Execution(call=0, status="error", error=whole)).error == whole


@pytest.mark.parametrize("values", [[], [""], ["abc"]])
def test_without_values_nothing_is_done(values: list[str]) -> None:
    masks, execution = Masks(values), Execution(call=0, status="ok", value={"a": "abc"}, output="abc")
    assert masks.execution(execution) is execution
    assert masks.text("abc") == "abc"


letters = st.characters(exclude_characters="*", exclude_categories=["Cs"])


@given(value=st.text(letters, min_size=SHORTEST), around=st.text(), cut=st.integers(0, 40))
def test_no_value_is_left_and_nothing_grows(value: str, around: str, cut: int) -> None:
    masks = Masks([value])
    text = f"{around}{value}{around}"
    assert value not in masks.text(text)
    kept = text[cut:]
    masked = printed(masks, kept, cut=True)
    assert value not in masked
    assert len(masked) <= len(kept)
