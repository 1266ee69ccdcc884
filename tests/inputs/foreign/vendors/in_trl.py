"""
Reward functions in TRL's own `GRPOTrainer`, with PyTorch: rewards, and one step with `runner.runs.rewards.reward`.

`EVALCELL_TRL` names a Python that has trl and torch, which take gigabytes; without it these are skipped.
`make test-vendors` runs this.
"""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.inputs.foreign.vendors.comparison import Words, differences, ours, real_rows, shape_rows
from tests.inputs.foreign.vendors.environment import HERE, say

ROOT = HERE.parents[3]
SCRIPTS = HERE / "scripts" / "trl"


@pytest.fixture(scope="module")
def python() -> Path:
    named = os.environ.get("EVALCELL_TRL")
    if not named:
        pytest.skip("EVALCELL_TRL names no Python with trl and torch")
    return Path(named)


def rounded(found: list[Words]) -> list[Words]:
    """Scores as the trainer's tensors hold them: in 32 bits."""

    def short(score: float | None) -> float | None:
        return None if score is None else struct.unpack("f", struct.pack("f", score))[0]

    return [
        {**row, "outputs": {name: [label, short(score), why] for name, (label, score, why) in row["outputs"].items()}}
        for row in found
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("script", "entry", "kind"),
    [
        ("shapes.py", "reward", "shapes"),
        *(("words.py", one, kind) for one in ("reward", "later") for kind in ("text", "json")),
    ],
)
def test_a_row_has_the_reward_of_the_trainer(python: Path, script: str, entry: str, kind: str, tmp_path: Path) -> None:
    path = SCRIPTS / script
    rows = shape_rows(path) if kind == "shapes" else real_rows(kind)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    theirs = say([python, HERE / "oracles" / "trl_trainer_oracle.py"], path, entry, file, {})
    differing = differences(theirs, rounded(ours(path, entry, rows, {})), rows)
    # PyTorch takes `[[1.0]]` for a batch of one row, and for no larger one; see docs/from/trl.md.
    assert [one.partition(":")[0] for one in differing] == (["a list"] if kind == "shapes" else []), differing


@pytest.mark.timeout(900)
def test_one_step_with_evalcell_has_the_rewards_of_the_function_itself(python: Path, tmp_path: Path) -> None:
    command = [python, HERE / "exported" / "trl_train.py", SCRIPTS / "words.py"]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE / "oracles"), sysconfig.get_path("purelib")])
    }
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    (step,) = said["seen"]
    assert (said["steps"], len(step["rewards"])) == (1, 4)
    for (own, same, native), completion, reference in zip(
        step["rewards"], step["completions"], step["references"], strict=True
    ):
        assert own == same or (math.isnan(own) and math.isnan(same))
        assert native == len(completion) - len(reference)
    logged = said["log"][0]
    assert logged["rewards/ours/mean"] == pytest.approx(logged["rewards/reward/mean"], nan_ok=True)
    assert logged["rewards/native/mean"] == pytest.approx(sum(one[2] for one in step["rewards"]) / 4)
