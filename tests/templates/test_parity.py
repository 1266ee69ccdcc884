"""A template gives the same results in every sandbox and language that it can run in."""

from __future__ import annotations

from itertools import groupby

import pytest

from runner.cases import for_language
from runner.parity import Comparison, Side
from runner.types import InputMapping
from tests.templates.ways import Opened, Way, ways

EVERY = [list(group) for _, group in groupby(sorted(ways()), lambda way: way.name)]


@pytest.mark.parametrize("every", EVERY, ids=lambda every: str(every[0].name))
def test_all_ways_agree_on_the_worked_examples(every: list[Way], opened: Opened) -> None:
    found = [(way, opened.sandbox(way)) for way in every]
    able = [way for way, sandbox in found if not isinstance(sandbox, str)]
    if len(able) < 2:
        pytest.skip("; ".join(f"{way}: {why}" for way, why in found if isinstance(why, str)))
    cases = able[0].cases
    for way in able:
        cases = for_language(cases, way.language)
    sides = [Side(way.evaluator, sandbox, InputMapping()) for way, sandbox in found if not isinstance(sandbox, str)]
    comparison = Comparison(sides)
    for row in zip(*(opened.results(way, cases) for way in able), strict=True):
        comparison.add(row)
    report = comparison.report()
    assert (report.rows, report.same) == (len(cases), len(cases)), report.differences
    assert report.rows > report.failed


def test_the_sandboxes_that_come_with_evalcell_are_among_them() -> None:
    assert {way.backend for way in ways()} >= {"wasm", "process"}
