"""The column that a parameter likely means, by what people call such columns. For suggestions, never for a mapping."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from runner.core.types import Case
from runner.inputs.evaluators.column import BY_NAME

COLUMNS = 1000
"""Columns that are looked at."""

_PARAMETERS = 8
"""Parameters that are looked at together, so that each gets another column."""
_CANDIDATES = 4
"""Columns that are weighed for each."""
_NUMBERING = {"id", "ids", "idx", "index", "uuid", "hash"}
"""Last words of columns that say which question or answer it is, and not what."""
_UNREAD = object()
"""What a column holds of which the name alone is known."""
_PART = 100
"""How much less likely a column is that has a known name as a part only."""

_OUTPUT = (
    "output prediction predicted pred response completion generated generation model_output model_answer "
    "model_response llm_output llm_response llm_answer ai_response assistant_response bot_response answer outputs "
    "predictions responses candidate hypothesis actual actual_output generated_text generated_answer "
    "generated_response output_text predicted_answer assistant bot reply result solution_str solution_text preds hyp "
    "submission student_answer guess model_completion y_pred model_sample sample_output "
    "predict_str predict given_answer pred_str response_str completions"
)
_REFERENCE = (
    "reference gold expected target label ground_truth groundtruth ideal reference_answer expected_output "
    "expected_answer expected_response gold_answer golden golden_answer correct_answer true_answer ref references "
    "truth gt labels targets correct solution canonical_solution ideal_response reference_output reference_response "
    "answer answers best_answer gts gt_answer gold_label target_answer golds ans y_true refs ground_truths highlights"
)
_INPUT = (
    "input question prompt query instruction instructions input_text user_input user_query user_message inputs request "
    "problem source message task questions"
)
_CONTEXT = "context contexts retrieved_context retrieved_contexts documents docs passages passage source_documents"
_GROUPS = tuple(tuple(words.split()) for words in (_OUTPUT, _REFERENCE, _INPUT, _CONTEXT))
"""Names for the same thing, the likeliest first."""
OUTPUTS, REFERENCES, INPUTS, _ = map(frozenset, _GROUPS)
_ANSWER_WORDS = (
    "reference references ref gold golden golds expected correct target targets ideal true truth gt gts label labels "
    "groundtruth canonical solution key real oracle"
)
_GUESS_WORDS = "predicted prediction predictions pred preds generated generation hypothesis hyp actual"
_OF_REFERENCES, _PREDICTED = (frozenset(words.split()) for words in (_ANSWER_WORDS, _GUESS_WORDS))
"""Words of which one in a column's name says that it has the right answer, and that it has a model's."""
_SETTING_WORDS = (
    "limit threshold max min maximum minimum cutoff tolerance tol epsilon eps alpha beta weight weights penalty budget "
    "seed strict ignore normalize lang language mode method verbose decimals digits top n k config options opts "
    "timeout retries"
)
_SETTINGS = frozenset(_SETTING_WORDS.split())
"""Words of which one in a parameter's name says that it is a setting."""
_OF_OUTPUTS = _PREDICTED | {"output", "outputs", "completion", "response", "candidate"}
_NEUTRAL = "answer answers text texts str string value sentence result"
_ANY_TEXT = frozenset(_NEUTRAL.split())
"""Words that say no more of a right answer than that it is one: `ref_answer`, `gold_text`."""

_FORMS = frozenset(("token", "tokens", "text", "texts", "str", "string", "strings", "value", "raw", "json", "seq"))
"""Last words of names that say in which form a value is, and not what it is."""


