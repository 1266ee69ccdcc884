# /// script
# requires-python = ">=3.11"
# dependencies = ["scikit-learn==1.9.1"]
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters]
# metric = {type = "string", choices = ["accuracy", "f1"], default = "accuracy", description = "What is computed."}
#
# [tool.evalcell.parameters.zero_division]
# type = ["number", "null"]
# minimum = 0
# maximum = 1
# description = "The F1 of what neither side has, instead of no score."
#
# [tool.evalcell.parameters.average]
# type = "string"
# choices = ["binary", "macro", "weighted", "micro"]
# default = "binary"
# description = "Whose F1: of the label `positive`, or over all labels, and how."
#
# [tool.evalcell.parameters.positive]
# type = ["string", "integer", "boolean"]
# default = 1
# description = "The label that binary F1 is about."
# ///
"""
How well predicted labels match the true ones: accuracy, or F1.

`output` and `reference` are a label each, or lists of labels that belong together by position. Labels are texts,
whole numbers or booleans, compared as they are; true and 1 are one label. Where one side is null, "" or [], the label
is `missing` and the score is 0; 0 and false are labels.

`metric` is "accuracy" or "f1". For F1, `average` is "binary" (of the label `positive`), "macro" (the mean over all
labels), "weighted" (the same, by how often each is true) or "micro" (over all decisions). F1 of a label that neither
side has is undefined: the label is `undefined` and there is no score, unless `zero_division` gives one.

Accuracy is the part of the labels that are right. F1 of a label is 2 * both / (output's + reference's): how often both
sides have it in the same place, and how often each has it.

Over the whole dataset, `aggregate` gives accuracy, and precision, recall and F1, macro and weighted: of all labels of
all rows, as if they stood in one list. Where one side is missing, every label of the other one is wrong.

Source: Phoenix, code evaluator recipe token cosine, its variant for class labels; scikit-learn's accuracy_score,
f1_score and precision_recall_fscore_support.
"""

import math

from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support


def evaluate(
    output: object,
    reference: object,
    metric: str = "accuracy",
    average: str = "binary",
    positive: object = 1,
    zero_division: float | None = None,
) -> dict[str, object]:
    if metric not in ("accuracy", "f1"):
        raise ValueError(f"`metric` must be 'accuracy' or 'f1', not {metric!r}")
    found, wanted = labels(output), labels(reference)
    if not found or not wanted:
        return {"label": "missing", "score": 0.0, "explanation": "Missing output or reference."}
    refuse_odd_labels([*wanted, *found])
    if metric == "accuracy":
        score, name = float(accuracy_score(wanted, found)), "Accuracy"
    elif average == "binary":
        score, name = binary_f1(found, wanted, positive, zero_division), f"F1 of the label {positive!r}"
    else:
        score, name = float(f1_score(wanted, found, average=average)), f"F1 ({average})"
    if math.isnan(score):
        return {"label": "undefined", "score": None, "explanation": f"{name} is undefined: neither side has it."}
    return {"score": score, "explanation": f"{name}: {score:.4f} over {len(wanted)} label(s)."}


def labels(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def refuse_odd_labels(every: list[object]) -> None:
    """Raises ValueError for what is no label, and for texts among others: numpy would make texts of them all."""
    for label in every:
        if not isinstance(label, str | int | float):
            raise ValueError(f"a label must be text, a whole number or a boolean, not {str(label)[:60]}")
    if len({isinstance(label, str) for label in every}) > 1:
        raise ValueError("labels that are text cannot be compared with labels that are not")


def binary_f1(found: list[object], wanted: list[object], positive: object, zero_division: float | None) -> float:
    # scikit-learn notices a positive label of the wrong type in some rows, and scores 0 in the others.
    if isinstance(wanted[0], str) and not isinstance(positive, str):
        raise ValueError(
            f"the labels are text such as {wanted[0]!r}: name the one that counts as positive (evalcell: --set "
            "'positive=\"…\"'), or choose another average (--set 'average=\"macro\"')"
        )
    instead = math.nan if zero_division is None else zero_division
    return float(f1_score(wanted, found, pos_label=positive, zero_division=instead))


def aggregate(results: list[dict[str, dict[str, object]]]) -> dict[str, float]:
    found, wanted = [], []
    for row in results:
        one, other = labels(row["arguments"]["output"]), labels(row["arguments"]["reference"])
        found += one or [None] * len(other)
        wanted += other or [None] * len(one)
    known = list(dict.fromkeys(label for label in (*wanted, *found) if label is not None))
    if not known:
        raise ValueError("no row has a label")
    refuse_odd_labels(known)
    # As numbers: true and 1 are one label, and what is missing is none of them on either side.
    number = {label: at for at, label in enumerate(known)}
    pair = [number.get(label, -1) for label in wanted], [number.get(label, -2) for label in found]
    figures = {"accuracy": float(accuracy_score(*pair))}
    for average in ("macro", "weighted"):
        of = precision_recall_fscore_support(*pair, labels=range(len(known)), average=average, zero_division=0)
        names = [f"{average}_{what}" for what in ("precision", "recall", "f1")]
        figures |= dict(zip(names, map(float, of), strict=False))
    return figures
