import re

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class LengthRatio(BaseMetric):
    """How much of the expected words the output has."""

    def __init__(self, threshold: float = 0.3):
        self.threshold = threshold

    def measure(self, test_case: LLMTestCase) -> float:
        said, wanted = (set(re.findall(r"\w+", text)) for text in (test_case.actual_output, test_case.expected_output))
        self.score = len(said & wanted) / max(1, len(wanted))
        self.success = self.score >= self.threshold
        self.reason = f"{len(said & wanted)} of {len(wanted)} words"
        return self.score

    async def a_measure(self, test_case: LLMTestCase) -> float:
        return self.measure(test_case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "Length ratio"