def likely_columns(parameters: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """
    Return the likeliest column for each parameter. One for which no column is likely is left out.

    `parameters` are their names, each with the name of the column that it would take if there were one. No column is
    given twice: as many parameters as possible get one, and then the likelier ones.
    """
    have = list(columns)[:COLUMNS]
    some = list(parameters.items())[:_PARAMETERS]
    ranked = {
        name: _ranked((column, name), [one for one in have if not _is_opposite(column, one)])[:_CANDIDATES]
        for name, column in some
    }
    found = _best(ranked, list(ranked), ())[2]
    for name, column in some:
        begins = [one for one in have if one not in found.values() and len(name) == 1 and plain_name(one)[:1] == name]
        if name not in found and len(begins) == 1 and any(_sides(plain_name(begins[0]))):
            found[name] = begins[0]  # `wer(r, h)` of the columns `ref` and `hyp`
        side, words = _sides(plain_name(column)), _rest(column)
        same = [one for one in have if one not in found.values() and _sides(plain_name(one)) == side]
        if name not in found and any(side) and len(same) == 1 and not is_setting(name):
            other = _rest(same[0])
            if not words or not other or words == other:  # `e_pred` and `pred_entities`, `gold_tags` and `label`
                found[name] = same[0]
    return found


def customary(roles: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """
    Return, by role, the one of these parameters that has a usual name of it.

    Each gets another, the likelier first.
    """
    groups = dict(zip(("output", "reference", "input", "context"), _GROUPS, strict=True))
    words = {name: plain_name(name.rpartition(".")[2]) for name in names}
    ranked = {
        role: sorted((groups[role].index(word), name) for name, word in words.items() if word in groups[role])
        for role in roles
    }
    return _best({role: some[:_CANDIDATES] for role, some in ranked.items()}, [*roles], ())[2]


def likely_path(keys: Sequence[str | int] | None, case: Case | None, columns: Iterable[str]) -> str | None:
    """
    Return a path that can match, with the keys that are likely meant, where the row lacks some of these.

    `columns` may have more than the row, of which nothing more is known. None where nothing is likely.
    """
    metadata = dict.fromkeys((name for name in columns if name not in BY_NAME), _UNREAD)
    metadata |= {} if case is None else case.metadata
    own = {} if case is None else {name: getattr(case, name) for name in case.present - {"metadata"}}
    value: Any = {**metadata, **own, "metadata": metadata}
    found: list[str | int] = []
    for key in keys or ():
        near = key if value is _UNREAD else _likely_key(key, value)
        if near is None:
            return None
        found += [near] if found or near in BY_NAME else ["metadata", near]
        value = value if value is _UNREAD else value[near]
    return "$" + "".join(map(step, found)) if found else None


def _likely_key(key: str | int, value: Any) -> Any:
    """The key of this object or list that is meant."""
    if isinstance(key, int):
        return key if isinstance(value, list) and -len(value) <= key < len(value) else None
    if not isinstance(value, dict) or key in value:
        return key if isinstance(value, dict) else None
    names = {name.lower(): name for name in list(value)[:COLUMNS]}
    close = difflib.get_close_matches(key[:100].lower(), list(names), 1, 0.6)
    return names[close[0]] if close else None


def step(key: str | int) -> str:
    """Return a part of a path, which terminals cannot obey."""
    if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
        return f".{key}"
    return f"[{json.dumps(key, ensure_ascii=not str(key).isprintable())}]"


def _is_opposite(wanted: str, column: str) -> bool:
    """True for a column of the reference where an output is wanted, and the other way round, by its words."""
    if plain_name(wanted) == plain_name(column):
        return False
    of_references, of_outputs = _sides(plain_name(column))
    asks_references, asks_outputs = _sides(plain_name(wanted))
    if asks_references == asks_outputs or of_references == of_outputs:
        return False
    return asks_references != of_references


def _sides(name: str) -> tuple[bool, bool]:
    """Whether a name is that of a right answer, and that of a model's."""
    if name in OUTPUTS ^ REFERENCES:
        return name in REFERENCES, name in OUTPUTS
    words = {*name.split("_")}
    is_reference = bool(words & _OF_REFERENCES) and not words & _PREDICTED
    return is_reference, bool(words & _OF_OUTPUTS) and not is_reference


def _rest(name: str) -> set[str]:
    """The words of a name that do not say whose answer it has."""
    words = {*plain_name(name).split("_")} - _OF_REFERENCES - _OF_OUTPUTS
    return {one for one in words if len(one) > 1}


def is_setting(name: str) -> bool:
    """Say whether a parameter of this name likely has one value for all rows: `limit`, `min_length`, `lang`."""
    return not _SETTINGS.isdisjoint(plain_name(name).split("_"))


def is_reference(name: str) -> bool:
    """Say whether a column or parameter of this name likely has the right answer."""
    plain = plain_name(name)
    return plain in REFERENCES or _sides(plain)[0]


def is_answer(name: str) -> bool:
    """
    Say whether a name says that it is the right answer, and nothing besides: `ref_answer`, and not `expected_tools`.
    """
    plain = plain_name(name)
    words = {*plain.split("_")} & _OF_REFERENCES - {"key", "real", "true"}
    return plain in REFERENCES - OUTPUTS or (bool(words) and _sides(plain)[0] and _rest(name) <= _ANY_TEXT)


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
    plain = dict.fromkeys(map(plain_name, wanted))
    plain |= dict.fromkeys(filter(None, map(_without_form, plain)))
    names = [plain_name(name) for name in columns]
    # A slip of the pen in the name is likelier than another name.
    near = difflib.get_close_matches(plain_name(wanted[0]), names, 1, 0.8)
    same = [name for group in _GROUPS if plain.keys() & set(group) for name in group]
    same = same or (list(_GROUPS[1]) if any(map(is_answer, plain)) else [])
    ranks = {name: rank for rank, name in enumerate(dict.fromkeys((*plain, *near, *same)))}
    # What somebody wrote is meant to be like a column; the name of a parameter need not be.
    like = difflib.get_close_matches(plain_name(wanted[0]), names, _CANDIDATES, 0.6) if len(set(wanted)) > 1 else []
    found = [
        (rank, c) for c, name in zip(columns, names, strict=True) if (rank := _rank(name, ranks, like)) is not None
    ]
    return sorted(found, key=lambda one: (one[0], len(one[1])))


def _without_form(name: str) -> str:
    """A name without a last word that says in which form the value is: `answer_token` is `answer`."""
    first, _, last = name.rpartition("_")
    return first if last in _FORMS else ""


def _rank(column: str, ranks: dict[str, int], like: Sequence[str]) -> int | None:
    if column in ranks:
        return ranks[column]
    if column.rpartition("_")[2] in _NUMBERING and column not in like:
        return None
    parts = [_PART + ranks[part] for part in _parts(column) if part in ranks]
    parts += [2 * _PART + like.index(column)] if column in like else []
    parts += [3 * _PART + rank for name, rank in ranks.items() if len(name) > 3 and column.startswith(name)]
    return min(parts, default=None)


def _parts(column: str) -> Iterator[str]:
    """Its words, and each two neighbours: `gpt_4_model_answer` has `model_answer`."""
    words = column.split("_")[:12]
    yield from words
    yield from map("_".join, pairwise(words))


_LOWER = re.compile(
    r"(^|_)(wer|cer|ter|mae|mse|rmse|mape|loss|losses|errors?|err|perplexity|ppl|distances?|dist|edits?|levenshtein|"
    r"hamming|brier|latency|fp|fn|missing|missed|misses|spurious|incorrect|wrong)(_|$)"
)
_HARM = re.compile(
    r"toxic|violat|hallucinat|harmful|unsafe|offens|profan|misinform|(^|_)(error_rates?|bias|leaks?|leakage|mistakes?|"
    r"fpr|fnr|false_(positives?|negatives?)|failures?|failure_rate|(over|false|wrong)_refusals?|jailbreaks?)(_|$)"
)
"""What nobody wants more of, whatever it is counted in."""
_FREE = re.compile(
    r"free|(^|_)(no|non|without|not|anti|avoids?|avoided|avoidance|resist\w*|recover\w*|handling)(_|$)|detect"
)
_HIGHER = re.compile(r"sim|ratio|accura|score|match|(?<!in)correct|overlap|reward|free|(^|_)(no|without)_")


def is_lower_better(name: str) -> bool:
    """Say whether a score's or label's name says that less of it is better: an error rate, a distance, a violation."""
    plain = plain_name(name)
    if _HARM.search(plain):
        return _FREE.search(plain) is None and re.search(r"accura|correct", plain) is None
    return _LOWER.search(plain) is not None and _HIGHER.search(plain) is None and _FREE.search(plain) is None


def likely_direction(name: str) -> str:
    """Return what a header adds to an output's config of which, by its name, less is better; nothing for others."""
    return ', direction = "minimize"' if is_lower_better(name) else ""


def plain_name(name: str) -> str:
    """Return a name as words in lower case: `modelOutput` and `model-output` are `model_output`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:100])
    return re.sub(r"[\W_]+", "_", words).strip("_").lower()
