"""The editor in a browser: what a new user clicks, and that nothing that was typed is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import EVERY_WAY, browser, needs_browser, overflow, violations, watched
from tests.server.http.served import Served
from tests.server.page.test_journey import drop

__all__ = ["browser"]

pytestmark = [
    needs_browser,
    pytest.mark.rotating("the page in a browser", "page"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

ODD = "case no,user asked,bot says,should be\n" + "".join(
    f'{n},"What is {n} + {n}?","it is {2 * n + (n == 7)}",{2 * n}\n' for n in range(1, 41)
)
THREE = """\
def evaluate(output, reference):
    words = output.split()
    return float(words[-1] == reference)
"""
ENDLESS = "def evaluate(output):\n    n = 0\n    while True:\n        n += 1\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("state"))
    try:
        yield server
    finally:
        server.end()


def scored(page: Any, row: int = 1) -> None:
    page.get_by_label(f"Row {row}", exact=True).get_by_text("scored", exact=True).wait_for()


def typed(page: Any) -> Any:
    return page.evaluate("document.querySelector('textarea[name=source]').value")


def opened(page: Any, address: str) -> None:
    page.goto(address)
    page.locator(".cm-content").wait_for()
    scored(page)


def test_from_a_dropped_csv_to_the_worst_row_in_few_clicks_and_without_a_key(browser: Any, served: Served) -> None:
    clicks: list[str] = []

    with watched(browser, allowed=served.url) as page:

        def click(name: str, place: Any) -> None:
            clicks.append(name)
            place.click()

        page.goto(served.url)
        drop(page, ODD, "Odd Columns.csv")
        page.wait_for_url("**/datasets/odd-columns")
        drop(page, THREE, "Last Word.py")
        page.wait_for_url("**/evaluators/new**")
        scored(page, 5)
        chosen = {name: page.locator(f"select[name='map:{name}']").input_value() for name in ("output", "reference")}
        assert chosen == {"output": "bot says", "reference": "should be"}
        click("save", page.get_by_role("button", name="Save", exact=True))
        page.get_by_text("version 1", exact=True).wait_for()
        click("run", page.get_by_role("button", name="Run", exact=True))
        page.wait_for_url("**/runs/new**")
        assert "40 rows, about a second" in page.locator("#cost").inner_text()
        click("begin", page.get_by_role("button", name="Run all rows"))
        page.locator("#results").wait_for()
        click("worst row", page.locator("#results tr.result a").first)
        page.locator("#drawer").get_by_text("it is 15").first.wait_for()
        assert len(clicks) <= 6
        page.goto(f"{served.url}/evaluators/last-word?dataset=odd-columns")  # what was chosen is there again
        scored(page)
        assert page.locator("select[name='map:reference']").input_value() == "should be"
        page.wait_for_url("**mapping=**")
        words = "evalcell run last-word@1 store:odd-columns --map 'output=bot says' --map 'reference=should be'"
        assert page.locator("#command").inner_text() == words


def test_save_stays_in_place_and_what_was_typed_can_be_undone(browser: Any, served: Served) -> None:
    served.post("/v1/evaluators", json={"name": "in-place", "source": "def evaluate(output):\n    return 0.5\n"})
    with watched(browser, allowed=served.url) as page:
        opened(page, f"{served.url}/evaluators/in-place?dataset=demo")
        assert page.locator("#unsaved").is_hidden()
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("# more")
        page.locator("#unsaved").wait_for()
        assert page.title().startswith("• ")
        page.keyboard.press("Control+s")
        page.get_by_text("version 2", exact=True).wait_for()
        page.locator("#unsaved").wait_for(state="hidden")
        page.locator("#versions").get_by_role("link", name="2", exact=True).wait_for()
        assert page.evaluate("document.activeElement.matches('.cm-content')")
        page.keyboard.type("!")  # where the cursor was
        assert typed(page).endswith("# more!")
        page.keyboard.press("Control+z")
        page.keyboard.press("Control+z")
        assert "more" not in typed(page)
        page.locator("#unsaved").wait_for()
        served.post("/v1/evaluators", json={"name": "in-place", "source": "def evaluate(output):\n    return 0.75\n"})
        page.keyboard.type("# mine")
        page.keyboard.press("Control+s")
        page.get_by_text("was saved meanwhile").wait_for()
        assert page.locator("pre.diff .added").first.inner_text().strip().startswith("+    return 0.75")
        page.keyboard.press("Control+s")
        page.get_by_text("version 4", exact=True).wait_for()


def test_a_reload_keeps_a_draft_and_it_can_be_discarded(browser: Any, served: Served) -> None:
    served.post("/v1/evaluators", json={"name": "kept", "source": "def evaluate(output):\n    return 0.5\n"})
    with watched(browser, allowed=served.url) as page:
        opened(page, f"{served.url}/evaluators/kept?dataset=demo")
        page.locator(".cm-content").click()
        page.keyboard.press("Control+End")
        page.keyboard.type("# half a thought")
        page.reload()
        page.get_by_text("Your changes that were not saved are back.").wait_for()
        assert typed(page).endswith("# half a thought")
        assert page.locator("#unsaved").is_visible()
        page.get_by_role("button", name="Discard them").click()
        page.locator("#unsaved").wait_for(state="hidden")
        assert typed(page) == "def evaluate(output):\n    return 0.5\n"


def test_a_dropped_script_whose_name_is_there_asks(browser: Any, served: Served) -> None:
    served.post("/v1/evaluators", json={"name": "twice", "source": "def evaluate(output):\n    return 0.5\n"})
    changed = "def evaluate(output):\n    return 0.25\n"
    with watched(browser, allowed=served.url) as page:
        page.goto(served.url)
        drop(page, changed, "Twice.py")
        page.get_by_role("button", name="Another evaluator").click()
        page.wait_for_url("**/evaluators/new**")
        assert page.locator("input[name=name]").input_value() == "twice-2"
        drop(page, changed, "Twice.py")
        page.get_by_role("button", name="A new version of it").click()
        page.wait_for_url("**/evaluators/twice**")
        scored(page)
        assert typed(page) == changed
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("version 2", exact=True).wait_for()


def test_a_script_that_takes_long_is_stopped(browser: Any, served: Served) -> None:
    served.post("/v1/evaluators", json={"name": "loops", "source": ENDLESS})
    with watched(browser, allowed=served.url) as page:
        page.goto(f"{served.url}/evaluators/loops?dataset=demo")
        page.get_by_text("scoring for 1 s").wait_for()
        page.get_by_role("button", name="Stop").click()
        assert page.locator("#try-status").inner_text() == "stopped"
        assert page.locator("#tried").get_attribute("aria-busy") == "false"
        page.locator("input[name=timeout]").evaluate("field => (field.value = '0.2')")
        page.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        page.locator(".cm-lint-marker-error").wait_for()
        marked = page.locator(".cm-lintRange-error").first
        assert marked.evaluate("each => each.closest('.cm-line').textContent").startswith("def evaluate")


def test_a_template_begins_with_its_header_folded(browser: Any, served: Served) -> None:
    with watched(browser, allowed=served.url) as page:
        opened(page, f"{served.url}/evaluators/new?template=json-similarity")
        assert page.locator(".cm-foldPlaceholder").count() == 1
        page.locator("label[for=side-header]").click()
        assert page.locator("select[name=h_kind]").is_visible()
        assert page.locator("select[name=dataset]").is_hidden()


def test_templates_are_found_by_a_word(browser: Any, served: Served) -> None:
    with watched(browser, allowed=served.url) as page:
        page.goto(served.url)
        tiles = page.locator(".templates li:visible")
        assert tiles.count() == 6
        page.get_by_label("Search templates").fill("bleu")
        page.get_by_role("link", name="bleu").wait_for()
        assert 1 <= tiles.count() < 6
        page.get_by_label("Search templates").fill("")
        assert tiles.count() == 6


def test_a_run_that_goes_on_moves_and_can_be_stopped(browser: Any, served: Served) -> None:
    slow = "import time\n\ndef evaluate(output):\n    time.sleep(0.05)\n    return len(output) % 7 / 7\n"
    served.post("/v1/evaluators", json={"name": "moves", "source": slow})
    content = "output\n" + "".join(f"{'x' * (n % 30 + 1)}\n" for n in range(2000))
    served.post("/v1/datasets?name=long.csv", content=content.encode())
    run = served.post("/v1/runs", json={"evaluator": "moves", "dataset": "long"})["id"]
    with watched(browser, allowed=served.url) as page:
        page.goto(f"{served.url}/runs/{run}")
        page.get_by_text("mean so far").wait_for()
        page.locator("svg.histogram").wait_for()
        page.get_by_text(" left ·").wait_for()  # of a CSV file, too
        assert page.locator("table.dense tbody tr").count() == 8
        assert (overflow(page), violations(page)) == (0, [])
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("cancelled", exact=True).wait_for()


@pytest.mark.parametrize("way", EVERY_WAY)
def test_anybody_can_read_each_tab(browser: Any, served: Served, way: str) -> None:
    served.post("/v1/datasets?name=odd-names.csv", content=ODD.encode())
    served.post("/v1/evaluators", json={"name": "asks", "source": "def evaluate(zeal, most=3):\n    return 1\n"})
    with watched(browser, way, served.url) as page:
        page.goto(f"{served.url}/evaluators/asks?dataset=odd-names")
        page.get_by_text("Which column is it?").wait_for()
        for side in (*(("script",) if "phone" in way else ()), "rows", "header", "limits", "sandbox"):
            page.locator(f"label[for=side-{side}]").click()
            assert page.locator(".cm-content").is_visible() == (side == "script" or "phone" not in way)
            for part in page.locator("details").all():
                part.evaluate("part => part.open = true")
            assert (side, overflow(page), violations(page)) == (side, 0, [])
        page.goto(f"{served.url}/runs/new?evaluator=asks&dataset=odd-names")
        page.locator("select[name='map:zeal']").select_option("bot says")
        page.locator("article.tried").first.wait_for()
        page.wait_for_url("**mapping=zeal**")
        assert (overflow(page), violations(page)) == (0, [])
