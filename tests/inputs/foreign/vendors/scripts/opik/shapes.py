from typing import Any

from opik.evaluation.metrics import base_metric, score_result

SHAPES = {
    "float": lambda name: score_result.ScoreResult(name=name, value=0.25, reason="a quarter"),
    "int": lambda name: score_result.ScoreResult(name=name, value=1),
    "true": lambda name: score_result.ScoreResult(name=name, value=True),
    "category": lambda name: score_result.ScoreResult(name=name, value=1.0, category_name="good"),
    "failed": lambda name: score_result.ScoreResult(name=name, value=0.0, reason="no judge", scoring_failed=True),
    "several": lambda name: [
        score_result.ScoreResult(name="a", value=1.0),
        score_result.ScoreResult(name="b", value=0.5, reason="half"),
    ],
    "one in a list": lambda name: [score_result.ScoreResult(name="a", value=1.0)],
    "empty list": lambda name: [],
    "nan": lambda name: score_result.ScoreResult(name=name, value=float("nan")),
    "none": lambda name: None,
    "number": lambda name: 0.5,
    "raise": lambda name: 1 / 0,
}


class Shapes(base_metric.BaseMetric):
    def __init__(self, name: str = "shapes", track: bool = False):
        super().__init__(name=name, track=track)

    def score(self, input: str, **ignored_kwargs: Any):
        return SHAPES[input](self.name)
