"""What the scores of planted rows say of a grader. Each rule was held against sound graders, as false alarms cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from statistics import fmean
from typing import Any, NamedTuple

from runner.core.text import printable, rows_of
from runner.core.types import Result
from runner.engine.scoring.gates import figure
from runner.runs.audit.answers import EQUAL, Marks, are_kinds, form_of, leaves, parse_tree, plain, says_nothing
from runner.runs.audit.plants.text import STYLES
from runner.runs.audit.plants.types import STEPS, Plant
from runner.runs.audit.types import Check, Witness

SHARE, LEAST = 0.1, 2
"""A finding is one from this share of the rows on, and from this number: fewer may be chance."""
NO_SCORE = "the reference itself gets no score"
HALF = 0.5
"""The share of rows that make what is rare elsewhere more than chance."""
_TEXT, _VALUES = 200, 50

WRONG = {
    "wrong.other": "the reference of another row",
    "wrong.near": "the reference of another row that is spelt most like it",
    "wrong.empty": "an empty output",
    "wrong.null": "null",
    "wrong.refusal": "a refusal",
    "wrong.junk": "characters of no language",
    "wrong.mark": "a colon alone",
    "wrong.capitals": "a sentence of words with capital letters",
    "wrong.injection": "a text that asks for the best score",
    "wrong.long": "50,000 characters of one word",
    "wrong.list": "an empty list",
    "wrong.object": "an empty object",
    "wrong.true": "the value true",
    "wrong.bare": "its form without an answer",
    "wrong.alike": "the answer of another row that case, marks or script tell apart",
    "wrong.nothing": "what cannot be read, where the reference says that there is nothing,",
    "wrong.denied": "another answer, after one that denies the right one,",
    "wrong.quoted": "another answer in quotes",
    "wrong.letter_word": "a sentence that has the word A or I, and names no choice,",
    "wrong.article": "a sentence that goes on with the article a, and names no choice,",
    "wrong.failing_once": "the right program, failing at its first call,",
    "wrong.clearing": "the right program, emptying its arguments first,",
    "wrong.leaving": "the right program, ended by its first line,",
    "wrong.stubs": "functions that do nothing",
    "wrong.other_stubs": "functions of other names, which do nothing,",
    "wrong.empty_lists": "the right object with empty lists",
    "wrong.broken_json": "JSON that is cut off",
    "wrong.input": "the input, said again",
    "changed.number": "the last number doubled plus 1",
    "changed.thousands": "the last number plus 7,000",
    "changed.point": "the last number without its point",
    "changed.digit": "the last number with a digit more",
    "changed.fraction": "the last number with another fraction",
    "changed.sign": "the number with another sign",
    "changed.unit": "the number with the unit of another row",
    "changed.nan": "NaN for a number",
    "changed.mark": "a 7 in place of a point",
    "changed.word": "the last word replaced",
    "changed.day": "another day in its date",
    "changed.month": "another month in its date",
    "changed.year": "another year in its date",
    "changed.clock": "am for pm, or pm for am",
    "changed.size": "million for billion, or the like",
    "changed.charge": "a formula with another charge",
    "changed.code": "a code with another last character",
    "changed.arguments": "a command with its last two arguments swapped",
    "changed.last_word": "the last word replaced by one of another row",
    "changed.longer": "the answer as a part of a longer word",
    "changed.half": "the first half of the words",
    "changed.loop": "some of the words again and again",
    "changed.cut": "the first half of a word",
    "changed.general": "a word of a name that many names have",
    "changed.json_number": "a number doubled plus 1",
    "changed.json_text": "a text replaced",
    "changed.json_bool": "true for false, or false for true",
}
"""Planted outputs that are no answer to any row."""
SEES = {
    "sees.sign": "the sign of a number",
    "sees.order": "the order of words",
    "sees.twice": "that all is said twice",
    "sees.half": "that the second half is missing",
    "sees.key_missing": "that a key is missing",
    "sees.key_extra": "a key too many",
    "sees.element_missing": "that an element is missing",
    "sees.element_extra": "an element too many",
    "sees.element_twice": "that an element stands there twice",
    "sees.list_order": "the order of a list",
    "sees.rest": "that all of a list but its first element is missing",
    "sees.query_order": "the order of a query's result",
    "sees.rows_twice": "that each row of a query's result stands there twice",
    "sees.text_case": "the case of a text",
    "sees.nothing": "an answer where the reference has none",
    "sees.denial": "that an answer is denied",
    "sees.other": "the output of another row",
    "sees.not": "that a `not` is there",
    "sees.word_extra": "a word too many",
    "sees.element_replaced": "that an element is replaced",
    "sees.element_repeated": "that one element stands there in place of another",
    "sees.said_number": "that the number of the reference is another",
    "sees.said_code": "that the last character of a code is another",
    "sees.words": "that words of the reference are replaced",
    "sees.inside": "that words of the reference are parts of longer words",
}
_BESIDE = {
    "sees.inside": ("sees.words",),
    "sees.rest": ("sees.list_order", "sees.element_extra"),
    "sees.not": ("sees.word_extra",),
    "sees.element_repeated": ("sees.element_replaced",),
}
"""Findings where one of those others loses marks: else what is changed does not count at all."""
LESS = {"sees.key_missing": "sees.key_extra", "sees.element_missing": "sees.element_extra"}
"""Full marks for less than what is asked: findings, and with each what is one then too, as both pass."""
_PARTLY = ("sees.said_number", "sees.said_code")
"""Findings where it sees some of them."""
_SOME = (*LESS, *STYLES, "sees.inside", "sees.not", "sees.element_repeated", *_PARTLY)
_MOST = {"sees.rest": HALF, "sees.rows_twice": 0.9, "same.tag": HALF}
_JUDGED = dict.fromkeys(_SOME, SHARE) | _MOST
"""The share of rows from which on what a grader does not see, or treats as different, is a finding."""
MORE = "sees.nothing"
"""A finding too where it sees what is too much elsewhere."""
SAME = {
    "same.bare": "the answer alone, without the form that outputs have",
    "same.case": "upper and lower case",
    "same.space": "white space around it",
    "same.full_stop": "a full stop at its end",
    "same.fence": "a code fence",
    "same.tag": "a code fence with another tag, and one without",
    "same.apostrophe": "the apostrophe \u2019, which other outputs have",
    "same.group": "several citations in one bracket, as other outputs have them",
    "same.sentence": "a sentence before it",
    "same.thousands": "1,000 for 1000",
    "same.key_order": "another order of keys",
    "same.indent": "indented JSON",
}
ALONE = ("discrimination", "labels", "repeats", "rows_apart", "metadata")
"""Checks that need no reference."""
ALL = ("right", "accepted", "right.zero", "right.same_form", *WRONG, "reference", "damage", *ALONE, *SEES, *SAME)
"""The ids of all checks."""
_PLAIN = ("wrong.empty", "wrong.refusal", "wrong.junk", "wrong.capitals")
NO_ROW = "no row has what it changes"
_NONE_SCORED = "the script fails on each row that has it, or gives it no score"


class PlantResult(NamedTuple):
    """A planted output, and what it scored."""

    row: str
    plant: Plant
    result: Result


class PlantScores:
    """The results of one pass over all planted rows, and how good each is."""

    def __init__(self, planted: Iterable[PlantResult], marks: Marks, references: Mapping[str, Any]) -> None:
        self.planted = tuple(planted)
        self.marks = marks
        self.references = references
        self.by_row: dict[str, dict[str, PlantResult]] = defaultdict(dict)
        """By check; those of one value of JSON, by its place too."""
        for one in self.planted:
            self.by_row[one.row][f"{one.plant.check} {one.plant.place}".rstrip()] = one
        self.full = {
            row: score
            for row, plants in self.by_row.items()
            if (score := self.goodness(plants.get("right"))) is not None
        }
        """By row: what its right answer scores."""

    @cached_property
    def worst(self) -> float:
        """
        The worst score seen: where right answers have it, it says nothing of wrong ones.

        Below all of them where all are equal: such a grader is fooled by each answer.
        """
        found = [good for one in self.planted if (good := self.goodness(one)) is not None]
        return min(found) if found and max(found) > min(found) + EQUAL else float("-inf")

    def goodness(self, one: PlantResult | None) -> float | None:
        """Return a score that is higher where it is better; None where there is none."""
        return None if one is None else self.marks.goodness(one.result)

    def of(self, check: str) -> Iterator[tuple[PlantResult, float, float]]:
        """Yield the plants of a check that have a score, with it and with full marks of their row."""
        for row, full in self.full.items():
            for name, one in self.by_row[row].items():
                if name.partition(" ")[0] == check and (good := self.goodness(one)) is not None:
                    yield one, good, full

    @cached_property
    def tells_apart(self) -> bool:
        """Say whether right answers of other rows lose marks though no reference does: it judges by something else."""
        ignored = all(abs(good - full) <= EQUAL for _, good, full in self.of("reference"))
        others, damaged = self._losses("wrong.other", "sees.other"), self._losses(f"damage.{STEPS[-1]:g}")
        return ignored and sum(others) > HALF * len(others) and (any(damaged) or not damaged)  # no size alone

    def _losses(self, *checks: str) -> list[bool]:
        """Whether each plant of some checks loses marks."""
        return [good < full - EQUAL for check in checks for _, good, full in self.of(check)]

    def is_seen_by_others(self, one: PlantResult) -> bool:
        """Say whether another output than the first falls from 1 to 0: each may judge a part of an answer."""
        right = self.by_row[one.row]["right"].result.outputs
        return len(right) > 1 and any(
            right[name].score == 1 and value.score == 0 for name, value in one.result.outputs.items() if name in right
        )

    def passes(self, good: float) -> bool:
        """Say whether so good a score passes the threshold; true without one."""
        config = self.marks.config
        threshold = None if config is None else config.threshold
        return threshold is None or good >= threshold * self.marks.sign - EQUAL


def witness(one: PlantResult) -> Witness:
    """Return a row to show, its texts cut."""
    reference = one.plant.reference.value if one.plant.reference is not None else None
    result = one.result
    return Witness(
        id=one.row,
        output=_cut(one.plant.output),
        reference=_cut(reference),
        source=one.plant.source,
        score=result.score,
        label=result.label,
    )


def _cut(value: Any) -> Any:
    """The start and the end: most changes are at the end."""
    long = isinstance(value, str) and len(value) > _TEXT
    return f"{value[: _TEXT // 3]} … {value[-2 * _TEXT // 3 :]}" if long else value


def check_of(check: str, rows: Sequence[PlantResult], of: int, words: str, *, found: bool) -> Check:
    """Return a check that was made, with the first of the rows that show it."""
    return Check(
        id=check,
        status="found" if found else "clear",
        words=words if rows else "",
        rows=len(rows),
        of=of,
        witness=witness(rows[0]) if rows else None,
    )


def count_rows(check: str, rows: Sequence[PlantResult], of: int, words: str, why_not: str = NO_ROW) -> Check:
    """Return a check that is a finding where enough rows show it."""
    if not of:
        return Check(id=check, status="not applicable", words=why_not)
    enough = len(rows) >= max(min(LEAST, of), SHARE * of)
    return check_of(check, rows, of, f"{words}: {len(rows):,} of {rows_of(of)}", found=enough)


def read_scores(scores: PlantScores) -> Iterator[Check]:
    """Yield the checks of one pass over the planted rows."""
    yield _right(scores)
    yield _accepted(scores)
    yield _zero(scores)
    yield _same_form(scores)
    for check, words in WRONG.items():
        every = list(scores.of(check))
        if not every and check not in ("wrong.empty", "wrong.null"):
            continue
        planted = any(check in plants for plants in scores.by_row.values())
        why_not = _NONE_SCORED if planted else NO_ROW
        fooled = [one for one, good, full in every if good >= full - EQUAL and full > scores.worst + EQUAL]
        fooled = [one for one in fooled if not scores.is_seen_by_others(one)]
        counted = count_rows(check, fooled, len(every), f"{words} has full marks", why_not)
        yield _at_place(counted, fooled, [one for one, *_ in every], words) or counted
    yield _reference(scores)
    yield _damage(scores)
    yield _discrimination(scores)
    yield _labels(scores)


def _at_place(counted: Check, fooled: Sequence[PlantResult], every: Sequence[PlantResult], words: str) -> Check | None:
    """Return what a place in JSON shows, where most rows with it are fooled: it is not compared."""
    places, most = Counter(one.plant.place for one in every), Counter(one.plant.place for one in fooled)
    for place, count in most.most_common():
        if place and count >= LEAST and count > HALF * places[place]:
            rows = [one for one in fooled if one.plant.place == place]
            where = f"{words} at {printable(place, 60)} has full marks: {count:,} of {rows_of(places[place])}"
            return check_of(counted.id, rows, places[place], where, found=True)
    return None


def _right(scores: PlantScores) -> Check:
    every = {row: plants["right"] for row, plants in scores.by_row.items() if "right" in plants}
    rows = {row: one for row, one in every.items() if one.result.outcome != "lost"}  # that is no fault of the script
    if not rows and every:
        return count_rows("right", (), 0, "", _NONE_SCORED)
    if len(scores.full) * 2 < len(rows):
        none = [one for row, one in rows.items() if row not in scores.full]
        return count_rows("right", none, len(rows), NO_SCORE)
    best, top = scores.marks.best, max(scores.full.values(), default=0.0)
    bad = []
    for row, one in rows.items():
        full = scores.full.get(row)
        beaten = full is not None and any(
            good > full + EQUAL
            for check, other in scores.by_row[row].items()
            if not check.startswith("reference") and (good := scores.goodness(other)) is not None
        )
        low = full is not None and best is not None and full < top - EQUAL
        if full is None or beaten or low or not scores.passes(full) or _is_worse(scores, row, full):
            bad.append(one)
    none = [rows[row] for row, full in scores.full.items() if row in rows and full <= scores.worst + EQUAL]
    none = [one for one in none if not says_nothing(scores.references.get(one.row, ""))]
    if (
        len(bad) < SHARE * len(rows)
        and len(none) >= LEAST
        and sum(full >= top - EQUAL for full in scores.full.values()) > HALF * len(rows)
    ):
        return check_of(
            "right",
            none,
            len(rows),
            f"the reference itself scores as wrong answers do: {len(none):,} of {rows_of(len(rows))}",
            found=True,
        )
    return count_rows("right", bad, len(rows), "the reference itself is not a best answer", "no row has a reference")


def _accepted(scores: PlantScores) -> Check:
    """Where one answer of those that a reference accepts has full marks, each has."""
    bad, of = [], 0
    for row, full in scores.full.items():
        every = [one for name, one in scores.by_row[row].items() if name.startswith("accepted ")]
        every = [one for one in every if one.result.outcome != "lost"]
        of += len(every) > 1
        low = [one for one in every if (good := scores.goodness(one)) is None or good < full - EQUAL]
        bad += low[:1] if len(low) < len(every) and full > scores.worst + EQUAL else []
    return count_rows("accepted", bad, of, "an answer that the reference accepts is not a best one")


def _names_kind(label: str | None, reference: Any) -> bool:
    """Say whether a label is a value of a reference: it tells of which kind an output is."""
    return any(plain(value) == plain(label) for _, value in islice(leaves(parse_tree(reference)), _VALUES))


def _zero(scores: PlantScores) -> Check:
    """Where 0 is the reference, 0 is right."""
    every = [plants["right.zero"] for row in scores.full if "right.zero" in (plants := scores.by_row[row])]
    every = [one for one in every if one.result.outcome != "lost" and scores.full[one.row] > scores.worst + EQUAL]
    used = {one.row for one, good, full in scores.of("reference") if good < full - EQUAL}
    every = [one for one in every if one.row in used]
    low = [one for one in every if (good := scores.goodness(one)) is None or good < scores.full[one.row] - EQUAL]
    return count_rows("right.zero", low, len(every), "beside the reference 0 the right answer 0 has no full marks")


def _same_form(scores: PlantScores) -> Check:
    """What outputs score that say their reference in the same words around it."""
    forms: dict[str, list[tuple[PlantResult, float]]] = defaultdict(list)
    for row, reference in scores.references.items():
        one = scores.by_row[row].get("real")
        good, form = scores.goodness(one), None if one is None else form_of(one.plant.output, reference)
        if one is not None and form is not None and good is not None:
            forms[form].append((one, good))
    top = max((good for some in forms.values() for _, good in some), default=0.0)
    low: list[PlantResult] = []
    of = 0
    for some in forms.values():
        bad = [one for one, good in some if good < top - EQUAL]
        if len(some) - len(bad) >= LEAST:
            low, of = [*low, *bad], of + len(some)
    return count_rows(
        "right.same_form", low, of, "said in words in which others have full marks, the reference has none"
    )


def _is_worse(scores: PlantScores, row: str, full: float) -> bool:
    """Say whether a row's own output has full marks as wrong ones have, and its reference has not."""
    plants = scores.by_row[row]
    every = (scores.goodness(one) for name, one in plants.items() if name.startswith("candidate "))
    tried = [good for good in every if good is not None]
    wrong = [good for name in _PLAIN if (good := scores.goodness(plants.get(name))) is not None]
    return bool(tried) and max(tried) < full - EQUAL and sum(good >= full - EQUAL for good in wrong) > len(wrong) * HALF


