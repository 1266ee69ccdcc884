"""Takes pictures of the page: one for the README, and with --all of each page, light, dark and narrow, to look at."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser import CHROMIUM, WAYS
from tests.server.http.served import Served


def main(folder: Path, every: bool) -> None:
    """Take them into `folder`."""
    if CHROMIUM is None:
        sys.exit("there is no Chromium; run: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evalcell-picture-") as state, sync_playwright() as playwright:
        served = Served(Path(state))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            pages = _pages(served)
            for way, (width, scheme) in WAYS.items():
                context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
                page = context.new_page()
                for name, path in pages.items() if every else ():
                    _open(page, served.url + path)
                    page.screenshot(path=folder / f"{name}-{way.replace(' ', '-')}.png", full_page="phone" in way)
                if way == "light":
                    _open(page, served.url + pages["evaluator"])
                    page.screenshot(path=folder / "page-light.png")
                context.close()
        finally:
            browser.close()
            served.end()


def _pages(served: Served) -> dict[str, str]:
    runs = []
    for source in _versions():
        served.post("/v1/evaluators", json={"name": "same-calls", "source": source})
        runs.append(str(served.post("/v1/runs", json={"evaluator": "same-calls", "dataset": "demo"})["id"]))
    served.post("/v1/evaluators", json={"name": "asserted", "source": _FOREIGN})
    runs.append(str(served.post("/v1/runs", json={"evaluator": "asserted", "dataset": "demo"})["id"]))
    for run in runs:
        served.wait(run)
    return {
        "home": "/",
        "evaluator": "/evaluators/same-calls?dataset=demo",
        "versions": "/evaluators/same-calls/diff?old=1&new=2&dataset=demo",
        "dataset": "/datasets/demo",
        "new-run": "/runs/new?evaluator=same-calls&dataset=demo",
        "runs": "/runs",
        "result": f"/runs/{runs[1]}",
        "row": f"/runs/{runs[1]}/rows/3",
        "failed-rows": f"/runs/{runs[2]}",
        "another-tool": "/evaluators/asserted?dataset=demo",
        "compare": f"/compare?base={runs[0]}&new={runs[1]}",
        "missing": "/runs/nothing",
        "login": "/login",
    }


_FOREIGN = """\
def get_assert(output, context):
    calls = output["tool_calls"]
    print("\\n".join(f"call {n}: {call}" for n, call in enumerate(calls, 1)))
    first = calls[0]["name"]
    return {"pass": len(calls) == 1, "score": 1 / len(calls), "reason": f"begins with {first}"}
"""


def _versions() -> tuple[str, str]:
    source = '''\
# /// script
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# threshold = 0.8
# ///
"""Share of the expected tool calls that were made, with their arguments."""


def evaluate(output, reference):
    wanted = reference["tool_calls"]
    made = output["tool_calls"]
    print(f"{len(made)} made, {len(wanted)} wanted")
    hits = sum(call in made for call in wanted)
    score = hits / max(1, len(wanted))
    return {
        "label": "all" if score == 1 else "some" if score else "none",
        "score": score,
        "explanation": f"{hits} of {len(wanted)} calls are as expected",
    }
'''
    looser = "hits = sum(call in made for call in wanted)"
    return source.replace(looser, 'hits = sum(call["name"] in str(made) for call in wanted)'), source


def _open(page: Any, address: str) -> None:
    page.goto(address)
    if page.locator("textarea[data-editor]").count():
        page.locator(".tried").first.wait_for()
    if page.locator("#dataset-tried").count():
        page.locator("#dataset-tried article.tried").first.wait_for()
    page.wait_for_load_state("networkidle")  # what a page asks for after it was loaded, as how fast a sandbox is
    page.wait_for_timeout(300)


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word != "--all"]
    main(Path(names[0]), "--all" in sys.argv[1:])
