import os

from opik.evaluation.metrics import BaseMetric
from opik.evaluation.metrics.score_result import ScoreResult


class Made(BaseMetric):
    def __init__(self):
        super().__init__()
        self.process = os.getpid()

    def score(self, output):
        return ScoreResult(name=self.name, value=float(os.getpid() != self.process))
