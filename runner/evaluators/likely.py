"""The column that a parameter likely means, by what people call such columns. For suggestions, never for a mapping."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

COLUMNS = 1000
"""Columns that are looked at."""

_PARAMETERS = 8
"""Parameters that are looked at together, so that each gets another column."""
_CANDIDATES = 4
"""Columns that are weighed for each."""
_NUMBERING = {"id", "ids", "idx", "index", "uuid", "hash"}
"""Last words of columns that say which question or answer it is, and not what."""
_PART = 100
"""How much less likely a column is that has a known name as a part only."""

_OUTPUT = (
    "output prediction predicted pred response completion generated generation model_output model_answer "
    "model_response llm_output llm_response llm_answer ai_response assistant_response bot_response answer outputs "
    "predictions responses candidate hypothesis actual actual_output generated_text generated_answer "
    "generated_response output_text predicted_answer assistant bot reply result"
)
_REFERENCE = (
    "reference gold expected target label ground_truth groundtruth ideal reference_answer expected_output "
    "expected_answer expected_response gold_answer golden golden_answer correct_answer true_answer ref references "
    "truth gt labels targets correct solution canonical_solution ideal_response reference_output reference_response "
    "answer answers best_answer"
)
_INPUT = (
    "input question prompt query instruction instructions input_text user_input user_query user_message inputs request "
    "problem source message task questions"
)
_CONTEXT = "context contexts retrieved_context retrieved_contexts documents docs passages passage source_documents"
_GROUPS = tuple(tuple(words.split()) for words in (_OUTPUT, _REFERENCE, _INPUT, _CONTEXT))
"""Names for the same thing, the likeliest first."""


def likely_columns(parameters: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """
    The likeliest column for each parameter. One for which no column is likely is left out.

    `parameters` are their names, each with the name of the column that it would take if there were one. No column is
    given twice: as many parameters as possible get one, and then the likelier ones.
    """
    have = list(columns)[:COLUMNS]
    some = list(parameters.items())[:_PARAMETERS]
    ranked = {name: _ranked((column, name), have)[:_CANDIDATES] for name, column in some}
    return _best(ranked, list(ranked), ())[2]


def _best(
    ranked: dict[str, list[tuple[int, str]]], left: list[str], taken: tuple[str, ...]
) -> tuple[int, int, dict[str, str]]:
    """The number of parameters without a column, the sum of the ranks, and the columns; the least of all ways."""
    if not left:
        return 0, 0, {}
    first, *others = left
    without, rank, found = _best(ranked, others, taken)
    best = (without + 1, rank, found)
    for own, column in ranked[first]:
        if column not in taken:
            without, rank, found = _best(ranked, others, (*taken, column))
            if (without, rank + own) < best[:2]:
                best = (without, rank + own, {first: column, **found})
    return best


def _ranked(wanted: Sequence[str], columns: Sequence[str]) -> list[tuple[int, str]]:
    """The columns that may be meant by these names, with their ranks, the likeliest first."""
    plain = dict.fromkeys(map(_plain, wanted))
    # A slip of the pen in the name is likelier than another name.
    near = [_plain(name) for name in difflib.get_close_matches(wanted[0][:100], columns, 1, 0.8)]
    same = [name for group in _GROUPS if plain.keys() & set(group) for name in group]
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys((*plain, *near, *same)))}
    found = [(rank, column) for column in columns if (rank := _rank(_plain(column), ranks)) is not None]
    return sorted(found, key=lambda one: (one[0], len(one[1])))


def _rank(column: str, ranks: dict[str, int]) -> int | None:
    if column in ranks:
        return ranks[column]
    if column.rpartition("_")[2] in _NUMBERING:
        return None
    return min((_PART + ranks[part] for part in _parts(column) if part in ranks), default=None)


def _parts(column: str) -> Iterator[str]:
    """Its words, and each two neighbours: `gpt_4_model_answer` has `model_answer`."""
    words = column.split("_")[:12]
    yield from words
    yield from map("_".join, pairwise(words))


def _plain(name: str) -> str:
    """`modelOutput`, `Model output` and `model-output` are `model_output`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:100])
    return re.sub(r"[\W_]+", "_", words).strip("_").lower()
