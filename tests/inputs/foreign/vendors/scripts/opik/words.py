from typing import Any

from opik.evaluation.metrics import BaseMetric
from opik.evaluation.metrics.score_result import ScoreResult


class Words(BaseMetric):
    def score(self, output: str, reference: str, model: str = "none", **ignored: Any) -> ScoreResult:
        said, wanted = set(output.split()), set(reference.split())
        share = len(said & wanted) / max(1, len(wanted))
        return ScoreResult(name=self.name, value=share, reason=f"{model}, {sorted(ignored)}")
