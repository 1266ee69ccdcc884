from phoenix.evals import bind_evaluator, create_evaluator


@create_evaluator(name="same", kind="code")
async def same(answer, gold, place: str = "nowhere"):
    return {"score": float(len(str(answer)) > len(str(gold))), "explanation": place}


bound = bind_evaluator(
    evaluator=same,
    input_mapping={"answer": "output", "gold": lambda row: row["reference"], "place": "metadata.nothing"},
)
