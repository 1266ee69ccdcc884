"""A report as HTML: what it shows, and that data can neither break out of it nor make it large."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from runner import Report, SandboxConfig, evaluate

ONE = SandboxConfig(jobs=1)
HEADER = """\
# /// script
# [tool.evalcell]
# output = {kind = "continuous", direction = "maximize", lower_bound = 0, upper_bound = 1, threshold = 0.5}
# ///
"""
SCRIPT = """\
def evaluate(output, reference=None):
    if output == "boom":
        raise ValueError(reference)
    if output is None:
        return {"score": None, "label": "empty"}
    return {"score": output, "label": str(reference), "explanation": "<i>why</i>"}
"""
EVIL = "<img src=x onerror=alert(1)>\"'</td></table><script>$x$</script>\u202e\x1b[2J"


class Balanced(HTMLParser):
    """Every tag is closed in its turn; collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(report: Report) -> Balanced:
    parser = Balanced()
    parser.feed(report._repr_html_())
    parser.close()
    assert not parser.open
    return parser


def run(folder: Path, rows: list[dict[str, Any]], header: str = HEADER, **more: Any) -> Report:
    path = folder / "scored.py"
    path.write_text(header + SCRIPT)
    return evaluate(path, rows, sandbox=ONE, **more)


def test_the_summary_the_scores_the_labels_and_the_worst_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"output": n / 20, "reference": "ab"[n % 2]} for n in range(20)]
    rows += [{"output": "boom", "reference": "bad input"}, {"output": None}]
    report = run(tmp_path, rows, gates=["mean<0.9"])
    found = page(report)
    text = " ".join(" ".join(found.text).split())
    assert text.startswith("scored version ")
    for words in (
        "22 rows in ",
        "20 scored, 1 abstained, 1 failed",
        "1 failed of 22 rows: in neither the mean",
        "raised 1, as in row 21: ValueError: bad input",
        "gate 'mean<0.9': could not be judged",
        "mean 0.475 , median 0.475 , min 0 , max 0.95 , passed 50.0% (10, threshold 0.5) (of 20)",
        "The worst rows row outcome score label output reference explanation or error 1 missed 0 a 0.0 a <i>why</i>",
    ):
        assert words in text, (words, text)
    heights = [float(h) for style in found.styles for h in re.findall(r"flex:1;height:(\d+)px", style)]
    assert len(heights) == 20
    assert set(heights) == {60}


def test_data_stay_data(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": EVIL, "output": 0.1, "reference": EVIL}, {"output": "boom", "reference": EVIL}]
    found = page(run(tmp_path, rows))
    assert found.tags <= {"div", "b", "small", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.attributes <= {"style", "class", "title"}
    assert "<img src=x onerror=alert(1)>" in "".join(found.text)
    assert not {"\u202e", "\x1b"} & set("".join(found.text))


def test_the_page_loads_nothing_and_fits_a_dark_theme(tmp_path: Path) -> None:
    html = run(tmp_path, [{"output": n / 9, "reference": "x"} for n in range(10)])._repr_html_()
    assert not re.search(r"<script|<style|<link|https?:|url\(|@import|\bsrc=|\bhref=", html)
    # Formulas are left to others.
    assert html.startswith('<div class="tex2jax_ignore mathjax_ignore"')
    for style in re.findall(r'style="([^"]*)"', html):
        assert not re.search(r"(?<!-)\bcolor:(#000|#fff|black|white)|background:(#fff|white|black|#000)", style)


def test_a_page_is_small_whatever_the_data(tmp_path: Path) -> None:
    rows = [{"id": f"{n:09}" * 90, "output": n / 3000, "reference": f"label {n} " + "<" * 5_000} for n in range(300)]
    report = run(tmp_path, rows, worst=50)
    assert len(report._repr_html_()) < 300_000
    assert "others" in "".join(page(report).text)


def test_without_a_direction_the_line_to_add_is_named(tmp_path: Path) -> None:
    text = "".join(page(run(tmp_path, [{"output": 1, "reference": "a"}], header="")).text)
    assert "The lowest scores (assumed: higher is better)" in text
    assert 'direction = "maximize" or "minimize" in the script\'s output config' in text


@pytest.mark.parametrize("rows", [[], [{"output": "boom"}], [{"output": None}], [{"output": 1}]])
def test_few_rows(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    report = run(tmp_path, rows)
    text = "".join(page(report).text)
    assert f"{len(rows)} rows" in text
    assert ("no row has a score" in text) == (report.summary.count == 0)
    assert len(repr(report)) < 120


def test_several_outputs_each_have_their_figures(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "# /// script\n# [tool.evalcell.outputs]\n# size = {kind = 'continuous'}\n"
        "# '<b>' = {kind = 'freeform'}\n# ///\n"
        "def evaluate(output):\n    return {'size': len(output), '<b>': output}\n"
    )
    text = "".join(page(evaluate(path, [{"output": "abc"}, {"output": "x"}], sandbox=ONE)).text)
    assert "size mean 2" in text
    assert "<b> no row has a score" in text
