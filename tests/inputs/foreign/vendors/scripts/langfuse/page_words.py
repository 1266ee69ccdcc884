def evaluate(ctx):
    said, wanted = (set(str(text).split()) for text in (ctx.observation.output, ctx.experiment.item_expected_output))
    share = len(said & wanted) / max(1, len(wanted))
    about = Score(name="about", value=str(ctx.experiment.item_metadata.get("model")), data_type="CATEGORICAL")
    return EvaluationResult(scores=[Score(name="words", value=share, comment=f"{share:.0%}"), about])