def _reference(scores: PlantScores) -> Check:
    every = [one for one in scores.of("reference") if one[2] > scores.worst + EQUAL]
    why_not = "no two rows have other references and right answers that score better than wrong ones"
    if len(every) >= LEAST and scores.tells_apart:
        why_not, every = "it tells answers of rows apart without a reference", []
    if len(every) < LEAST:
        return Check(id="reference", status="not applicable", words=why_not)
    same = [one for one, good, full in every if abs(good - full) <= EQUAL]
    words = f"with another row's reference no score changes: {len(same):,} of {rows_of(len(every))}"
    return check_of("reference", same, len(every), words, found=len(same) == len(every))


def _damage(scores: PlantScores) -> Check:
    steps = [{one.row: (one, good) for one, good, _ in scores.of(f"damage.{step:g}")} for step in STEPS]
    last = steps[-1]
    if len(last) < LEAST:
        return Check(id="damage", status="not applicable", words="no answer can be damaged")
    means = [fmean(good for _, good in step.values()) for step in steps if step]
    means = [fmean(scores.full[row] for row in last), *means]
    if means[-1] >= means[0] - EQUAL and means[0] > scores.worst + EQUAL:
        told = " … ".join(figure(abs(mean)) for mean in means)
        words = f"an answer with more and more of it replaced, up to all, scores no worse: {told}"
        return check_of("damage", [one for one, _ in last.values()], len(last), words, found=True)
    both = [(before[row][1], after[row]) for before, after in pairwise(steps) for row in before if row in after]
    rises = [one for earlier, (one, good) in both if good > earlier + EQUAL]
    words = f"more damage scores better in {len(rises):,} of {len(both):,} steps"
    return check_of("damage", rises, len(both), words, found=len(rises) > SHARE * len(both))


