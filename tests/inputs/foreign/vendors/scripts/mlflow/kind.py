from mlflow.genai.scorers import Scorer


class Longer(Scorer):
    name: str = "longer"
    least: int = 100

    def __call__(self, *, outputs) -> float:
        return len(str(outputs)) / self.least
