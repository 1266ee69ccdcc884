from autoevals import Score

SHAPES = {
    "float": lambda: 0.25,
    "one": lambda: 1,
    "true": lambda: True,
    "false": lambda: False,
    "score": lambda: Score(name="own", score=0.5),
    "score of none": lambda: Score(name="own", score=None),
    "dict": lambda: {"name": "own", "score": 0.5},
    "dict without a name": lambda: {"score": 0.75},
    "dict without a score": lambda: {"name": "own"},
    "dict of other keys": lambda: {"own": 1},
    "dict with more": lambda: {"name": "own", "score": 0.5, "more": 1},
    "several": lambda: [Score(name="a", score=1.0), Score(name="b", score=0.5)],
    "several dicts": lambda: [{"name": "a", "score": 1.0}, {"name": "b", "score": 0.5}],
    "one of several is none": lambda: [Score(name="a", score=None), Score(name="b", score=0.5)],
    "a tuple": lambda: (Score(name="a", score=1.0), Score(name="b", score=0.5)),
    "a generator": lambda: (Score(name=name, score=1.0) for name in "ab"),
    "numbers in a list": lambda: [1, 0],
    "empty list": lambda: [],
    "empty dict": lambda: {},
    "none": lambda: None,
    "past its bounds": lambda: 3,
    "below its bounds": lambda: -0.5,
    "score past its bounds": lambda: {"name": "own", "score": 3},
    "not a number": lambda: float("nan"),
    "text": lambda: "good",
    "text as score": lambda: {"name": "own", "score": "good"},
    "raise": lambda: 1 / 0,
}


def handler(input, output, expected=None, metadata=None):
    return SHAPES[input]()