def _discrimination(scores: PlantScores) -> Check:
    every = [one for one in scores.planted if scores.goodness(one) is not None]
    if len(every) < LEAST:
        return Check(id="discrimination", status="not applicable", words="there are no scores")
    words = f"all {len(every):,} scores are equal, of right and of wrong answers"
    equal = scores.worst == float("-inf")
    if not equal and (equal := _ignores_outputs(every, scores)):
        words = "each output of a row has the same score: the output does not count"
    return check_of("discrimination", every if equal else (), len(every), words, found=equal)


def _ignores_outputs(every: Sequence[PlantResult], scores: PlantScores) -> bool:
    """Say whether scores differ from row to row alone: something else of a row is judged."""
    goods: dict[str, dict[str, float | None]] = defaultdict(dict)
    for one in every:
        if one.plant.reference is None:
            goods[one.row][repr(one.plant.output)] = scores.goodness(one)
    several = [row for row in goods.values() if len(row) > 1]
    return len(several) >= LEAST and all(len({*row.values()}) == 1 for row in several)


def _labels(scores: PlantScores) -> Check:
    """The best score with two labels; those of others may say what was wrong."""
    by_score: dict[float, dict[str, PlantResult]] = defaultdict(dict)
    texts = {row: plain(value) for row, value in scores.references.items() if not says_nothing(value)}
    right = [one for row in texts if (one := scores.by_row[row].get("right")) is not None]
    named = sum(_names_kind(one.result.label, scores.references[one.row]) for one in right)
    kinds = are_kinds(texts.values()) and len({one.result.label for one in right}) > 1
    said = () if kinds or named > HALF * len(right) else texts
    for one in scores.planted:
        good = None if scores.marks.by_label else scores.goodness(one)
        if good is not None and one.result.label is not None and one.row in said:
            by_score[round(good, 9)].setdefault(one.result.label, one)
    if not by_score:
        return Check(
            id="labels",
            status="not applicable",
            words="it gives no labels of right and wrong with its scores",
        )
    best = max(by_score)
    labels = [*by_score[best].values()]
    several = len(labels) > 1 and len(by_score) > 1
    names = " and ".join(printable(str(one.result.label), 40) for one in labels[:3])
    words = f"the best score, {figure(abs(best))}, has the labels {names}"
    return check_of("labels", labels[1:] if several else (), len(by_score), words, found=several)


