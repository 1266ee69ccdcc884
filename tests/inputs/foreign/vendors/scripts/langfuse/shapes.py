from langfuse import Evaluation

SHAPES = {
    "evaluation": lambda: Evaluation(name="a", value=0.5, comment="half"),
    "int": lambda: Evaluation(name="a", value=3),
    "true": lambda: Evaluation(name="a", value=True),
    "text": lambda: Evaluation(name="a", value="good"),
    "dict": lambda: {"name": "a", "value": 0.25, "comment": "a quarter"},
    "several": lambda: [Evaluation(name="a", value=1.0), Evaluation(name="b", value=0.5, comment="half")],
    "empty list": lambda: [],
    "none": lambda: None,
    "number": lambda: 0.5,
    "plain text": lambda: "good",
    "raise": lambda: 1 / 0,
}


def shapes(*, input, output, expected_output=None, metadata=None, **kwargs):
    return SHAPES[input]()
