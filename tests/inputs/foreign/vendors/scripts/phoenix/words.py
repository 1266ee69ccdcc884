from phoenix.evals import create_evaluator


@create_evaluator(name="words", direction="maximize")
async def words(output: str, reference: str, model: str, least: float = 0.5) -> dict:
    said, wanted = set(output.split()), set(reference.split())
    share = len(said & wanted) / max(1, len(wanted))
    return {"score": share, "label": "enough" if share >= least else "too few", "explanation": model}