def compare_passes(check: str, words: str, one: Sequence[PlantResult], other: Sequence[PlantResult]) -> Check:
    """Return a check of two passes over the same rows that should be equal."""
    differing, of = [], 0
    for first, second in zip(one, other, strict=True):
        kinds = {one.result.error.kind for one in (first, second) if one.result.error is not None}
        if "lost" in (first.result.outcome, second.result.outcome) or "timeout" in kinds:
            continue  # a slow moment is no fault of the script
        of += 1
        if (first.result.outcome, first.result.score, first.result.label) != (
            second.result.outcome,
            second.result.score,
            second.result.label,
        ):
            differing.append(second)
    if not of:
        return Check(id=check, status="not applicable", words="no row was scored twice")
    return check_of(check, differing, of, f"{words}: {len(differing):,} of {of:,} results", found=bool(differing))


def _one_tag(scores: PlantScores) -> tuple[list[PlantResult], int]:
    """Rows whose own output in a fence has full marks, and none with another tag; and how many have these marks."""
    shown, of = [], 0
    for row, full in scores.full.items():
        plants = scores.by_row[row]
        if (own := scores.goodness(plants.get("real"))) is not None and own >= full - EQUAL > scores.worst:
            of += 1
            tags = [one for name, one in plants.items() if name.startswith("same.tag ")]
            goods = [good for one in tags if (good := scores.goodness(one)) is not None]
            shown += tags[:1] if goods and max(goods) <= scores.worst + EQUAL else []
    return shown, of


