"""What calls of TRL's reward functions give, in the wasm sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

import runner
from tests.foreign.published import Published, check

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
        [(None, 1.0), "raised"],
        rows=[{"output": [{"role": "assistant", "content": "4"}]}, {"output": "4"}],
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
