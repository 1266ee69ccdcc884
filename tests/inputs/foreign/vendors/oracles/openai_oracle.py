"""The libraries that OpenAI's `text_similarity` is named after: it publishes no code of its graders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from lines import Row, Said, main, scored, text
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu
from rapidfuzz import fuzz
from rouge_score.rouge_scorer import RougeScorer


def judge(grader: str, rows: list[Row], given: Row) -> Iterable[Said]:
    metric = json.loads(grader)["evaluation_metric"]
    similarity = METRICS.get(metric) or rouge(metric)
    for row in rows:
        value = similarity(text(row.get("output")), text(row.get("reference")))
        yield scored({"": (None, float(value), None)})


def fuzzy(output: str, reference: str) -> float:
    found: float = fuzz.ratio(output, reference)
    return found / 100


def bleu(output: str, reference: str) -> float:
    found: float = sentence_bleu([reference.split()], output.split(), smoothing_function=SmoothingFunction().method1)
    return found


def gleu(output: str, reference: str) -> float:
    found: float = sentence_gleu([reference.split()], output.split())
    return found


def rouge(metric: str) -> Callable[[str, str], float]:
    name = metric.replace("_", "").replace("rougel", "rougeL")
    scorer = RougeScorer([name], use_stemmer=False)

    def measure(output: str, reference: str) -> float:
        found: float = scorer.score(reference, output)[name].fmeasure
        return found

    return measure


METRICS = {"fuzzy_match": fuzzy, "bleu": bleu, "gleu": gleu}

if __name__ == "__main__":
    main(judge)
