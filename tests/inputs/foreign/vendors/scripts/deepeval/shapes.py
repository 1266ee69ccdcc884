from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class Shapes(BaseMetric):
    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case: LLMTestCase):
        SHAPES[test_case.input](self)
        return 17

    async def a_measure(self, test_case: LLMTestCase):
        return self.measure(test_case)

    @property
    def __name__(self):
        return "Shapes"


def shape(score, **others):
    def put(metric):
        metric.score = score
        for name, value in others.items():
            setattr(metric, name, value)

    return put


def fail(metric):
    raise ValueError("no such thing")


SHAPES = {
    "passes": shape(0.75, reason="enough"),
    "fails": shape(0.25, reason="too little"),
    "edge": shape(0.5),
    "int": shape(1),
    "true": shape(True),
    "no threshold": shape(0.9, threshold=None),
    "says success": shape(0.1, success=True),
    "none": shape(None),
    "no threshold, none": shape(None, threshold=None, reason="cannot say"),
    "number as text": shape("0.5"),
    "nan": shape(float("nan")),
    "error": shape(1.0, error="it broke"),
    "raise": fail,
}
