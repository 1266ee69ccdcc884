"""One step of TRL's `GRPOTrainer`: a reward function, and the same one from evalcell. Prints the rewards of both."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lines import load
from trl_trainer_oracle import tiny_trainer

from runner import SandboxConfig
from runner.runs.rewards import reward

lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # a trainer prints, too
script = sys.argv[1]
native = Path("native.py")
native.write_text("def evaluate(output, reference):\n    return len(output) - len(reference)\n")
config = SandboxConfig(backend="process")
with (
    reward(f"{script}:reward", sandbox=config, name="ours") as ours,
    reward(str(native), sandbox=config, name="native") as other,
):
    trainer = tiny_trainer([load(script).reward, ours, other])
    seen: list[dict[str, Any]] = []
    calculate = trainer._calculate_rewards

    def watched(inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        found = calculate(inputs, prompts, completions, ids)
        references = [one["reference"] for one in inputs]
        seen.append({"rewards": found.tolist(), "completions": completions, "references": references})
        return found

    trainer._calculate_rewards = watched
    trainer.train()
lines.write(json.dumps({"steps": trainer.state.global_step, "seen": seen, "log": trainer.state.log_history}) + "\n")
lines.close()
