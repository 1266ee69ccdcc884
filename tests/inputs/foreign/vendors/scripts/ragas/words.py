from dataclasses import dataclass, field

from ragas.metrics import discrete_metric, ranking_metric
from ragas.metrics.base import MetricType, SingleTurnMetric


@discrete_metric(name="kind", allowed_values=["long", "short"])
def kind(response: str, model: str = "none"):
    return "long" if len(response) > 200 else "short"


@ranking_metric(name="first", allowed_values=2)
async def first(response, reference):
    return sorted([response[:20], reference[:20]])


@dataclass
class Words(SingleTurnMetric):
    name: str = "words"
    least: float = 0.0
    _required_columns: dict[MetricType, set[str]] = field(
        default_factory=lambda: {MetricType.SINGLE_TURN: {"response", "reference"}}
    )

    def init(self, run_config):
        pass

    async def _single_turn_ascore(self, sample, callbacks):
        said, wanted = set(sample.response.split()), set(sample.reference.split())
        share = len(said & wanted) / len(wanted)
        if share < self.least:
            raise ValueError(f"only {share}")
        return share
