from deepeval.metrics import BaseMetric


class SyncOnly(BaseMetric):
    threshold = 0.5

    def measure(self, test_case, *args, **kwargs):
        self.score = 1.0 if test_case.actual_output == test_case.expected_output else 0.0
        self.reason = str(sorted(kwargs))
        return self.score
