"""The text similarities that OpenAI names. It publishes no code of them; docs/coming-from.md says whose these are."""

from __future__ import annotations

import math
import re
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

METRICS = ("fuzzy_match", "bleu", "gleu", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l")


def similarity(metric: str, text: str, reference: str) -> float:
    """Return a score from 0 to 1."""
    if metric == "fuzzy_match":
        return _indel(text, reference)
    if metric == "bleu":
        return _bleu(text.split(), reference.split())
    if metric == "gleu":
        return _gleu(text.split(), reference.split())
    ours, theirs = _words(text), _words(reference)
    if metric == "rouge_l":
        return _f1(_common(ours, theirs), len(ours), len(theirs))
    size = int(metric[-1])
    mine, other = _grams(ours, size), _grams(theirs, size)
    return _f1(sum((mine & other).values()), sum(mine.values()), sum(other.values()))


def _words(text: str) -> list[str]:
    """As rouge-score has them without a stemmer."""
    return re.findall(r"[a-z0-9]+", text.lower())


def _grams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _f1(common: int, ours: int, theirs: int) -> float:
    return 2 * common / (ours + theirs) if common else 0.0


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = 0
        for at, other in enumerate(b, 1):
            kept = row[at]
            row[at] = before + 1 if one == other else max(row[at], row[at - 1])
            before = kept
    return row[-1]


def _indel(a: str, b: str) -> float:
    """RapidFuzz's `fuzz.ratio`, from 0 to 1."""
    return 2 * _common(a, b) / (len(a) + len(b)) if a or b else 1.0


def _bleu(ours: list[str], theirs: list[str]) -> float:
    """NLTK's `sentence_bleu` of up to four words, smoothed by its method 1."""
    logs = 0.0
    for size in range(1, 5):
        mine, other = _grams(ours, size), _grams(theirs, size)
        common, total = sum((mine & other).values()), max(1, sum(mine.values()))
        if size == 1 and not common:
            return 0.0
        logs += math.log((common or 0.1) / total) / 4
    return min(1.0, math.exp(1 - len(theirs) / len(ours)) if len(ours) < len(theirs) else 1.0) * math.exp(logs)


def _gleu(ours: list[str], theirs: list[str]) -> float:
    """NLTK's `sentence_gleu`."""
    common = mine_all = other_all = 0
    for size in range(1, 5):
        mine, other = _grams(ours, size), _grams(theirs, size)
        common += sum((mine & other).values())
        mine_all, other_all = mine_all + sum(mine.values()), other_all + sum(other.values())
    return common / max(mine_all, other_all) if max(mine_all, other_all) else 0.0
