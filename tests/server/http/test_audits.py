"""An audit over HTTP, on the page, and of an agent."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.server.http.live import live
from tests.server.http.test_http import problem

GRADER = """\
def evaluate(output, reference):
    if not output:
        return 1.0
    return float(output.strip() == reference)
"""
ROWS = [{"id": f"r{n}", "output": f"a{n}", "reference": f"a{n}", "ok": "yes"} for n in range(6)]
EXAMPLES = [{"id": "same", "output": "a", "reference": "a", "expected": {"score": 1}}]


def test_an_audit_over_http_and_on_the_page(tmp_path: Path) -> None:
    with live(tmp_path) as server, httpx.Client(base_url=server.url, timeout=120) as client:
        asked = {"source": GRADER, "rows": ROWS, "examples": EXAMPLES, "labels": "ok", "require": ["killed>=0.99"]}
        found = client.post("/v1/audit", json=asked).json()
        assert "wrong.empty" in {check["id"] for check in found["checks"] if check["status"] == "found"}
        assert [gate["verdict"] for gate in found["gates"]] == ["failed"]
        assert any(gap["change"] == ".strip() removed" for gap in found["mutants"]["gaps"])
        assert found["people"]["labelled"] == 6
        for wrong, words in (
            ({"require": ["killed=>1"]}, "write 'killed>=1'"),
            ({"labels": "nobody"}, "has no `nobody`"),
            ({"examples": [{"output": "a"}]}, "has no `expected`"),
            ({"rows": None}, "name either `rows` or a `dataset`"),
        ):
            told = client.post("/v1/audit", json=asked | wrong)
            assert told.status_code == 422
            assert words in told.json()["detail"]
        assert problem(client.post("/v1/audit", json={**asked, "sample": 1}), 422, "invalid-request")
        client.post("/v1/datasets?name=answers.jsonl", content="\n".join(map(json.dumps, ROWS)))
        of_kept = {"source": GRADER, "dataset": "answers"}
        assert client.post("/v1/audit", json=of_kept).json()["of"] == 6
        told = client.post("/v1/audit", json=of_kept | {"labels": "nobody"})
        assert "store:answers, in its first 6 rows, has no `nobody`" in told.json()["detail"]
        lines = {"rows": "\n".join(map(json.dumps, ROWS)), "audit_examples": json.dumps(EXAMPLES[0])}
        form = {"name": "g", "language": "python", "source": GRADER, "audit_labels": "ok", **lines}
        page = client.post("/evaluators/audit", data=form, headers={"origin": server.url}).text
        assert "an empty output has full marks: 6 of 6 rows (wrong.empty)" in page
        assert f"g {found['version']}: " in page
        assert 'id="side-audit" value="audit" checked' in page
        form["source"] = "def evaluate(output):\n    return"
        page = client.post("/evaluators/audit", data=form | {"rows": "{}"}, headers={"origin": server.url}).text
        assert 'role="alert"' in page
