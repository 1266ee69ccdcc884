from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, Score, Target, mean, scorer
from inspect_ai.solver import TaskState

SHAPES = {
    "correct": lambda: Score(value=CORRECT, answer="x", explanation="it is"),
    "incorrect": lambda: Score(value=INCORRECT),
    "partial": lambda: Score(value=PARTIAL),
    "no answer": lambda: Score(value=NOANSWER),
    "float": lambda: Score(value=0.25, explanation="a quarter"),
    "int": lambda: Score(value=3),
    "true": lambda: Score(value=True),
    "false": lambda: Score(value=False),
    "yes": lambda: Score(value="yes"),
    "number as text": lambda: Score(value="2.5"),
    "zero as text": lambda: Score(value="0"),
    "word": lambda: Score(value="blue"),
    "dict": lambda: Score(value={"a": 1, "b": "C", "c": False, "d": None}, explanation="four"),
    "list": lambda: Score(value=[1, 0.5]),
    "unscored": lambda: Score.unscored(reason="refusal"),
    "none": lambda: None,
    "raise": lambda: 1 / 0,
    "a number alone": lambda: 1.0,
    "infinite": lambda: Score(value=float("inf")),
}


@scorer(metrics=[mean()])
def shapes():
    async def score(state: TaskState, target: Target):
        return SHAPES[state.input_text]()

    return score
