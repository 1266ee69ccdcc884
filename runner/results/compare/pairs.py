"""Two sides become one comparison: rows pair by id, and by what the evaluator was given beside the output."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from runner.core.errors import NotComparableError
from runner.core.text import list_names, printable, rows_of
from runner.core.types import Categorical, Continuous, Direction, OutputConfig, bounds_of, config_of
from runner.engine.scoring.look_alikes import look, tell_json_apart
from runner.engine.scoring.shown_rows import safe, safe_apart
from runner.inputs.evaluators.call_inputs import NO_OUTPUT, split_hash
from runner.results.compare.side import OUTCOMES, Side
from runner.results.compare.types import (
    EXAMPLES,
    ComparedRun,
    Comparison,
    Difference,
    LabelChange,
    PairingGaps,
    RowChange,
    RowCounts,
    ScoreBounds,
)
from runner.results.compare.verdict import Pairs, difference, figures
from sandboxes.words.wording import Setting

_NAMED = 3
_DIGITS = 40  # characters of an id that may be a number
_PLAIN = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
VALUES = 50
"""Values of a column that have figures of their own; labels that a matrix has."""


class Wish(NamedTuple):
    """What a comparison is asked for."""

    tolerance: float = 0.0
    by: str | None = None
    cluster: str | None = None
    ignore_input: bool = False
    """True if rows pair by their ids alone."""


class ComparisonPlaces(NamedTuple):
    """A comparison, and the places on both sides of its worst rows, in its order, whose texts are not read yet."""

    comparison: Comparison
    worst: Sequence[tuple[int, int]]
    pairs: Sequence[tuple[int, int]]
    """Of all pairs."""


class _Paired(NamedTuple):
    places: list[tuple[int, int]]
    unpaired: PairingGaps
    unchanged: set[int]
    """Places of the base whose output is the same on both sides, too."""
    alike: Sequence[tuple[str, str]]
    """Ids of the base that did not pair, and those of the new run that may mean the same."""


def compare_sides(
    base: Side, new: Side, infos: tuple[ComparedRun, ComparedRun], configs: Mapping[str, OutputConfig], wish: Wish
) -> ComparisonPlaces:
    """
    Compare all pairs. `configs` are the outputs' configs by name, those of the only or first output first.

    Raises:
        NotComparableError: If no row pairs, or none carries a column that is asked for.
    """
    for side in (base, new):
        if len(side.evaluators) > 1:
            raise NotComparableError(
                f"{side.name} has results of {list_names(side.evaluators)}; compare one evaluator a time"
            )
    paired = _pair(base, new, wish.ignore_input)
    places = paired.places
    clusters = None if wish.cluster is None else _column(base, new, places, wish.cluster)
    first = next(iter(configs.values()), None)
    old, now = ([info.lock or ("none" if info.state else "")] for info in infos)
    lock = _change(old, now, len(places))

    def figures_of(name: str, config: OutputConfig | None, some: Sequence[int]) -> dict[str, Any]:
        return _figures(base, new, paired, name, config, some, clusters, wish.tolerance)

    every = range(len(places))
    names = [name for name in new.outputs if name and name in base.outputs]
    by = {} if wish.by is None else _groups(_column(base, new, places, wish.by))
    worst = _worst(base, new, places, "none" if first is None else first.direction)
    made = Comparison(
        **figures_of("", first, every),
        base=infos[0],
        new=infos[1],
        tolerance=wish.tolerance,
        unpaired=paired.unpaired.model_copy(update={"lock": lock}),
        outcomes=_outcomes(base, new, places),
        outputs={name: Difference(**figures_of(name, config_of(configs, name), every)) for name in names},
        by_column=wish.by,
        by={value: Difference(**figures_of("", first, some)) for value, some in by.items()},
        labels=_labels(base, new, places),
        notes=tuple(_notes(base, new, paired)),
    )
    return ComparisonPlaces(made, worst, places)


def _pair(base: Side, new: Side, ignore_input: bool) -> _Paired:
    places: list[tuple[int, int]] = []
    only_base: list[str] = []
    changed: list[str] = []
    unchanged: set[int] = set()
    unchecked = no_output = 0
    there, given, other = new.ids, base.given, new.given
    for id, at in base.ids.items():
        place = there.get(id)
        if place is None:
            only_base.append(id)
            continue
        a, b = given[at], other[place]
        if a is None or b is None:
            unchecked += 1
        elif a == b:
            unchanged.add(at)
        elif not ignore_input and split_hash(a)[0] != split_hash(b)[0]:
            changed.append(id)
            no_output += split_hash(b)[1] == NO_OUTPUT
            continue
        places.append((at, place))
    only_new = [id for id in there if id not in base.ids]
    alike = _alike(only_base, only_new)
    if not places:
        raise NotComparableError(_nothing(base, new, changed, bool(no_output), alike))
    pairs = len(places)
    names = {name for name in base.outputs.keys() ^ new.outputs.keys() if name}
    unpaired = PairingGaps(
        only_base=_rows(only_base, only_new),
        only_new=_rows(only_new, only_base),
        changed_input=_rows(changed),
        unchecked=unchecked,
        evaluator=_change(base.evaluators, new.evaluators, pairs),
        version=_change(base.versions, new.versions, pairs),
        sandbox=_change(base.sandboxes, new.sandboxes, pairs),
        outputs=None
        if not names
        else RowChange(
            base=tuple(name for name in base.outputs if name in names),
            new=tuple(name for name in new.outputs if name in names),
            rows=pairs,
        ),
    )
    return _Paired(places, unpaired, unchanged, alike)


def _nothing(base: Side, new: Side, changed: Sequence[str], no_output: bool, alike: Sequence[tuple[str, str]]) -> str:
    """Why no row pairs."""
    if not changed:
        if alike:
            return f"no row of {base.name} is in {new.name}: {_alike_words(base, new, alike)}"
        ids = (list_names(map(safe, islice(side.ids, _NAMED))) for side in (base, new))
        return (
            f"no row of {base.name} is in {new.name}: their ids have nothing in common ({' and '.join(ids)}); "
            "compare runs of one dataset, or name the column of ids for both runs"
        )
    hint = "no parameter of the evaluator is the output, so any change counts; " if no_output else ""
    return (
        f"all {rows_of(len(changed))} that {base.name} and {new.name} have in common were given another input, "
        f"reference or setting; {hint}compare runs of one dataset, or pair rows by id alone with "
        f"{Setting('ignore_input', True)}"
    )


def _alike(only_base: Sequence[str], only_new: Sequence[str]) -> list[tuple[str, str]]:
    """Ids without a pair that may mean the same row: `1` and `1.0`, `001` and `1`, `A` and `a`, or that look alike."""
    forms = {_form(id): id for id in reversed(only_new)}
    return [(id, forms[form]) for id in only_base if (form := _form(id)) in forms]


def _form(id: str) -> str:
    text = look(id).casefold()
    if len(text) > _DIGITS or not _PLAIN.fullmatch(text):
        return text
    whole, _, part = text.removeprefix("+").partition(".")
    sign, whole = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{whole.lstrip('0') or '0'}.{part.rstrip('0')}"


def _alike_words(base: Side, new: Side, alike: Sequence[tuple[str, str]]) -> str:
    quoted = (tell_json_apart([one[:60], other[:60]]) for one, other in alike[:_NAMED])
    pairs = ", ".join(" and ".join(printable(one) for one in both) for both in quoted)
    return (
        f"ids of {rows_of(len(alike))} are written in two ways, in {base.name} and in {new.name}: {pairs}; an id is "
        "text: write it the same way in both datasets, or name another column of ids, and run again"
    )


def _numbered(side: Side) -> int:
    """The rows that got their number behind their id, as an earlier row has it."""
    return sum(at > 0 and id[:at] in side.ids and id[at + 1 :].isdecimal() for id in side.ids for at in [id.rfind("#")])


def _rows(ids: Sequence[str], others: Sequence[str] = ()) -> RowCounts:
    some = ids[:EXAMPLES]
    return RowCounts(count=len(ids), ids=tuple(safe_apart([*some, *others[:EXAMPLES]])[: len(some)]))


def _change(base: Iterable[str], new: Iterable[str], rows: int) -> RowChange | None:
    """None also where a side does not tell."""
    one, other = (tuple(sorted(safe(name) for name in names if name)) for names in (base, new))
    return RowChange(base=one, new=other, rows=rows) if one and other and one != other else None


def _figures(
    base: Side,
    new: Side,
    paired: _Paired,
    name: str,
    config: OutputConfig | None,
    some: Sequence[int],
    clusters: Sequence[str] | None,
    tolerance: float,
) -> dict[str, Any]:
    """The figures of one output on some of the pairs."""
    places = paired.places
    a, b = base.outputs[name], new.outputs[name]
    a.pad(len(base.numbers))
    b.pad(len(new.numbers))
    olds, news, kept = [], [], []
    broken: list[tuple[float | None, float | None]] = []
    silent = 0
    for number in some:
        at, place = places[number]
        old, score = a.scores[at], b.scores[place]
        if old == old and score == score:
            olds.append(old)
            news.append(score)
            kept.append(number)
        elif base.outcomes[at] > 1 or new.outcomes[place] > 1:
            broken.append((old if old == old else None, score if score == score else None))
        else:
            silent += 1
    low, high = _limits(config, [*olds, *news])
    pairs = Pairs(
        olds,
        news,
        clusters=None if clusters is None else [clusters[number] for number in kept],
        unchanged=all(places[number][0] in paired.unchanged for number in kept),
        span=high - low,
        bounded=bounds_of(config) is not None,
    )
    direction: Direction = "none" if config is None else config.direction
    made = figures(pairs, direction, tolerance)
    bounds = _bounds(made["mean_difference"], len(olds), broken, direction, low, high) if olds and broken else None
    return made | {"pairs": len(some), "failed": len(broken), "abstained": silent, "bounds": bounds}


def _limits(config: OutputConfig | None, seen: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest score that there can be; where the config does not say, that there was."""
    low, high = (min(seen), max(seen)) if seen else (0.0, 0.0)
    if isinstance(config, Continuous):
        low = low if config.lower_bound is None else config.lower_bound
        high = high if config.upper_bound is None else config.upper_bound
    elif isinstance(config, Categorical):
        scores = [score for score in config.labels.values() if score is not None]
        low, high = min([low, *scores]), max([high, *scores])
    return low, high


