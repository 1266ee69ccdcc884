"""The words that two texts share."""

import re
from collections import Counter


def overlap(a: str, b: str) -> float:
    """
    Twice the words that both have, by the words of both: 1.0 for the same words as often, and for two texts without.

    A word is letters, digits and underscores in a row, whatever their case. This is the F1 of SQuAD (Rajpurkar et al.
    2016) over all words, articles too.
    """
    first, second = words(a), words(b)
    both = first.total() + second.total()
    return 2 * (first & second).total() / both if both else 1.0


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))
