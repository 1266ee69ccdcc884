from ragas.metrics import MetricResult, numeric_metric

SHAPES = {
    "float": lambda: 0.25,
    "int": lambda: 1,
    "true": lambda: True,
    "result": lambda: MetricResult(value=0.5, reason="half"),
    "past its bounds": lambda: 3,
    "not a number": lambda: float("nan"),
    "text": lambda: "good",
    "none": lambda: None,
    "list": lambda: [0.5],
    "raise": lambda: 1 / 0,
}


@numeric_metric(name="shapes", allowed_values=(0, 1))
def shapes(user_input, response, reference):
    return SHAPES[user_input]()