def _bounds(
    mean: float,
    count: int,
    broken: Sequence[tuple[float | None, float | None]],
    direction: Direction,
    low: float,
    high: float,
) -> ScoreBounds | None:
    if direction == "none":
        return None
    worst, best = (high, low) if direction == "minimize" else (low, high)
    total = count + len(broken)

    def with_failures(base: float, new: float) -> float:
        ends = ((base if old is None else old, new if now is None else now) for old, now in broken)
        return mean * (count / total) + sum(difference(*both) / total for both in ends)

    return ScoreBounds(worst=with_failures(best, worst), best=with_failures(worst, best))


def _column(base: Side, new: Side, places: Sequence[tuple[int, int]], name: str) -> list[str]:
    """The values of a column, for each pair."""
    ours, theirs = new.columns[name], base.columns[name]
    found = [ours[place] if ours[place] is not None else theirs[at] for at, place in places]
    return ["null" if value is None else value for value in found]


def _groups(values: Sequence[str]) -> dict[str, list[int]]:
    most = [value for value, _ in Counter(values).most_common(VALUES)]
    names = dict(zip(most, safe_apart(most), strict=True))
    found: dict[str, list[int]] = {name: [] for name in names.values()}
    for number, value in enumerate(values):
        if value in names:
            found[names[value]].append(number)
    return found


