"""The HTML report in a real browser: no error, nothing loaded, search and sort, and what axe-core finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.results.notebook.page import report_html
from runner.results.reports.content import Part, RunContent
from runner.results.reports.html.page import html_report
from tests.browser import WAYS, browser, needs_browser, overflow, violations, watched
from tests.results.report_contents import EVIL, content, failed, scored
from tests.results.test_report_comparison import comparison

__all__ = ["browser"]

pytestmark = [needs_browser, pytest.mark.rotating("reports in a browser", "reports"), pytest.mark.slow]


@contextmanager
def shown(browser: Any, path: Path, way: str = "light") -> Iterator[Any]:
    """The page. It must say nothing on the console, and ask for nothing but its own file."""
    with watched(browser, way, path.as_uri()) as page:
        page.goto(path.as_uri())
        yield page


def runs() -> list[Part]:
    rows = [scored(n, n / 300, label="ab"[n % 2], explanation="why") for n in range(1, 301)]
    rows += [failed(n, EVIL, id=f"{n} {EVIL}") for n in range(301, 311)]
    given = {"output": {"a": EVIL, "b": 1}, "reference": {"a": "x", "b": 2}}
    first = content(rows, require=["mean>=0.9", "rows>1"], max_failed="20", shown=200, notes=[EVIL])
    return [
        first,
        comparison(EVIL, tolerance=0.2),
        comparison(),
        content(rows[-20:], given=given, name=EVIL, source=EVIL),
        content([], name="empty"),
    ]


@pytest.mark.parametrize("way", WAYS)
def test_anybody_can_read_it(browser: Any, tmp_path: Path, way: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_report(runs()), "utf-8")
    with shown(browser, path, way) as page:
        assert overflow(page) == 0
        for row in page.locator("details.row:not([open]):not([hidden])").all()[:5]:
            row.locator("summary").first.click()
        assert violations(page) == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 200) == ("dark" in way)


def test_rows_are_found_filtered_sorted_and_paged(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_report(runs()[:1]), "utf-8")
    with shown(browser, path) as page:
        status, lines = page.locator("[role=status]"), page.locator(".all tbody tr")
        cards = page.locator("details.row:not([hidden])")
        assert status.text_content() == "310 of 310 rows, 200 of 200 in full"
        assert (lines.count(), cards.count()) == (50, 20)
        page.get_by_role("button", name="Show more").click()
        assert cards.count() == 70
        page.get_by_role("button", name="Next").click()
        assert page.locator(".pages span").text_content() == "51 to 100 of 310"
        page.get_by_role("button", name="score").click()
        assert lines.first.locator("td").all_text_contents()[:2] == ["r1", "missed"]
        page.get_by_role("button", name="score").click()
        assert lines.first.locator("td").all_text_contents()[:2] == ["r300", "passed"]
        assert page.locator("th[aria-sort=descending]").text_content() == "score"
        page.get_by_label("Outcome").select_option("failed")
        assert status.text_content() == "10 of 310 rows, 10 of 200 in full"
        page.get_by_label("Search").fill("alert(1) 305")
        assert (lines.count(), cards.count()) == (1, 1)
        page.get_by_label("Outcome").select_option("")
        page.get_by_label("Search").fill("nowhere")
        assert (lines.count(), cards.count()) == (0, 0)
        assert page.locator(".pages span").text_content() == "no row"


def test_ten_thousand_rows_open_without_an_error(browser: Any, tmp_path: Path) -> None:
    rows = [scored(n, n / 10_000, id=f"case-{n:05}", label="ab"[n % 2], explanation="word " * 6) for n in range(9_999)]
    path = tmp_path / "report.html"
    huge = {"output": "<" * 10_000_000, "reference": "\u202e\x00" * 1000}
    run = content([*rows, failed(9_999, "x" * 10_000_000)], given=huge, shown=200)
    path.write_text(html_report([run]), "utf-8")
    assert path.stat().st_size <= 1_000_000
    with shown(browser, path) as page:
        page.get_by_label("Search").fill("case-00777")
        assert page.locator("[role=status]").text_content().startswith("1 of 10,000 rows")


def test_a_notebook_shows_its_report_in_the_dark_too(browser: Any, tmp_path: Path) -> None:
    run = runs()[0]
    assert isinstance(run, RunContent)
    path = tmp_path / "cell.html"
    style = "<style>body{background:#111;color:#eee}</style>"
    body = report_html(run.summary, run.shown)
    path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title>{style}<main>{body}</main>')
    with shown(browser, path, "dark") as page:
        assert [found for found in violations(page) if "contrast" not in found and "heading" not in found] == []
