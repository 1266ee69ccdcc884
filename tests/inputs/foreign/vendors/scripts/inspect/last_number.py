import re

from inspect_ai.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState


@scorer(metrics=[accuracy(), stderr()])
def last_number(tolerance: float = 0.0):
    async def score(state: TaskState, target: Target) -> Score:
        said, wanted = (re.findall(r"-?\d+(?:\.\d+)?", text) for text in (state.output.completion, target.text))
        if not said:
            return Score(value=INCORRECT, explanation=f"no number in {len(state.messages)} messages")
        right = wanted and abs(float(said[-1]) - float(wanted[-1])) <= tolerance
        return Score(value=CORRECT if right else INCORRECT, answer=said[-1], explanation=state.metadata.get("model"))

    return score
