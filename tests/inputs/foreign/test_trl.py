"""What calls of TRL's reward functions give, in the wasm sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator
from tests.inputs.foreign.published import Published, check

TRL = [
    Published(
        "TRL's docs, reward by length",
        "def reward_len(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n",
        [(None, 1.0), (None, 5.0)],
    ),
    Published(
        "TRL's docs, columns of the dataset",
        "def reward(prompts, completions, reference, topic, **kwargs):\n"
        "    return [float(c == r) if t == 'math' else None for c, r, t in zip(completions, reference, topic)]\n",
        [(None, 1.0), "abstained"],
    ),
    Published(
        "TRL's docs, a reward that is awaited",
        "async def reward(completions, **kwargs):\n    return [0.5] * len(completions)\n",
        [(None, 0.5)] * 2,
    ),
    Published(
        "TRL's docs, completions that are messages",
        "def reward(completions, **kwargs):\n    contents = [completion[0]['content'] for completion in completions]\n"
        "    return [float(content == '4') for content in contents]\n",
        [(None, 1.0), (None, 1.0), (None, 0.0)],
        rows=[{"output": one} for one in ([{"role": "assistant", "content": "4"}], "4", "5")],
    ),
    Published(
        "a batch is called once, and its rows see each other",
        "def reward(completions, **kwargs):\n    return [len(completions)] * len(completions)\n",
        [(None, 2.0)] * 2,
    ),
    Published(
        "rewards that come one by one; what is no number does not apply",
        "def reward(completions, **kwargs):\n    return (float('nan') if c == '4' else 1 for c in completions)\n",
        ["abstained", (None, 1.0)],
    ),
    Published(
        "a row that raises fails alone",
        "def reward(completions, **kwargs):\n    return [1 / (len(c) - 1) for c in completions]\n",
        ["raised", (None, 0.25)],
    ),
    Published(
        "a list of another length",
        "def reward(completions, **kwargs):\n    return [1.0, 2.0, 3.0]\n",
        ["invalid_result"] * 2,
    ),
]


@pytest.mark.rotating("dialect", "foreign", "scripts")
def test_published_rewards_run_as_they_are() -> None:
    check("trl", TRL)


def test_a_reward_of_other_rows_is_not_taken_from_the_cache(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "def reward(completions, **kwargs):\n    return [len(completions)] * len(completions)\n"
    )
    results = runner.evaluate(tmp_path / "reward.py", [{"output": "a"}], cache=True).results
    assert [one.score for one in results] == [1.0]
    assert "called with several rows at once" in caplog.text


ANSWERS = [
    {"id": "a", "input": "q", "output": "1", "answer": "1"},
    {"id": "b", "input": "q", "output": "2", "answer": "1"},
    {"id": "c", "input": "q", "output": "3", "answer": "3"},
]
SAME = [1.0, 0.0, 1.0]
HEADER = '# /// script\n# [tool.evalcell.mapping]\n# target = "answer"\n# ///\n'


def scores(source: str, mapping: InputMapping | None = None, rows: list[dict[str, Any]] = ANSWERS) -> list[Any]:
    evaluator = parse_evaluator(source, "reward", dialect="trl")
    return [one.score for one in runner.evaluate(evaluator, rows, mapping=mapping).results]


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        (
            "def reward(completions, target=None, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, target)]\n",
            {"target": "answer"},
        ),
        (
            "def reward(completions, target, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, target)]\n",
            {"target": "answer"},
        ),
        (
            "def reward(completions, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, kwargs['target'])]\n",
            {"target": "answer"},
        ),
        (
            "def reward(completions, **kwargs):\n    return [float(c == t) for c, t in zip(completions, "
            "kwargs.get('target') or [])]\n",
            {"target": "$.metadata.answer"},
        ),
        (
            HEADER + "def reward(completions, target=None, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, target)]\n",
            {},
        ),
        (
            "async def reward(completions, answer, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, answer)]\n",
            {},
        ),
        (
            "def reward(completions, reference, **kwargs):\n"
            "    return [float(c == t) for c, t in zip(completions, reference)]\n",
            {"reference": "answer"},
        ),
    ],
)
def test_mapped_columns_are_lists(source: str, paths: dict[str, str]) -> None:
    assert scores(source, InputMapping(paths=paths)) == SAME


@pytest.mark.parametrize(
    "made",
    [
        "from functools import partial\n\n\ndef base(completions, answer, limit, **kwargs):\n"
        "    return [float(len(c) <= limit and c == a) for c, a in zip(completions, answer)]\n\n\n"
        "short = partial(base, limit=3)\n",
        "class Reward:\n    __name__ = 'same'\n\n    async def __call__(self, completions, answer, **kwargs):\n"
        "        return [float(c == a) for c, a in zip(completions, answer)]\n\n\nsame = Reward()\n",
    ],
)
def test_rewards_that_a_call_makes(made: str) -> None:
    assert parse_evaluator(made, "reward").dialect == "trl"
    assert [one.score for one in runner.evaluate(parse_evaluator(made, "reward"), ANSWERS).results] == SAME


def test_only_what_is_set_is_one_value_for_all() -> None:
    for source in (
        "def reward(completions, factor=1, **kwargs):\n    return [factor] * len(completions)\n",
        "def reward(completions, **kwargs):\n    return [kwargs['factor']] * len(completions)\n",
    ):
        assert scores(source, InputMapping(literals={"factor": 2})) == [2.0] * 3


def test_columns_that_have_our_words_as_names_are_lists_too() -> None:
    source = (
        "def reward(prompts, completions, metadata, id, reference, output, input, **kwargs):\n"
        "    rows = zip(completions, metadata, id, reference, output, input, prompts)\n"
        "    return [[c, m['answer'], i, r, o, q, p] == list(kwargs['wanted'][n])\n"
        "            for n, (c, m, i, r, o, q, p) in enumerate(rows)]\n"
    )
    rows = [
        {
            **{"id": f"i{n}", "prompt": f"p{n}", "completion": f"c{n}", "output": f"o{n}", "input": f"q{n}"},
            **{"reference": f"r{n}", "metadata": {"answer": f"m{n}"}},
            "wanted": [f"c{n}", f"m{n}", f"i{n}", f"r{n}", f"o{n}", f"q{n}", f"p{n}"],
        }
        for n in range(3)
    ]
    assert scores(source, rows=rows) == [1.0] * 3
    in_kwargs = (
        "def reward(completions, **kwargs):\n    return [m['answer'] == f'm{n}' and kwargs['id'][n] == f'i{n}'\n"
        "            for n, m in enumerate(kwargs['metadata'])]\n"
    )
    assert scores(in_kwargs, rows=rows) == [1.0] * 3


@pytest.mark.parametrize(
    "source",
    [
        "def reward(completions, ground_truth, **kwargs):\n    return [1.0 for _ in ground_truth]\n",
        "def reward(completions, **kwargs):\n    return [1.0 for _ in kwargs['ground_truth']]\n",
    ],
)
def test_a_column_that_a_reward_needs_and_the_dataset_lacks_stops_before_the_run(source: str) -> None:
    with pytest.raises(ColumnsError, match=r"no column for `ground_truth`") as caught:
        scores(source)
    assert caught.value.paths == {"ground_truth": "answer"}
    guarded = (
        "def reward(completions, **kwargs):\n    if 'ground_truth' not in kwargs:\n"
        "        return [0.5] * len(completions)\n    return [1.0 for _ in kwargs['ground_truth']]\n"
    )
    assert scores(guarded) == [0.5] * 3


def test_worked_examples_may_set_a_parameter_each(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "def reward(completions, factor=1, **kwargs):\n    return [factor] * len(completions)\n"
    )
    (tmp_path / "cases.jsonl").write_text(
        "".join(f'{{"output": "x", "set": {{"factor": {n}}}, "expected": {{"score": {n}}}}}\n' for n in (1, 2))
    )
    report = runner.check_examples(tmp_path / "reward.py", tmp_path / "cases.jsonl")
    assert (report.passed, report.failed) == (2, 0)


ONE_ROW = [
    "def f(prompt, completions, prompt_ids, completion_ids, answer, **kw):\n    return float(completions == answer)\n",
    "def f(completions, answer, **kwargs) -> float:\n    return float(completions == answer)\n",
    "class F:\n    def __call__(self, completions, answer) -> 'int':\n        return int(completions == answer)\n\n\n"
    "f = F()\n",
]


@pytest.mark.parametrize("source", ONE_ROW)
def test_a_function_of_one_completion_is_not_trl(source: str) -> None:
    rows = [{"prompt": "q", "completions": one["output"], "answer": one["answer"]} for one in ANSWERS]
    evaluator = parse_evaluator(source, "reward", entry="f")
    assert evaluator.dialect is None
    if "prompt_ids" in source:
        with pytest.raises(ColumnsError, match="the script never reads `prompt_ids`, `completion_ids`") as told:
            runner.evaluate(evaluator, rows)
        assert (told.value.paths, told.value.values) == ({}, ("prompt_ids", "completion_ids"))
    mapping = InputMapping(literals=dict.fromkeys(("prompt_ids", "completion_ids"))) if "prompt_ids" in source else None
    assert [one.score for one in runner.evaluate(evaluator, rows, mapping=mapping).results] == SAME


def test_a_number_for_several_completions_is_told_with_the_line_that_scores_one() -> None:
    source = "def reward(completions, answer, **kwargs):\n    return float(completions == answer)\n"
    results = runner.evaluate(parse_evaluator(source, "reward"), ANSWERS).results
    line = "def evaluate(output, answer): return reward(completions=output, answer=answer)"
    assert all(one.error is not None and f"add `{line}` to the script" in one.error.message for one in results)
    scored = runner.evaluate(parse_evaluator(f"{source}\n\n{line}\n", "reward"), ANSWERS).results
    assert [one.score for one in scored] == SAME


READS = {
    "each": "    texts = [c[0]['content'] for c in completions]\n",
    "zip": "    texts = []\n    for c, a in zip(completions, answer):\n        texts.append(c[-1].get('content'))\n",
    "enumerate": "    texts = [c[0]['content'] for n, c in enumerate(completions)]\n",
    "index": "    texts = [completions[n][0]['content'] for n in range(len(completions))]\n",
    "name": "    texts = []\n    for c in completions:\n        last = c[-1]\n        texts.append(last['content'])\n",
    "joined": "    texts = [''.join(m['content'] for m in c if m['role'] == 'assistant') for c in completions]\n",
    "helper": "    texts = [text_of(c) for c in completions]\n",
    "helper of all": "    texts = texts_of(items=completions)\n",
    "map": "    texts = list(map(text_of, completions))\n",
    "lambda": "    texts = list(map(lambda c: c[0]['content'], completions))\n",
    "nested": "    def text(c):\n        return c[0]['content']\n    texts = [text(c) for c in completions]\n",
    "named lambda": "    text = lambda c: c[0]['content']\n    texts = [text(c) for c in completions]\n",
    "declared": "    texts = [operator.itemgetter('content')(*c) for c in completions]\n",
    "hidden": "    texts = []\n    for c in completions:\n        try:\n            texts.append(c[0]['content'])\n"
    "        except Exception:\n            texts.append('')\n",
}
HELPERS = (
    "def text_of(c):\n    return c[0]['content']\n\n\n"
    "def texts_of(items):\n    return [text_of(i) for i in items]\n\n\n"
)


@pytest.mark.parametrize("read", READS)
def test_a_reward_that_reads_messages_gets_texts_as_messages(read: str) -> None:
    declared = "completions: list[list[dict[str, str]]]" if read == "declared" else "completions"
    source = f"import operator\n\n\n{HELPERS}def reward({declared}, answer, **kwargs):\n{READS[read]}"
    source += "    return [float(t == a) for t, a in zip(texts, answer)]\n"
    assert scores(source) == SAME
    chats = [{**row, "output": [{"role": "assistant", "content": row["output"]}]} for row in ANSWERS]
    assert scores(source, rows=chats) == SAME
    assert scores(source, rows=[{**row, "output": json.dumps(row["output"])} for row in chats]) == SAME


def test_a_class_and_prompts_may_read_messages_too() -> None:
    source = (
        "class Reward:\n    def text(self, c):\n        return c[0]['content']\n\n"
        "    def __call__(self, prompts, completions, answer, **kwargs):\n"
        "        assert prompts[0][-1] == {'role': 'user', 'content': 'q'}\n"
        "        return [float(self.text(c) == a) for c, a in zip(completions, answer)]\n"
    )
    assert scores(source) == SAME


@pytest.mark.parametrize(
    "text",
    [
        "c[0]['content'] if isinstance(c, list) else c",
        "c if isinstance(completions[0], str) else c[0]['content']",
        "c",
    ],
)
def test_a_reward_that_takes_texts_gets_texts(text: str) -> None:
    source = f"def reward(completions, **kwargs):\n    return [float(({text}) == '1') for c in completions]\n"
    assert scores(source) == [1.0, 0.0, 0.0]
