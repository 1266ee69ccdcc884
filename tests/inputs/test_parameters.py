"""Declared parameters, beyond the tables of docs/rules.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import evaluate
from runner.cli import values as asked
from runner.core.errors import InputError, MappingError
from runner.core.types import Case, InputMapping, Parameter, ParameterSpec
from runner.inputs.evaluators.header import MAX_HEADER
from runner.inputs.evaluators.mapping import bind
from runner.inputs.evaluators.parameters import MAX_DECLARED, NotAcceptedError, about, coerce_value
from tests.cli.commands import run
from tests.inputs.parsing import parsed, refusal


def script(table: str, signature: str = "evaluate(output, k=1)") -> str:
    lines = "".join(f"# {line}\n" for line in table.split("\n"))
    return f"# /// script\n# [tool.evalcell.parameters]\n{lines}# ///\ndef {signature}: pass\n"


def case(**columns: Any) -> Case:
    return Case(number=1, id="1", where="f.jsonl:1", present=frozenset(columns), **columns)


def test_what_is_declared_stands_with_the_parameter() -> None:
    table = 'k = {type = ["string", "null"], default = "a", description = "What\\nfor.", choices = ["a", "b"]}'
    output, k = parsed(script(table, "evaluate(output, k)")).parameters
    declared = ParameterSpec(types=("string", "null"), default="a", description="What\nfor.", choices=("a", "b"))
    assert k == Parameter(name="k", required=False, declared=declared)
    assert output == Parameter(name="output")
    assert about(declared) == 'one of "a", "b" or null, default "a"; What for.'
    assert about(ParameterSpec(types=("number",), minimum=0.5)) == "a number from 0.5"


def test_a_default_is_the_weakest() -> None:
    evaluator = parsed(
        script('k = {type = "integer", default = 3.0}\noutput = {default = "x"}', "evaluate(output, k=1)")
    )
    row = case(output="a", input=2)
    assert bind(evaluator).arguments(row) == ((), {"output": "a", "k": 3})
    assert bind(evaluator).arguments(case(input=2)) == ((), {"output": "x", "k": 3})
    assert bind(evaluator, InputMapping(paths={"k": "input"})).arguments(row)[1]["k"] == 2
    assert bind(evaluator, InputMapping(literals={"k": 4})).arguments(row)[1]["k"] == 4
    described = bind(evaluator).describe()
    assert described == {"output": '$.output (by name, else its default "x")', "k": "k (by name, else its default 3)"}
    assert bind(evaluator).mapping == InputMapping(paths={"output": "$.output"}, literals={"k": 3})


def test_without_a_default_it_is_required_where_the_script_says_so() -> None:
    needs = bind(parsed(script("k = {type = 'string', description = 'For.'}", "evaluate(output, k)")))
    with pytest.raises(MappingError, match=r"the row has no `k`; .* give all rows a value: InputMapping"):
        needs.arguments(case(output=1))
    assert bind(parsed(script("k = {type = 'string'}"))).arguments(case(output=1)) == ((), {"output": 1})


def test_defaults_go_by_position_too() -> None:
    evaluator = parsed(script("k = {default = 1}", "evaluate(output, k, /)"))
    assert bind(evaluator).arguments(case(output=0)) == ((0, 1), {})


def test_names_for_keyword_arguments_may_be_declared() -> None:
    evaluator = parsed(script("k = {type = 'number', default = 2}\nm = {}\ninput = {}", "evaluate(output, **rest)"))
    assert bind(evaluator).arguments(case(output=1, input=3)) == ((), {"output": 1, "k": 2, "input": 3})
    with pytest.raises(MappingError, match="`k` must be a number, not 'x'"):
        bind(evaluator, InputMapping(literals={"k": "x"}))
    assert "declares `a b`, which is not a parameter" in refusal(script('"a b" = {}', "evaluate(output, **rest)"))


def test_columns_are_held_to_what_is_declared() -> None:
    binding = bind(parsed(script("output = {type = 'string'}\nk = {type = 'integer', default = 1}")))
    assert binding.arguments(case(output="a")) == ((), {"output": "a", "k": 1})
    with pytest.raises(
        MappingError,
        match=r"^f\.jsonl:1: `output` must be text, not \[1\]; .*map another with InputMapping\(paths={\"output\": ",
    ):
        binding.arguments(case(output=[1]))


def test_a_header_s_own_literal_is_held_to_what_is_declared() -> None:
    header = "# /// script\n# [tool.evalcell]\n# mapping.k = {literal = 1}\n# parameters.k = {type = 'string'}\n# ///\n"
    with pytest.raises(MappingError, match="`k` must be text, not 1"):
        bind(parsed(header + "def evaluate(k): pass\n"))


def test_set_says_to_quote_where_text_is_not_declared() -> None:
    evaluator = parsed(script("k = {type = 'number'}\nm = {}", "evaluate(output, k, m)"))
    with pytest.raises(InputError, match="--set k: abc is not JSON; `k` must be a number"):
        asked.mapping((), ["k=abc"], evaluator)
    for name in ("m", "output"):
        with pytest.raises(InputError, match=f"--set {name}: abc is not JSON; quote text like this"):
            asked.mapping((), [f"{name}=abc"], evaluator)
    text = parsed(script("k = {type = 'string'}"))
    for written in ("NaN", "[" * 9000, "9" * 5000, "{"):
        assert asked.mapping((), [f"k={written}"], text).literals == {"k": written}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("k = 1", "x.py:3: `parameters.k` must be a table such as {type ="),
        ('k = {typ = "string"}', "x.py:3: `parameters.k` has the unknown key 'typ' (did you mean `type`?)"),
        ('k = {type = "text"}', "`parameters.k`: 'text' is not a type; known are `string`"),
        ('\nk = {type = "bolean"}', "x.py:4: `parameters.k`: 'bolean' is not a type (did you mean `boolean`?)"),
        ("k = {type = []}", "`parameters.k`: type must be one of"),
        ("k = {type = [[]]}", "[] is not a type"),
        ("k = {type = 1}", "type must be one of"),
        (f"k = {{type = {['string'] * 9}}}", "type must be one of"),
        ("k = {description = 1}", "description must be text of at most 4,000 characters"),
        (f'k = {{description = "{"a" * 4001}"}}', "description must be text of at most 4,000 characters"),
        ('k = {choices = "a"}', "choices must be a list of at most 64"),
        ("k = {choices = [[1]]}", "choices must be a list of at most 64"),
        (f"k = {{choices = {list(range(65))}}}", "choices must be a list of at most 64"),
        ('k = {type = "number", choices = ["a"]}', "the choice 'a' is not a number"),
        ("k = {type = 'number', minimum = '0'}", "minimum must be a finite number, not '0'"),
        ("k = {type = 'number', minimum = true}", "minimum must be a finite number, not True"),
        ("k = {type = 'number', maximum = inf}", "maximum must be a finite number"),
        (f"k = {{type = 'number', maximum = {'9' * 400}}}", "maximum must be a finite number"),
        ("k = {type = 'number', minimum = 2, maximum = 1}", "minimum 2 is above maximum 1"),
        ('k = {type = "string", minimum = 2}', "minimum and maximum are for numbers, and the type is `string`"),
        ('k = {type = "string", default = 1}', "the default must be text, not 1"),
        ('k = {choices = ["a"], default = "b"}', "the default must be one of \"a\", not 'b'"),
        ("k = {maximum = 1}", "minimum and maximum are for numbers, and the type is `any`"),
        ("k = {type = 'number', maximum = 1, default = 2}", "the default must be a number to 1, not 2"),
        ("k = {default = 2024-01-01}", "the default datetime.date(2024, 1, 1) is not a JSON value"),
        ("k = {default = [nan]}", "the default [nan] is not a JSON value"),
        ("z = {}", "x.py: the header declares `z`, which is not a parameter of evaluate(output, k)"),
        ("\n".join(f"a{n} = {{}}" for n in range(MAX_DECLARED + 1)), "`parameters` must be a table of at most 64"),
        ("k = {default = " + "[" * (MAX_HEADER // 2) + "]" * (MAX_HEADER // 4), "nested too deeply"),
    ],
)
def test_declarations_refused(table: str, message: str) -> None:
    said = refusal(script(table))
    assert message in said
    assert "\n" not in said
    assert len(said) < 700


def test_the_table_must_be_one() -> None:
    said = refusal("# /// script\n# [tool.evalcell]\n# parameters = 1\n# ///\ndef evaluate(): 0\n")
    assert said == "x.py:3: `parameters` must be a table of at most 64 parameters"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
KINDS = ("string", "number", "integer", "boolean", "array", "object", "null")


@given(ANY, st.lists(st.sampled_from(KINDS), min_size=1, unique=True))
def test_any_value_is_accepted_as_it_is_or_refused(value: Any, kinds: list[Any]) -> None:
    try:
        assert coerce_value(ParameterSpec(types=tuple(kinds)), value) == value
        return
    except NotAcceptedError as error:
        said = str(error)
    assert said.isprintable()
    kind = {str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}.get(type(value))
    assert kind not in kinds
    if isinstance(value, int) and not isinstance(value, bool):
        assert not {"number", "integer"} & set(kinds)


@given(st.text(max_size=12))
def test_any_text_given_to_a_text_arrives_as_text(text: str) -> None:
    evaluator = parsed(script("k = {type = 'string'}"))
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    assert asked.mapping((), [f"k={text}"], evaluator).literals["k"] == (read if isinstance(read, str) else text)


@pytest.mark.parametrize(
    ("template", "weights", "said"),
    [
        ("json-difference", '{"amount": 3}', "a number from 0 to 1 at 'amount', not 3"),
        ("json-difference", '{"item": {"amount": -1}}', "a number from 0 to 1 at 'amount', not -1"),
        ("composite", '{"edti": 1}', "the unknown key 'edti' (did you mean `edit`?); known are `exact`"),
        ("composite", '{"edit": 0, "exact": 0.0}', "must have a number above 0, for one of `exact`, `contains`"),
        ("composite", "{}", "must have a number above 0, for one of `exact`, `contains`"),
        ("composite", '{"edit": true}', "a number from 0 at 'edit', not True"),
    ],
)
def test_weights_are_checked_before_anything_runs(template: str, weights: str, said: str) -> None:
    refused = run(template, "demo", "--set", f"weights={weights}")
    assert refused.exit_code == 2
    assert said in " ".join(refused.stderr.split())
    with pytest.raises(MappingError, match=r"`weights` (must have|has)"):
        evaluate(
            template,
            [{"output": "a", "reference": "a"}],
            mapping=InputMapping(literals={"weights": json.loads(weights)}),
        )


def test_keys_and_values_are_for_objects() -> None:
    assert "keys and values are for objects" in refusal(script('k = {type = "string", keys = ["a"]}'))
    assert 'values must be "number"' in refusal(script('k = {type = "object", values = "text"}'))
    assert "some_above is for objects of numbers" in refusal(script('k = {type = "object", some_above = 0}'))
    assert "keys must be a list" in refusal(script('k = {type = "object", keys = "a"}'))
