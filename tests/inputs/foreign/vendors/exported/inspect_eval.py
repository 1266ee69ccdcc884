"""Inspect's own `eval` with an exported scorer: a line for each sample."""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import solver


@solver
def replay() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        state.output = ModelOutput.from_content("mockllm/model", state.input_text)
        return state

    return solve


file, name = sys.argv[1:]
exported = runpy.run_path(file)[name]
os.chdir(tempfile.mkdtemp())
said = json.loads(sys.stdin.read())
samples = [Sample(id=n, input=one, target="4", metadata={"bonus": 1}) for n, one in enumerate(said)]
task = Task(dataset=samples, solver=replay(), scorer=[exported()])
log = run_eval(task, model="mockllm/model", display="none", fail_on_error=False, log_dir="logs")[0]
assert log.samples is not None, log.error
for sample in sorted(log.samples, key=lambda one: int(one.id)):
    scores = [(s.value, s.answer, s.explanation) for s in (sample.scores or {}).values()]
    error = None if sample.error is None else sample.error.message
    sys.stdout.write(json.dumps({"scores": scores, "error": error}) + "\n")
scored = [] if log.results is None else log.results.scores
metrics = {m.name: m.value for found in scored for m in found.metrics.values()}
sys.stdout.write(json.dumps({"status": log.status, "metrics": metrics}) + "\n")
