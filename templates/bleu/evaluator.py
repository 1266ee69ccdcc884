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
# max_n = {type = "integer", default = 4, minimum = 1, maximum = 100, description = "The longest n-grams that count."}
# case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
#
# [tool.evalcell.parameters.smoothing]
# type = "string"
# choices = ["none", "add-one", "exp"]
# default = "exp"
# description = "What is done about n-grams that are rarely or never in common."
#
# [tool.evalcell.parameters.tokens]
# type = "string"
# choices = ["13a", "space", "characters"]
# default = "13a"
# description = "How a text is split: words and punctuation, at white space, or into characters."
# ///
"""
How many of a text's runs of 1 to 4 words the reference has too: BLEU of a single sentence, from 0 to 1.

The score is BP * exp(mean of log p_n), n from 1 to `max_n`. p_n is the part of the output's n-grams that are in a
reference, each counted no more often than in the reference that has it most. BP is 1, or exp(1 - r / c) for an output
of c tokens where r, the length of the reference nearest to that (the shorter of two), is more. `reference` may be a
list of texts. An n that is longer than the output is left out (sacreBLEU's effective order), so equal texts score 1.

An n-gram length with nothing in common makes the whole score 0, unless `smoothing` helps: "exp" gives the first such n
half a hit, the next a quarter, and so on (NIST mteval-v13a, sacreBLEU); "add-one" adds one to the hits and to the
n-grams of each n above 1 (Lin and Och 2004; sacreBLEU's add-k), which leaves no n out: one that is longer than the
output has 1 of 1. Without a single token in common the score is 0 under any smoothing.

Tokens "13a" are those of NIST mteval-v13a, sacreBLEU's default. Values that are not text are compared as JSON text.
Where one side is null, "" or [], the label is `missing` and the score is 0. BLEU was made for whole corpora: the mean
over rows is not the corpus's BLEU.

Source: Papineni, Roukos, Ward, Zhu 2002, BLEU: a Method for Automatic Evaluation of Machine Translation.
"""

import json
import math
import re
from collections import Counter
from itertools import islice

ENTITIES = {"&quot;": '"', "&amp;": "&", "&lt;": "<", "&gt;": ">"}
RULES_13A = (
    (re.compile(r"([ !-&(-+/:-@\[-`{-~])"), r" \1 "),  # ASCII punctuation, but for ' , - .
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def evaluate(
    output: object,
    reference: object,
    max_n: int = 4,
    smoothing: str = "exp",
    tokens: str = "13a",
    case_sensitive: bool = True,
) -> dict[str, object]:
    if smoothing not in ("none", "add-one", "exp"):
        raise ValueError(f"`smoothing` must be 'none', 'add-one' or 'exp', not {smoothing!r}")
    if tokens not in ("13a", "space", "characters"):
        raise ValueError(f"`tokens` must be '13a', 'space' or 'characters', not {tokens!r}")
    references = [one for one in (reference if isinstance(reference, list) else [reference]) if not is_missing(one)]
    if is_missing(output) or not references:
        return {"label": "missing", "score": 0.0, "explanation": "Missing output or reference."}
    found = split(output, tokens, case_sensitive)
    wanted = [split(one, tokens, case_sensitive) for one in references]
    longest = int(max_n) if smoothing == "add-one" else min(int(max_n), len(found))
    hits = [matches(found, wanted, n) for n in range(1, longest + 1)]
    length = min((abs(len(one) - len(found)), len(one)) for one in wanted)[1]
    penalty = 1.0 if len(found) >= length else math.exp(1 - length / len(found)) if found else 0.0
    score = penalty * mean_precision(hits, smoothing)
    shown = ", ".join(f"{hit}/{total}" for hit, total in hits[:4] if total) or "none"
    lengths = f"{len(found)} token(s) against {length}"
    explanation = f"BLEU {score:.4f}: n-grams in common {shown}; brevity penalty {penalty:.4f} ({lengths})."
    return {"score": score, "explanation": explanation}


def is_missing(value: object) -> bool:
    return value is None or value == "" or value == []


def split(value: object, tokens: str, case_sensitive: bool) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text if case_sensitive else text.lower()
    if tokens == "13a":
        return split_13a(text)
    return text.split() if tokens == "space" else [character for character in text if not character.isspace()]


def split_13a(text: str) -> list[str]:
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in ENTITIES.items():
        text = text.replace(entity, character)
    text = f" {text} "
    for pattern, replacement in RULES_13A:
        text = pattern.sub(replacement, text)
    return text.split()


def matches(found: list[str], wanted: list[list[str]], n: int) -> tuple[int, int]:
    """How many n-grams of the output a reference has too, and how many there are."""
    grams = ngrams(found, n)
    most: Counter[tuple[str, ...]] = Counter()
    for one in wanted:
        most |= ngrams(one, n)
    return (grams & most).total(), grams.total()


def ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(islice(tokens, start, None) for start in range(n)), strict=False))


def mean_precision(hits: list[tuple[int, int]], smoothing: str) -> float:
    """The geometric mean over the n-gram lengths."""
    if not hits or hits[0][0] == 0:
        return 0.0
    logarithms, share = 0.0, 1.0
    for n, (hit, total) in enumerate(hits, 1):
        counted: float = hit
        if smoothing == "add-one" and n > 1:
            counted, total = hit + 1, total + 1
        elif smoothing == "exp" and hit == 0:
            share /= 2
            counted = share
        if counted == 0:
            return 0.0
        logarithms += math.log(counted / total)
    return math.exp(logarithms / len(hits))
