SHAPES = {
    "result": lambda: EvaluationResult(scores=[Score(name="a", value=0.5, comment="half")]),
    "by place": lambda: EvaluationResult([Score(0.5, "a")]),
    "several": lambda: EvaluationResult(scores=[Score(name="a", value=1), Score(name="b", value="good")]),
    "dict": lambda: {"scores": [{"name": "a", "value": 0.25, "comment": "a quarter"}]},
    "number": lambda: {"scores": [{"name": "a", "value": 1, "dataType": "NUMERIC"}]},
    "text as number": lambda: {"scores": [{"name": "a", "value": "1", "dataType": "NUMERIC"}]},
    "category": lambda: {"scores": [{"name": "a", "value": "blue", "data_type": "CATEGORICAL"}]},
    "number as category": lambda: {"scores": [{"name": "a", "value": 1, "data_type": "CATEGORICAL"}]},
    "true": lambda: {"scores": [{"name": "a", "value": True, "dataType": "BOOLEAN"}]},
    "text of true": lambda: {"scores": [{"name": "a", "value": " TRUE ", "dataType": "BOOLEAN"}]},
    "text of one": lambda: {"scores": [{"name": "a", "value": "1", "dataType": "BOOLEAN"}]},
    "text of one point": lambda: {"scores": [{"name": "a", "value": "1.0", "dataType": "BOOLEAN"}]},
    "zero": lambda: {"scores": [{"name": "a", "value": 0.0, "dataType": "BOOLEAN"}]},
    "two as truth": lambda: {"scores": [{"name": "a", "value": 2, "dataType": "BOOLEAN"}]},
    "truth without a type": lambda: {"scores": [{"name": "a", "value": True}]},
    "long text": lambda: {"scores": [{"name": "a", "value": "x" * 501, "dataType": "TEXT"}]},
    "text": lambda: {"scores": [{"name": "a", "value": "a text", "dataType": "TEXT", "comment": "said"}]},
    "no text": lambda: {"scores": [{"name": "a", "value": "", "dataType": "TEXT"}]},
    "empty label": lambda: {"scores": [{"name": "a", "value": ""}]},
    "list as value": lambda: {"scores": [{"name": "a", "value": [1]}]},
    "unknown type": lambda: {"scores": [{"name": "a", "value": 1, "dataType": "SCORE"}]},
    "object as comment": lambda: {"scores": [{"name": "a", "value": 1, "comment": {"b": 1}}]},
    "number as comment": lambda: EvaluationResult(scores=[Score(name="a", value=1, comment=5)]),
    "metadata": lambda: {"scores": [{"name": "a", "value": 1, "metadata": {"b": 1}}]},
    "text as metadata": lambda: {"scores": [{"name": "a", "value": 1, "metadata": "b"}]},
    "more": lambda: {"scores": [{"name": "a", "value": 1, "more": 1}]},
    "both types": lambda: {"scores": [{"name": "a", "value": "b", "data_type": "NUMERIC", "dataType": "CATEGORICAL"}]},
    "no name": lambda: {"scores": [{"value": 1}]},
    "empty name": lambda: {"scores": [{"name": "", "value": 1}]},
    "no scores": lambda: {"scores": []},
    "a tuple": lambda: {"scores": ({"name": "a", "value": 1},)},
    "a bare score": lambda: Score(name="a", value=1),
    "a number": lambda: 0.5,
    "none": lambda: None,
    "a set as value": lambda: {"scores": [{"name": "a", "value": {1}}]},
    "awaited": lambda: later(),
    "raise": lambda: 1 / 0,
}


async def later():
    return EvaluationResult(scores=[Score(name="a", value=0.5)])


def evaluate(ctx: EvaluationContext) -> EvaluationResult:
    return SHAPES[ctx.observation.input]()
