"""`compare_runs`: two finished runs, as files or folders, become a comparison."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias, get_args

from runner.core.errors import InputError, NotComparableError
from runner.core.text import list_names, printable, rows_of, suggestion
from runner.core.types import Direction, Evaluator, Freeform, OutputConfig
from runner.engine.scoring.shown_rows import safe, safe_apart, shown_apart
from runner.results.compare.files import Source, find_source, outputs_of
from runner.results.compare.pairs import ComparisonPlaces, Wish, compare_sides
from runner.results.compare.rows import read_rows, read_side
from runner.results.compare.side import OUTCOMES, Side
from runner.results.compare.types import ChangedRow, Comparison, Flip, FlippedRow, Flips
from runner.results.compare.verdict import difference
from runner.results.output.row_cells import columns_of
from sandboxes.base import Language
from sandboxes.words.wording import Setting

Path: TypeAlias = str | os.PathLike[str]

_TEXT = 1500  # characters of a reference that is kept
_BESIDE = ("id", "input", "reference")
"""Columns that are not what was scored."""


def compare_runs(
    base: Path,
    new: Path,
    *,
    tolerance: float = 0.0,
    direction: Direction | None = None,
    evaluator: Path | Evaluator | None = None,
    language: Language | None = None,
    by: str | None = None,
    cluster: str | None = None,
    ignore_input: bool = False,
    strict: bool = False,
) -> Comparison:
    """
    Compare two runs of one dataset, row by row: is `new` better than `base`?

    Rows pair by id and by a hash of what the evaluator was given beside the output.

    Args:
        base: A results file (`.jsonl`, `.json`, `.csv`, `.parquet`) or a run's folder.
        new: Another.
        tolerance: A mean that is worse by up to this is no worse.
        direction: Which scores are better. None: as the `evaluator`'s output config says, else the manifest of `new` or
            of `base`, else, for a template, its own config, else the results.
        evaluator: The script, for its output config.
        language: The language of a template that has several.
        by: A column that results carry (see `keep`), for whose values there are figures of their own.
        cluster: A column; rows with the same value in it are not independent.
        ignore_input: Rows pair by id alone.
        strict: Refuse anything that does not pair, or is another on the two sides.

    Raises:
        NotComparableError: A run is missing, empty, damaged or of another dataset, or not as `strict` asks.
        InputError: An argument cannot be used.

    Example:
        >>> from evalcell import compare_runs, evaluate
        >>> for name, outputs in ("old", "57"), ("new", "47"):
        ...     rows = [{"id": n, "output": o, "reference": r} for n, o, r in zip("12", outputs, "47")]
        ...     _ = evaluate("exact-match", rows, output=f"{name}.jsonl")
        >>> compare_runs("old.jsonl", "new.jsonl").mean_difference
        0.5
    """
    check_tolerance(tolerance)
    sources = find_source(base), find_source(new)
    if evaluator is not None and not isinstance(evaluator, Evaluator):
        from runner.inputs.evaluators.resolve import find_evaluator

        evaluator = find_evaluator(evaluator, language)
    return compare_sources(sources, Wish(tolerance, by, cluster, ignore_input), evaluator, direction, strict)


def compare_sources(
    sources: tuple[Source, Source],
    wish: Wish,
    evaluator: Evaluator | None = None,
    direction: Direction | None = None,
    strict: bool = False,
) -> Comparison:
    """Compare files that were found, as `compare_runs` does. Raises NotComparableError."""
    compared, sides = _read(sources, wish, evaluator, direction)
    return _whole(compared, sides, sources, strict)


def compare_with_flips(
    sources: tuple[Source, Source], wish: Wish, page: FlipPage, direction: Direction | None
) -> tuple[Comparison, Flips]:
    """Return the comparison, and a page of the rows that flipped. Raises NotComparableError."""
    compared, sides = _read(sources, wish, direction=direction)
    found = find_flips(compared, sides)
    some = page.of(found)
    texts = _rows(sides, sources, [place for _, place in some])
    rows = [
        FlippedRow(
            flip=flip,
            base_number=sides[0].numbers[at] + 1,
            new_number=sides[1].numbers[place] + 1,
            base_outcome=OUTCOMES[sides[0].outcomes[at]],
            new_outcome=OUTCOMES[sides[1].outcomes[place]],
            base_score=_score(sides[0], at),
            new_score=_score(sides[1], place),
            **both,
        )
        for (flip, (at, place)), both in zip(some, texts, strict=True)
    ]
    counts = {flip: len(places) for flip, places in found.items()}
    flips = Flips(counts=counts, total=page.total(counts), rows=tuple(rows))
    return _whole(compared, sides, sources), flips


def _score(side: Side, at: int) -> float | None:
    found = side.outputs[""].scores[at]
    return found if found == found else None


def _read(
    sources: tuple[Source, Source],
    wish: Wish,
    evaluator: Evaluator | None = None,
    direction: Direction | None = None,
) -> tuple[ComparisonPlaces, tuple[Side, Side]]:
    wanted = [name for name in dict.fromkeys((wish.by, wish.cluster)) if name is not None]
    sides = read_side(sources[0], wanted), read_side(sources[1], wanted)
    for name in wanted:
        if all(value is None for side in sides for value in side.columns[name]):
            raise InputError(_no_column(name, sources, sides))
    configs = _configs(sources, sides, evaluator, direction)
    infos = sources[0].info(sides[0]), sources[1].info(sides[1])
    return compare_sides(*sides, infos, configs, wish), sides


def _no_column(name: str, sources: tuple[Source, Source], sides: tuple[Side, Side]) -> str:
    """Why there is nothing to tell of a column that no result carries."""
    carried: dict[str, None] = {}
    for source, side in zip(sources, sides, strict=True):
        for row in read_rows(source, {side.numbers[0]: next(iter(side.ids))}).values():
            carried |= dict.fromkeys(columns_of(row))
    there = (
        f"the results carry {list_names(carried, 20)}; name one of them, or" if carried else "they carry no columns;"
    )
    what = f"no result carries a value of the column `{printable(name, 60)}`{suggestion(name, carried)}"
    return f"{what}; {there} run both with {Setting('keep', 'COLUMN')}"


def _whole(
    compared: ComparisonPlaces, sides: tuple[Side, Side], sources: tuple[Source, Source], strict: bool = False
) -> Comparison:
    old, now = (source.aggregates for source in sources)
    figures = {name: (old.get(name), now.get(name)) for name in (*old, *now)}
    made = with_rows(compared, sides, sources).model_copy(update={"aggregates": figures})
    if strict and (found := unlike(made)):
        raise NotComparableError(f"strict: {'; '.join(found)}")
    return made


def check_tolerance(tolerance: float) -> None:
    """Raise InputError for what is no tolerance."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1e300:
        raise InputError(f"`tolerance` must be a number from 0 on, such as 0.02, not {tolerance!r}")