def _worst(base: Side, new: Side, places: Sequence[tuple[int, int]], direction: Direction) -> list[tuple[int, int]]:
    if direction == "none":
        return []
    sign = -1 if direction == "minimize" else 1
    a, b = base.outputs[""].scores, new.outputs[""].scores
    # NaN, where there is no score, is not below 0 either.
    lower = ((at, place) for at, place in places if sign * (b[place] - a[at]) < 0)
    changes = ((sign * difference(a[at], b[place]), at, place) for at, place in lower)
    return [(at, place) for _, at, place in heapq.nsmallest(EXAMPLES, (c for c in changes if c[0]))]


def _outcomes(base: Side, new: Side, places: Sequence[tuple[int, int]]) -> dict[Any, tuple[int, int]]:
    ours = Counter(base.outcomes[at] for at, _ in places)
    theirs = Counter(new.outcomes[place] for _, place in places)
    return {outcome: (ours[code], theirs[code]) for code, outcome in enumerate(OUTCOMES)}


def _labels(base: Side, new: Side, places: Sequence[tuple[int, int]]) -> tuple[LabelChange, ...]:
    a, b = base.outputs[""].labels, new.outputs[""].labels
    counts = Counter((a[at], b[place]) for at, place in places)
    if counts.keys() == {(None, None)}:
        return ()
    some = counts.most_common(VALUES)
    texts = list({label for both, _ in some for label in both if label is not None})
    shown: dict[str | None, str] = dict(zip(texts, safe_apart(texts), strict=True))
    return tuple(LabelChange(base=shown.get(one), new=shown.get(other), rows=rows) for (one, other), rows in some)


def _notes(base: Side, new: Side, paired: _Paired) -> Iterable[str]:
    if paired.alike:
        yield _alike_words(base, new, paired.alike)
    for side in (base, new):
        if numbered := _numbered(side):
            yield (
                f"{side.name}: {rows_of(numbered)} repeat an id of their dataset, and are named id#row: they pair by "
                "their number; to pair them however rows move, take a column as id that tells rows apart"
            )
        if side.repeated:
            words = "the scores of one id are averaged, and it failed if one of its rows did"
            yield f"{side.name}: {rows_of(side.repeated)} repeat an id; {words}"
        if side.unlike:
            yield f"{side.name}: {rows_of(side.unlike)} repeat an id with another input; ids should name one row"
    if unchecked := paired.unpaired.unchecked:
        yield f"{rows_of(unchecked)} have no hash of their input on a side; that it changed would not be seen"
