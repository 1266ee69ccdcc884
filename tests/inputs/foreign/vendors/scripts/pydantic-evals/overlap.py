from dataclasses import dataclass

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext, EvaluatorOutput


@dataclass
class Overlap(Evaluator[str, str, dict]):
    least: float = 0.5

    async def evaluate(self, ctx: EvaluatorContext[str, str, dict]) -> EvaluatorOutput:
        said, wanted = set(str(ctx.output).split()), set(str(ctx.expected_output).split())
        share = len(said & wanted) / max(1, len(wanted))
        return {
            "enough": EvaluationReason(value=share >= self.least, reason=f"{share:.0%} of the words"),
            "share": share,
            "who": str((ctx.metadata or {}).get("model")),
        }