def unlike(comparison: Comparison) -> list[str]:
    """Return in words all that did not pair, or is another on the two sides."""
    unpaired = comparison.unpaired
    found = [
        f"{rows_of(rows.count)} {words} ({', '.join(rows.ids[:3])}{' …' if rows.count > 3 else ''})"
        for rows, words in (
            (unpaired.only_base, "only in the base"),
            (unpaired.only_new, "only in the new run"),
            (unpaired.changed_input, "with another input"),
        )
        if rows.count
    ]
    for name in ("evaluator", "version", "sandbox", "lock", "outputs"):
        if (change := getattr(unpaired, name)) is not None:
            what = {"version": "version of the evaluator"}.get(name, name)
            old, now = (", ".join(each) or "none" for each in (change.base, change.new))
            found.append(f"another {what} ({old} -> {now}) for {rows_of(change.rows)}")
    if unpaired.unchecked:
        found.append(f"{rows_of(unpaired.unchecked)} without a hash of their input")
    for info in (comparison.base, comparison.new):
        if info.state not in (None, "finished"):
            found.append(f"{info.name} is of a run that is {info.state}")
    return found


def with_rows(
    compared: ComparisonPlaces, sides: tuple[Side, Side], sources: tuple[Source, Source] | None = None
) -> Comparison:
    """Add the rows that got worse most, with the texts that are in the files."""

    old, new = sides[0].outputs[""].scores, sides[1].outputs[""].scores
    worst = [
        ChangedRow(base_score=old[at], new_score=new[place], difference=difference(old[at], new[place]), **both)
        for (at, place), both in zip(compared.worst, _rows(sides, sources, compared.worst), strict=True)
    ]
    return compared.comparison.model_copy(update={"worst": tuple(worst)})


