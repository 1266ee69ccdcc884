"""An evaluator of several files on the page, in a browser: dropped as files, a folder or a zip, changed by its tabs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import read_evaluator
from tests.browser import browser, needs_browser, overflow, violations, watched
from tests.server.http.live import Live, live
from tests.several import PYTHON, TYPESCRIPT, Several, both

__all__ = ["browser"]

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("state")) as opened:
        yield opened


def laid(several: Several, folder: Path) -> Path:
    """The evaluator in a folder, beside what does not belong to it."""
    several.lay(folder)
    more = {"README.md": "# Read me", ".git/config": "", "image.png": "\ud800", "rows.jsonl": "{}\n"}
    for name, text in more.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder


def drop(page: Any, *paths: Path) -> None:
    """Drop files or a folder of this machine, as a person does."""
    client = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        client.send("Input.dispatchDragEvent", {"type": kind, "x": 200, "y": 300, "data": data})


def tab(page: Any, name: str) -> Any:
    return page.locator("[data-tabs]").get_by_role("button", name=name, exact=True)


def typed(page: Any, text: str) -> None:
    """Write it in place of what is in the editor."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def save(page: Any, number: int) -> None:
    with page.expect_navigation():
        page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text(f"version {number}", exact=True).wait_for()


@both
def test_a_folder_is_dropped_kept_and_changed_by_its_tabs(
    browser: Any, server: Live, tmp_path: Path, several: Several
) -> None:
    folder = laid(several, tmp_path / f"dropped-{several.language}")
    (helper, low) = several.files
    with watched(browser, allowed=server.url) as page, server.client() as client:
        page.goto(server.url)
        drop(page, folder)
        page.wait_for_url("**/evaluators/new?draft=1")
        assert page.locator("h1").inner_text() == folder.name
        save(page, 1)
        kept = client.get(f"/v1/evaluators/{folder.name}").json()
        assert (kept["files"], kept["version"]) == (several.files, read_evaluator(folder).version)
        assert (violations(page), overflow(page)) == ([], 0)

        tab(page, helper).click()
        assert page.locator(".cm-content").inner_text().strip() == several.files[helper].strip()
        typed(page, several.files[helper].replace("low", "Low", 1))
        tab(page, "script").click()
        assert several.source.splitlines()[0] in page.locator(".cm-content").inner_text()
        save(page, 2)
        changed = client.get(f"/v1/evaluators/{folder.name}").json()
        assert changed["files"] == several.files | {helper: several.files[helper].replace("low", "Low", 1)}

        page.goto(f"{server.url}/evaluators/{folder.name}@1")
        page.get_by_role("button", name="Add a file").click()
        page.get_by_label("Path of the new file").fill("words/all.txt")
        page.keyboard.press("Enter")
        typed(page, "yes\nno\n")
        tab(page, helper).click()
        page.get_by_role("button", name=f"Take {helper} out").click()
        if several.language == "typescript":  # what is imported must be there
            assert page.locator("#tried").get_by_text(helper).count() or page.wait_for_selector("#tried .problem")
            page.get_by_role("button", name="Add a file").click()
            page.get_by_label("Path of the new file").fill(helper)
            page.keyboard.press("Enter")
            typed(page, several.files[helper])
        save(page, 3)
        files = client.get(f"/v1/evaluators/{folder.name}").json()["files"]
        expected = {low: several.files[low], "words/all.txt": "yes\nno\n"}
        assert files == expected | ({helper: several.files[helper]} if several.language == "typescript" else {})


def test_several_files_and_a_zip_are_dropped(browser: Any, server: Live, tmp_path: Path) -> None:
    flat = Several("python", "polite.py", PYTHON.source, {"helper.py": "norm = str.lower\n"}, PYTHON.whole)
    folder = laid(flat, tmp_path / "flat")
    packed = tmp_path / "zipped-ts.zip"
    with zipfile.ZipFile(packed, "w") as made:
        for name, text in {TYPESCRIPT.main: TYPESCRIPT.source, **TYPESCRIPT.files}.items():
            made.writestr(name, text)
    with watched(browser, allowed=server.url) as page, server.client() as client:
        page.goto(server.url)
        drop(page, folder / "polite.py", folder / "helper.py", folder / "README.md")
        page.wait_for_url("**/evaluators/new?draft=1")
        save(page, 1)
        kept = client.get("/v1/evaluators/polite").json()
        assert (kept["files"], kept["version"]) == (flat.files, read_evaluator(folder / "polite.py").version)

        page.goto(server.url)
        drop(page, packed)
        page.wait_for_url("**/evaluators/new?draft=1")
        assert page.locator("input[name=name]").input_value() == "zipped-ts"
        save(page, 1)
        assert client.get("/v1/evaluators/zipped-ts").json()["files"] == TYPESCRIPT.files


def test_what_is_no_evaluator_is_refused_with_what_to_do(server: Live) -> None:
    asked = {"accept": "text/html", "x-evalcell": "1"}
    with server.client(headers=asked) as client:
        for files, why in (
            ({"helper.py": "x = 1\n", "README.md": ""}, "give the script this name"),
            (dict.fromkeys(("a.py", "b.py"), "def evaluate(output): return 1\n"), "`a.py`, `b.py` all define"),
            ({"evaluator.py": PYTHON.source, "../helper.py": ""}, "is no name of a file"),
        ):
            refused = client.post("/evaluators/unpack", json=files)
            assert (refused.status_code, why in refused.json()["detail"]) == (422, True), refused.text
        broken = client.post("/evaluators/unpack", content=b"PK", headers={"content-type": "application/zip"})
        assert (broken.status_code, "the zip cannot be read" in broken.text) == (422, True)
        large = client.post("/evaluators/unpack", json={"evaluator.py": PYTHON.source, "a.txt": "x" * (3 << 20)})
        assert (large.status_code, "bytes in them" in large.text) == (422, True)
