# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters.weights]
# type = ["object", "null"]
# default = {}
# values = "number"
# minimum = 0
# maximum = 1
# description = "How much each key counts, from 0 to 1; for an object or array under `key`, its own is `__key`."
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "fence"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
#
# [tool.evalcell.audit]
# allow = ["sees.element_missing", "sees.element_extra"]  # arrays count as far as both go
# ///
"""
How similar a JSON document is to the reference, from 0 to 1: numbers and texts may be close, and keys have weights.

A score is the weighted mean over the keys of both objects, sum(w * score) / sum(w), and the plain mean over the
elements of two arrays. Numbers score 1 - |a - b| / (|a| + |b|), booleans among them as 1 and 0; texts score
1 - Levenshtein(a, b) / length of the longer. Equal values score 1, and values of different kinds 0.

`weights` mirrors the document: `{"price": 0.5}`, or for what has parts `{"menu": {"__menu": 0.8, "price": 0.5}}`, where
`__menu` weighs the menu itself. All elements of an array share the weights of its name. What is not named weighs 1;
keys that all weigh 0 count alike. A weight whose key a row has on neither side is named in its explanation.

A key that one side lacks is null there. Of arrays only the elements that both have count; an empty array against one
that is not scores 0.

Text that begins like an object or array is parsed, or what `extract` takes out of it. An output that cannot be
parsed, or that is other text where the reference is an object or array, has the label `invalid` and scores 0.
A reference that cannot be parsed has that label and no score.

Source: Lynxius JSON Difference, its documentation; what that leaves open as in the package lynxius 1.2.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from templates.parts.json_text import extraction_note, find_json, parse_json
from templates.parts.levenshtein import similarity


@dataclass(slots=True)
class Node:
    """Two values in the same place, how much they count, and how well they agree."""

    place: str
    reference: object
    output: object
    weights: dict[str, object]
    weight: float = 1.0
    parts: list["Node"] = field(default_factory=list)
    score: float = 0.0


def evaluate(
    output: object, reference: object, weights: dict[str, object] | None = None, extract: str = "fence"
) -> dict[str, object]:
    weights = weights or {}
    refuse_odd_weights(weights)
    part = find_json(output, extract)
    score = None  # a reference that is no JSON says nothing about the output
    try:
        expected = parse_json(find_json(reference, extract), "the reference", plain=True)
        score = 0.0
        plain = not isinstance(expected, dict | list)
        actual = parse_json(part, "the output", plain=plain)
    except ValueError as error:
        return {"label": "invalid", "score": score, "explanation": f"Failed to parse JSON: {error}"}
    root = Node("", expected, actual, weights)
    # First down to the leaves, then back up: recursion would end in an error some hundred levels down.
    nodes = [root]
    for node in nodes:
        node.parts = parts(node)
        nodes += node.parts
    for node in reversed(nodes):
        node.score = weighted_mean(node.parts) if node.parts else leaf_score(node.reference, node.output)
    told = f"Similarity {root.score:.4f}{lowest(root.parts)}{unused_weights(nodes)}.{extraction_note(output, part)}"
    return {"score": root.score, "explanation": told}


def weighted_mean(nodes: list[Node]) -> float:
    # A plain sum of floats is rounded in another way from Python 3.12 on, and the explanation with it.
    return math.fsum(node.weight * node.score for node in nodes) / math.fsum(node.weight for node in nodes)


def lowest(nodes: list[Node]) -> str:
    """Those that cost something, the worst first."""
    costly = [node for node in nodes if node.weight and node.score < 1]
    worst = sorted(costly, key=lambda node: node.score)[:5]
    return "; lowest: " + ", ".join(f"{node.place[:60]} {node.score:.4f}" for node in worst) if worst else ""


def unused_weights(nodes: list[Node]) -> str:
    """The weights whose keys neither side has at their places."""
    tables = {id(node.weights): node.weights for node in nodes if node.weights}
    used = {(id(node.weights), f"__{node.place}") for node in nodes}
    for node in nodes if tables else ():
        for side in (node.reference, node.output):
            used |= {(id(node.weights), key) for key in side} if isinstance(side, dict) else set()
    names = [name[:60] for at, table in tables.items() for name in table if (at, name) not in used]
    return f"; no key for the weight of {', '.join(names[:5])}" if names else ""


def refuse_odd_weights(weights: dict[str, object]) -> None:
    tables = [weights]
    for table in tables:
        for key, weight in table.items():
            if isinstance(weight, dict):
                tables.append(weight)
            elif isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
                raise ValueError(f"the weight of {key[:60]!r} must be a number from 0 to 1, not {str(weight)[:60]!r}")


def parts(node: Node) -> list[Node]:
    """The pairs one level down, weighed; none for a leaf."""
    a, b = node.reference, node.output
    if isinstance(a, dict) and isinstance(b, dict):
        found = [part(node, key, a.get(key), b.get(key)) for key in a | b]
    elif isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        found = [Node(f"[{at}]", x, y, node.weights) for at, (x, y) in enumerate(pairs)]
    else:
        return []
    if not any(child.weight for child in found):
        for child in found:
            child.weight = 1.0
    return found


def part(node: Node, key: str, reference: object, output: object) -> Node:
    given = node.weights.get(key, 1.0)
    inner = given if isinstance(given, dict) else {}
    own = inner.get(f"__{key}", 1.0) if isinstance(given, dict) else given
    weight = float(own) if isinstance(own, int | float) else 1.0
    return Node(key, reference, output, inner, weight)


def leaf_score(a: object, b: object) -> float:
    """The score of two values that are not compared part by part."""
    if isinstance(a, str) and isinstance(b, str):
        return similarity(a, b)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return closeness(a, b)
    return float(type(a) is type(b) and a == b)


def closeness(a: float, b: float) -> float:
    """1 - |a - b| / (|a| + |b|), written so that nothing overflows."""
    if a == b:
        return 1.0
    low, high = sorted((abs(a), abs(b)))
    if low == 0 or high == math.inf or (a < 0) != (b < 0):
        return 0.0
    try:
        ratio = low / high
    except OverflowError:  # a whole number beyond the range of the other side's float
        ratio = float(Fraction(low) / Fraction(high))
    return 2 * ratio / (1 + ratio)
