"""Markdown reports: what they tell, and that data can neither break out of them nor call anybody."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from runner.results.reports.markdown import LIMIT, markdown_report
from runner.results.reports.step_summary import MOST, append_step_summary
from tests.results.report_contents import EVIL, content, failed, scored
from tests.results.test_notebook_page import Balanced

TAGS = {"h3", "p", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary", "b"}


def parsed(text: str) -> Balanced:
    """As a site shows it: GitHub's Markdown, with the HTML in it."""
    page = Balanced()
    page.feed(MarkdownIt("gfm-like", {"linkify": False}).render(text))
    page.close()
    assert not page.open
    return page


def test_it_tells_the_verdict_the_figures_the_gates_and_the_worst_rows() -> None:
    rows = [scored(1), scored(2, 0.25, label="bad"), failed(3)]
    text = markdown_report([content(rows, require=["rows>=1", "rows>9"], max_failed="2")])
    assert text.startswith("<!-- evalcell:same -->\n")
    shown = " ".join(" ".join(parsed(text).text).split())
    for words in (
        "❌ same : a gate failed",
        "3 rows of data.jsonl in 1.5 s: 2 scored, 1 failed",
        "mean median min max of passed 0.625 0.625 0.25 1 2 50.0% (1, threshold 0.5)",
        "max-failed 2 ✅ passed 1",
        "rows>9 ❌ failed is not met: the value is 3",
        "raised 1, as in row r3: ValueError: no",
        "The worst rows (3) row r2 · missed · score 0.25",
        "row r3 · failed: raised output reference a b ValueError: no",
    ):
        assert words in shown, (words, shown)


@pytest.mark.parametrize(
    ("more", "head"),
    [
        ({"require": ["mean>0"]}, "✅ same : passed"),
        ({}, "✅ same : done"),
        ({"state": "interrupted"}, "⚠️ same : interrupted"),
        ({"state": "failed", "error": "no disk"}, "⚠️ same : failed"),
    ],
)
def test_the_heading_says_how_it_ended(more: dict[str, Any], head: str) -> None:
    assert head in " ".join("".join(parsed(markdown_report([content([scored(1)], **more)])).text).split()[:4]).replace(
        "same:", "same :"
    )


def test_data_stay_data() -> None:
    rows = [failed(1, EVIL, id=EVIL), scored(2, 0, id=EVIL, label=EVIL, explanation=EVIL)]
    run = content(rows, require=["label:" + "x" * 3 + "<=1"], given={EVIL: EVIL, "b": EVIL}, name=EVIL, source=EVIL)
    run_json = content(rows, given={"output": {EVIL: EVIL}, "reference": {EVIL: 1}}, error=EVIL, state="failed")
    text = markdown_report([run, run_json])
    page = parsed(text)
    assert page.tags <= TAGS
    assert page.attributes <= {"colspan"}
    shown = "".join(page.text)
    assert "<script>alert(1)</script>" in shown
    assert not {"\u202e", "\u2066", "\x00", "\x1b", "\ud800"} & set(text)
    # Nobody is called, and nothing is linked: neither as written nor as shown.
    for each in (text, shown):
        assert not re.search(r"@[A-Za-z0-9]", each)
    # All of it is within tags in which sites look for neither addresses nor numbers.
    outside = re.sub(r"<code>.*?</code>", "", text)
    assert not re.search(r"GH-1|#1(?!\d)|a\.example", outside)
    assert re.fullmatch(r"<!-- evalcell:[A-Za-z0-9._+-]+ -->", text.partition("\n")[0])
    assert "--" not in text.partition("\n")[0][4:-3]


def test_it_fits_a_comment_whatever_the_data() -> None:
    runs = [
        content(
            [failed(n, "😀<" * 900, id="&" * 400 + str(n)) for n in range(60)],
            given={"output": "😀" * 5000, "reference": "<" * 5000},
            require=[f"label:{'|' * 90}{n}<=1" for n in range(300)],
        )
        for _ in range(3)
    ]
    for some in (runs[:1], runs):
        text = markdown_report(some)
        assert len(text.encode("utf-16-le")) // 2 <= LIMIT
        assert len(text) > LIMIT / 3
        assert text.count("<details>") == text.count("</details>") == len(some)
        assert "rows more would make this too long" in text
        assert parsed(text).tags <= TAGS


def test_a_step_shows_it_after_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "step.md"
    file.write_text("before\n")
    assert append_step_summary(str(file), "# \ud800 report") is None
    assert file.read_text() == "before\n# \ufffd report\n"
    file.write_bytes(b"x" * (MOST - 3))
    assert "1 MB" in str(append_step_summary(str(file), "abc"))
    assert file.stat().st_size == MOST - 3
