from dataclasses import dataclass

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

SHAPES = {
    "true": lambda: True,
    "false": lambda: False,
    "float": lambda: 0.25,
    "int": lambda: 3,
    "text": lambda: "good",
    "reason": lambda: EvaluationReason(value=True, reason="because"),
    "reason of a number": lambda: EvaluationReason(value=0.5, reason="half"),
    "mapping": lambda: {"a": True, "b": 0.5, "c": "good", "d": EvaluationReason(value=1, reason="one")},
    "mapping of one": lambda: {"a": 1},
    "empty mapping": lambda: {},
    "none": lambda: None,
    "nan": lambda: float("nan"),
    "list": lambda: [1, 2],
    "raise": lambda: 1 / 0,
}


@dataclass
class Shapes(Evaluator):
    def evaluate(self, ctx: EvaluatorContext):
        return SHAPES[ctx.inputs]()
