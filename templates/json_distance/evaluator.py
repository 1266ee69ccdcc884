# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# direction = "minimize"
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "whole"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
# ///
"""
How many fields of a JSON document differ from the reference; 0 means that nothing does.

Objects are compared key by key and arrays element by element, at any depth. Each value that differs is one
point, and so is each key or element that only one side has, however much hangs below it. Text is parsed as
JSON first, or what `extract` takes out of it; where it is none, the label is `invalid` and there is no score.

Equal is what Python calls equal: 1 and 1.0 are, and so are true and 1. A key that is missing equals one that
is null.

Source: Phoenix, code evaluator recipe JSON Distance, its Python version.
"""

import json

from templates.parts.json_text import extraction_note, find_json


def evaluate(output: object, reference: object, extract: str = "whole") -> dict[str, object]:
    part = find_json(output, extract)
    try:
        found, wanted = load(part), load(find_json(reference, extract))
    except ValueError as error:
        return {"label": "invalid", "score": None, "explanation": f"Failed to parse JSON: {error}"}
    points, note = distance(found, wanted), extraction_note(output, part)
    if points == 0:
        return {"label": "match", "score": 0.0, "explanation": f"Output matches the reference exactly.{note}"}
    explanation = f"{points} field(s) differ from the reference.{note}"
    return {"label": "mismatch", "score": float(points), "explanation": explanation}


def load(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


def distance(found: object, wanted: object) -> int:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return sum(distance(found.get(key), wanted.get(key)) for key in found.keys() | wanted.keys())
    if isinstance(found, list) and isinstance(wanted, list):
        unpaired = abs(len(found) - len(wanted))
        return unpaired + sum(distance(a, b) for a, b in zip(found, wanted, strict=False))
    return int(found != wanted)