def list_unjudged(scores: PlantScores, names: Mapping[str, str], *, seen: bool) -> Iterator[Check]:
    """
    Yield what a grader does not see, or treats as different, by what most rows show: to be known, and no verdict.

    Full marks for less than what is asked are a finding; and then those for more, as it passes both. So is what loses
    marks though a program that reads the output as it is meant would not see it.
    """
    for check, words in names.items():
        every = [
            (one, good >= full - EQUAL and not scores.is_seen_by_others(one))
            for one, good, full in scores.of(check)
            if full > scores.worst + EQUAL
        ]
        shown = [one for one, equal in every if equal is not seen]
        total = of = len(every)
        if check == "same.tag":
            shown, of = _one_tag(scores)
            total = len(shown)
        if check in _BESIDE:
            lost = {one.row for other in _BESIDE[check] for one, good, full in scores.of(other) if good < full - EQUAL}
            shown = [one for one in shown if one.row in lost]
        least = min(LEAST, of) if check in LESS else LEAST
        judged = check in _JUDGED and len(shown) >= max(least, _JUDGED[check] * of)
        judged &= check not in _PARTLY or of - len(shown) >= max(LEAST, SHARE * of)
        if check == "same.key_order":  # where texts are read as JSON
            read = {one.row for one, good, full in scores.of("same.indent") if good >= full - EQUAL}
            rows = [one for one, _ in every if one.row in read or not isinstance(one.plant.output, str)]
            less = [one for one in shown if one in rows]
            if len(less) >= max(min(LEAST, len(rows)), SHARE * len(rows)) > 0:
                judged, shown, total = True, less, len(rows)
        if total and (judged or len(shown) * 2 > total):
            yield check_of(check, shown, total, words, found=judged)
