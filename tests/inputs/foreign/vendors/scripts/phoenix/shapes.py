from phoenix.evals import create_evaluator
from phoenix.evals.evaluators import Score

SHAPES = {
    "true": lambda: True,
    "false": lambda: False,
    "float": lambda: 0.25,
    "int": lambda: 3,
    "short text": lambda: "quite good",
    "long text": lambda: "this is a longer explanation",
    "tuple": lambda: (0.5, "good", "because it is what was asked"),
    "tuple, other order": lambda: ("because it is what was asked", True),
    "dict": lambda: {"score": 1, "label": "good", "explanation": "fine", "other": 2},
    "dict without a score": lambda: {"label": "good"},
    "empty dict": lambda: {},
    "score": lambda: Score(score=0.5, label="half", explanation="so", metadata={"a": 1}),
    "none": lambda: None,
    "list": lambda: [1, 2],
    "nan": lambda: float("nan"),
    "score as text": lambda: {"score": "high"},
    "raise": lambda: 1 / 0,
}


@create_evaluator(name="shapes", kind="code")
def shapes(input: str):
    return SHAPES[input]()