def _rows(
    sides: tuple[Side, Side], sources: tuple[Source, Source] | None, pairs: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """The ids of these pairs, with the texts that are in the files."""

    def rows(number: int) -> list[Mapping[str, Any]]:
        side, places = sides[number], [pair[number] for pair in pairs]
        if sources is None:
            return [{"label": side.outputs[""].labels[at]} for at in places]
        found = read_rows(sources[number], {side.numbers[at]: ids[number][at] for at in places})
        return [found.get(side.numbers[at], {}) for at in places]

    ids = [list(side.ids) if pairs else [] for side in sides]
    return [_texts(ids[0][at], base, after) for (at, _), base, after in zip(pairs, rows(0), rows(1), strict=True)]


def _texts(id: str, base: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of RowTexts."""
    from runner.engine.scoring.diff import MOST, JsonDifferences, count_differences

    then, now = columns_of(base), columns_of(after)
    texts_of = [name for name in ("output", *now) if name in then and name in now and name not in _BESIDE]
    # A column that is the same on both sides says nothing of the change, unless it is what was scored.
    column = next((name for name in texts_of if then[name] != now[name]), "output" if "output" in texts_of else "")
    texts = ["", ""]
    reference = [] if now.get("reference") is None else [now["reference"]]
    differences = JsonDifferences()
    if column:
        values = [then[column], now[column]]
        differences = count_differences(values[1], values[0], MOST)
        texts = shown_apart([*values, *reference], _as_text)
    labels = safe_apart([_as_text(row.get("label")) for row in (base, after)])
    remarks = safe_apart([_as_text(row.get("explanation")) for row in (base, after)], 1000)
    return {
        "id": safe(id),
        "base_label": labels[0],
        "new_label": labels[1],
        "base_remark": remarks[0],
        "new_remark": remarks[1],
        "column": safe(column),
        "base_text": texts[0],
        "new_text": texts[1],
        "reference": (texts[2:] or [safe(_as_text(*reference or [""]), _TEXT)])[0],
        "input": safe(_as_text(now.get("input")), _TEXT),
        "differences": differences.first,
        "more_differences": differences.more,
    }


def _as_text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _configs(
    sources: tuple[Source, Source], sides: tuple[Side, Side], evaluator: Evaluator | None, direction: Direction | None
) -> dict[str, OutputConfig]:
    """The output configs, by name."""
    old, new = sides
    if evaluator is not None:
        found = dict(evaluator.configs)
    else:
        found = (
            sources[1].outputs
            or sources[0].outputs
            or _of_template(new)
            or outputs_of(new.directions or old.directions)
        )
    if direction is None:
        return found
    some = found | {name: Freeform() for name in new.outputs if name not in found}
    return {name: config.model_copy(update={"direction": direction}) for name, config in some.items()}


def _of_template(side: Side) -> dict[str, OutputConfig]:
    """The configs of the template that has scored a side, in the version that is here; none for any other script."""
    import templates
    from runner.inputs.evaluators.resolve import find_evaluator

    name = next(iter(side.evaluators), "")
    if name.replace("_", "-") in templates.names():
        for language in templates.languages(name):
            found = find_evaluator(name, language)
            if found.version in side.versions:
                return dict(found.outputs)
    return {}


MOST = 100
"""Rows of a page."""
FLIPS: tuple[Flip, ...] = get_args(Flip)
Pair = tuple[int, int]


class FlipPage(NamedTuple):
    """Which of the rows that flipped: those of one kind, or all; `first` are left out."""

    flip: Flip | None = None
    first: int = 0
    rows: int = 20

    def of(self, flips: Mapping[Flip, Sequence[Pair]]) -> list[tuple[Flip, Pair]]:
        """Return those of the page."""
        kinds = FLIPS if self.flip is None else (self.flip,)
        every = chain.from_iterable(((flip, pair) for pair in flips.get(flip, ())) for flip in kinds)
        return list(islice(every, self.first, self.first + min(self.rows, MOST)))

    def total(self, counts: Mapping[Flip, int]) -> int:
        """Return the number of rows of all pages."""
        return sum(counts.values()) if self.flip is None else counts.get(self.flip, 0)


def find_flips(compared: ComparisonPlaces, sides: tuple[Side, Side]) -> dict[Flip, list[Pair]]:
    """Return the pairs that flipped, by kind: those that changed most first, else in the order of the base."""
    base, new = sides
    a, b = base.outputs[""], new.outputs[""]
    sign = {"maximize": 1, "minimize": -1}.get(compared.comparison.direction, 0)
    found: dict[Flip, list[Pair]] = {flip: [] for flip in FLIPS}
    changes: dict[Pair, float] = {}
    for pair in compared.pairs:
        at, place = pair
        one, other = a.scores[at], b.scores[place]
        scored = [score == score for score in (one, other)]  # NaN is no score
        if base.outcomes[at] != new.outcomes[place] or scored[0] != scored[1]:
            found["outcome"].append(pair)
            continue
        change = difference(one, other) if scored[0] else 0.0
        if change:
            changes[pair] = abs(change)
            found["changed" if not sign else "better" if sign * change > 0 else "worse"].append(pair)
        elif a.labels[at] != b.labels[place]:
            found["label"].append(pair)
    for flip in ("worse", "changed", "better"):
        found[flip].sort(key=lambda pair: -changes[pair])
    return {flip: pairs for flip, pairs in found.items() if pairs}
