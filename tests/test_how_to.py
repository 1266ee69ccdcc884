"""Pages whose Python needs pandas, or a script and a dataset that are there: it is run from its top to its end."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
SAME = "def evaluate(output, reference):\n    return float(output == reference)\n"


def blocks(page: Path, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [text for named, text in found if named == language]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the script and the dataset that the pages name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "same.py").write_text(SAME)
    (tmp_path / "data.jsonl").write_text('{"output": "4", "reference": "4"}\n{"output": "five", "reference": "5"}\n')
    return tmp_path


def run(page: str) -> None:
    """Run the page's Python as cells of a notebook, whose source is known."""
    names: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(PAGES / page, "python")):
        file = f"{page}, block {number}"
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), names)


PRINTED = {
    "functions.md": ["1.0"],
    "notebooks.md": [],
    "rewards.md": ["[1.0, 0.0]", "[1.0]"],
    "data-frames.md": [
        "0.5",
        "{'large': 1.0, 'small': 0.0}",
        'pandas\'s Series is one column; name it: data.to_frame("output")',
    ],
}
"""What the Python of a page prints. test_pages.py says who runs each of the pages."""


@pytest.mark.parametrize("page", PRINTED)
def test_the_python_of_a_page_prints_what_it_says(page: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    run(page)
    assert capsys.readouterr().out.splitlines() == PRINTED[page]
