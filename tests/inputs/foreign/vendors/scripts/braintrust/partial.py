from autoevals import Score
from autoevals.partial import ScorerWithPartial


class Longer(ScorerWithPartial):
    def _run_eval_sync(self, output, expected=None, least=0, **kwargs):
        longer = len(str(output)) > len(str(expected))
        return Score(name=self._name(), score=max(least, float(longer)))
