"""Text in a `.csv` results file: no spreadsheet runs it, no terminal obeys it; the documented rule gives it back."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from unicodedata import category

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.results.output.cells import cell

RULES = (Path(__file__).parents[2] / "docs" / "rules.md").read_text("utf-8")
RUN = set("=+-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u207a\u207b\u207c\u208a\u208b\u208c\u2212")
ODD = "=+-@\uff1d\uff0b\uff0d\uff20\u2212'\"\\,;\n\r\t\0\v\x1b\x7f\x85\x9b\ufeff\u200b\u2028 1e.a"
TEXTS = st.text(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"]), max_size=12)


def documented() -> Callable[[str], str]:
    """The function that the rules give to readers."""
    (code,) = re.findall(r"```python\n(import json\n.*?)```", RULES, re.DOTALL)
    found: dict[str, Callable[[str], str]] = {}
    exec(code, found)
    return found["original"]


ORIGINAL = documented()


def as_read(texts: list[str]) -> list[str]:
    (cells,) = csv.reader(StringIO(",".join(map(cell, texts)) + "\n", newline=""), strict=True)
    return cells


@given(st.lists(TEXTS, min_size=2, max_size=4))
@settings(deadline=None)
def test_the_documented_rule_gives_any_text_again(texts: list[str]) -> None:
    assert [ORIGINAL(c) for c in as_read(texts)] == texts


@given(TEXTS)
@example("\n=1+1")
@example("\r=1+1")
@example("\v=1+1")
@example("\0=1+1")
@example("\ufeff=1+1")
@example("\u200b\t =1+1")
@example("\uff1d1+1")
@example("\U00018d09=")
@example("\ue000=")
@example("-1.2.3")
@settings(deadline=None)
def test_no_cell_begins_with_what_a_spreadsheet_takes_for_a_formula(text: str) -> None:
    found = as_read([text, ""])[0]
    seen = next((c for c in found if c.isprintable() and c != " "), "")
    if seen in RUN:  # then it is a plain number
        assert re.fullmatch("[-+0-9.eE]+", found)
        float(found)
    assert category(found[:1] or "a") not in ("Cc", "Cf", "Zl", "Zp")


@given(TEXTS)
@settings(deadline=None)
def test_no_control_character_reaches_the_file(text: str) -> None:
    assert not re.search("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]", cell(text))


@given(TEXTS)
@example("1;=cmd|' /C calc'!A0")
@example('a;"=1"')
@example('a|" "=1')
@example("a\t=1")
@example("a,b\n=1")
@example("a;\uff1d1")
@settings(deadline=None)
def test_no_part_is_a_formula_where_a_spreadsheet_splits_elsewhere(text: str) -> None:
    """Within a line, as in `id,"1;=cmd"`, a quote is one of many characters."""
    for part in re.split("[;|\t\r\n]", cell(text))[1:]:
        seen = next((c for c in part if c.isprintable() and c not in ' "'), "")
        assert seen not in RUN or re.fullmatch("[-+0-9.eE]+", part.replace('"', ""))


def test_what_differs_differs_in_the_file() -> None:
    texts = ["=1+1", "'=1+1", "''=1+1", "=1\\u002b1", "'=1\\u002b1", "a\x1b", "a\\u001b", "'a\\u001b"]
    assert len({*map(cell, texts)}) == len(texts)


def test_numbers_and_nothing_are_written_as_they_are() -> None:
    assert [cell(v) for v in (-0.5, 3, None, "-0.5", "+1.5e3", "-.5")] == ["-0.5", "3", "", "-0.5", "+1.5e3", "-.5"]
