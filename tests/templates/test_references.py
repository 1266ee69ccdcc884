"""Several references of a row: each template takes them as the table of docs/templates.md says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import templates
from docs.catalogue import BEST, SEVERAL
from tests.templates.scoring import PLACES, Place, score

WITH: dict[str, Mapping[str, Any]] = {
    "pairwise": {"other": "18"},
    "regex-match": {"pattern": "(.*)", "group": 1},
}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1] + place[0])
@pytest.mark.parametrize("name", [name for name, how in SEVERAL.items() if how == BEST])
def test_the_best_of_several_counts(name: str, place: Place) -> None:
    alone = [{"output": "42", "reference": one} for one in ("999", "42")]
    both = [{"output": "42", "reference": list(pair)} for pair in (("999", "42"), ("42", None, "999"), ("999", "999"))]
    results = score(name, place, [*alone, *both], **WITH.get(name, {}))
    worst, best, *found = [(one.outcome, one.label, one.score) for one in results]
    assert found == [best, best, worst]
    assert best != worst


def test_it_is_said_of_each_template() -> None:
    assert SEVERAL.keys() == set(templates.names())
