from mlflow.entities import Feedback
from mlflow.genai import scorer

SHAPES = {
    "true": lambda: True,
    "false": lambda: False,
    "float": lambda: 0.25,
    "int": lambda: 3,
    "text": lambda: "yes",
    "none": lambda: None,
    "feedback": lambda: Feedback(value=0.5, rationale="half"),
    "feedback of a bool": lambda: Feedback(value=True, rationale="so it is"),
    "feedback of text": lambda: Feedback(name="own", value="good", rationale="because"),
    "feedback with an error": lambda: Feedback(error=ValueError("no judge")),
    "several": lambda: [Feedback(name="a", value=1), Feedback(name="b", value=False, rationale="no")],
    "one in a list": lambda: [Feedback(name="a", value=1)],
    "empty list": lambda: [],
    "dict": lambda: {"a": 1},
    "feedback of a list": lambda: Feedback(value=[1, 2]),
    "nan": lambda: float("nan"),
    "raise": lambda: 1 / 0,
}


@scorer
def shapes(inputs):
    return SHAPES[inputs["input"]]()
