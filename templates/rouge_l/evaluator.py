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
# [tool.evalcell.parameters]
# beta = {type = "number", default = 1, minimum = 0, maximum = 1e6, description = "How much more recall counts."}
# tokens = {type = "string", choices = ["words", "characters"], default = "words", description = "What is compared."}
# case_sensitive = {type = "boolean", default = false, description = "Whether upper and lower case differ."}
# ///
"""
How much of a text's words stand in the reference in the same order: ROUGE-L, by the longest common subsequence.

With the number of tokens L of the longest common subsequence, of the output O and of the reference R: precision
P = L / O, recall Q = L / R, and the score is (1 + beta²) * P * Q / (Q + beta² * P). It is 0 where nothing is in common.
`reference` may be a list of texts; the best one counts. The whole text is one sequence; it is not split into sentences.

Words are runs of letters and digits of any script; nothing is stemmed. For text of ASCII alone these are the words of
the package rouge-score, which drops all other letters. For scripts without spaces take `tokens` "characters": each
character but white space. Values that are not text are compared as JSON text. Where one side is null, "" or [], the
label is `missing` and the score is 0.

Source: Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; the subsequence after Hyyrö 2004.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

WORD = re.compile(r"[^\W_]+")


def evaluate(
    output: object, reference: object, beta: float = 1.0, tokens: str = "words", case_sensitive: bool = False
) -> dict[str, object]:
    if tokens not in ("words", "characters"):
        raise ValueError(f"`tokens` must be 'words' or 'characters', not {tokens!r}")
    references = reference if isinstance(reference, list) else [reference]
    if is_missing(output) or all(map(is_missing, references)):
        return {"label": "missing", "score": 0.0, "explanation": "Missing output or reference."}
    found = split(output, tokens, case_sensitive)
    results = (
        score_texts(found, split(one, tokens, case_sensitive), beta) for one in references if not is_missing(one)
    )
    score, explanation = max(results, key=itemgetter(0))
    return {"score": score, "explanation": explanation}


def is_missing(value: object) -> bool:
    return value is None or value == "" or value == []


def split(value: object, tokens: str, case_sensitive: bool) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text if case_sensitive else text.lower()
    return WORD.findall(text) if tokens == "words" else [character for character in text if not character.isspace()]


def score_texts(found: list[str], wanted: list[str], beta: float) -> tuple[float, str]:
    common = longest_common_subsequence(found, wanted)
    precision, recall = (common / len(side) if side else 0.0 for side in (found, wanted))
    score = (1 + beta**2) * precision * recall / (recall + beta**2 * precision) if common else 0.0
    counted = f"precision {precision:.4f} ({common} of {len(found)}), recall {recall:.4f} ({common} of {len(wanted)})"
    return score, f"ROUGE-L {score:.4f}: {counted}."


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """
    Its length.

    A column of the usual table is the bits of one number, where a 0 stands wherever a row is one more than the row
    above; an addition takes it to the next column.
    """
    places: defaultdict[str, int] = defaultdict(int)
    for row, token in enumerate(a):
        places[token] |= 1 << row
    every = (1 << len(a)) - 1
    column = every
    for token in b:
        if hit := column & places.get(token, 0):
            column = ((column + hit) | (column - hit)) & every
    return len(a) - column.bit_count()
