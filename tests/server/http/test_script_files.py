"""A script with files of its own through every door of a server, and in the store: the rows of the command line."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient

from runner import Client, evaluate, read_evaluator
from runner.results.store import open_store
from tests.cli.commands import evalcell, write_rows
from tests.server.http.live import Live, live
from tests.server.mcp.agent import call

ROWS = [{"output": "A", "reference": "a"}, {"output": "B", "reference": "a"}]
SOURCE = (
    "from helper import norm\n\n\ndef evaluate(output, reference):\n    return float(norm(output) == norm(reference))\n"
)
FILES = {"helper.py": "from deep.low import low as norm\n", "deep/low.py": "def low(text):\n    return text.lower()\n"}
SCORES = [1.0, 0.0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
    for name, text in {
        "polite/evaluator.py": SOURCE,
        **{f"polite/{name}": text for name, text in FILES.items()},
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    write_rows(Path("rows.jsonl"), ROWS)
    return Path("polite")


def scores(results: list[dict[str, Any]]) -> list[Any]:
    return [one["score"] for one in results]


def test_http_checks_scores_keeps_and_runs_it(server: Live) -> None:
    with server.client() as client:
        body = {"source": SOURCE, "files": FILES}
        alone = client.post("/v1/check", json={"source": SOURCE}).json()
        checked = client.post("/v1/check", json=body).json()
        assert checked["problems"] == []
        assert checked["version"] != alone["version"]
        tried = client.post("/v1/evaluate", json={**body, "rows": ROWS}).json()
        assert scores([one["result"] for one in tried["results"]]) == SCORES
        saved = client.post("/v1/evaluators", json={**body, "name": "by-http"}).json()
        assert (saved["files"], saved["version"]) == (FILES, checked["version"])
        assert client.post("/v1/evaluators", json={**body, "name": "by-http"}).json()["number"] == 1
        changed = client.put(
            "/v1/evaluators/by-http", json={"source": SOURCE + "\n"}, headers={"if-match": f'"{saved["version"]}"'}
        ).json()
        assert (changed["number"], changed["files"]) == (2, FILES)
        tried = client.post("/v1/evaluate", json={"evaluator": "by-http@2", "rows": ROWS}).json()
        assert scores([one["result"] for one in tried["results"]]) == SCORES
        for name in ("../helper.py", "a\nb.py", "/etc/passwd"):
            refused = client.post("/v1/evaluators", json={"source": SOURCE, "files": {name: ""}, "name": "no"})
            assert refused.status_code == 422
            assert "is no name of a file that belongs to it" in refused.json()["detail"]


def test_a_zip_is_kept_as_its_folder_would_be(server: Live, script: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for path in [*script.rglob("*.py")]:
            made.write(path)
    with server.client() as client:
        reply = client.post("/v1/evaluators/zip", content=data.getvalue())
        saved = reply.json()
        assert (reply.status_code, saved["name"], saved["files"]) == (201, "polite", FILES)
        assert saved["version"] == read_evaluator(script).version
        named = client.post("/v1/evaluators/zip?name=other", content=data.getvalue()).json()
        assert named["name"] == "other"
        for wrong in (b"no zip", b"x" * (3 << 20)):
            assert client.post("/v1/evaluators/zip", content=wrong).status_code in (413, 422)


def test_a_run_of_the_client_and_of_the_page_has_them(server: Live, script: Path) -> None:
    with Client(server.url) as client:
        assert scores([one.model_dump() for one in client.evaluate(script, ROWS).results]) == SCORES
        report = client.evaluate(f"{script}/evaluator.py", ROWS, title="kept")
        assert scores([one.model_dump() for one in report.results]) == SCORES
        client.add(script, name="by-page")
    with server.client() as page:
        shown = page.get("/evaluators/by-page").text
        assert 'name="file:deep/low.py"' in shown
        fields = {f"file:{name}": text for name, text in FILES.items()}
        form = {"name": "by-page", "language": "python", "source": SOURCE + "# new\n", **fields}
        rows = "".join(json.dumps(row) + "\n" for row in ROWS)
        tried = page.post("/evaluators/try", data={**form, "rows": rows}, headers={"hx-request": "true"}).text
        assert "No module named" not in tried
        expected = page.get("/v1/evaluators/by-page").json()["version"]
        page.post("/evaluators/save", data={**form, "expected": expected})
        assert page.get("/v1/evaluators/by-page@2").json()["files"] == FILES
        expected = page.get("/v1/evaluators/by-page").json()["version"]
        other = {"drop:helper.py": "on", "new_file": "helper.py2", "new_text": "x"}
        page.post("/evaluators/save", data={**form, "expected": expected, **other})
        assert [*page.get("/v1/evaluators/by-page").json()["files"]] == ["deep/low.py", "helper.py2"]


def test_agents_give_and_see_them(server: Live) -> None:
    async def body() -> None:
        async with McpClient(f"{server.url}/mcp") as client:
            checked = await call(client, "check", source=SOURCE, files=FILES)
            assert not checked.get("problems")
            tried = await call(client, "try", source=SOURCE, files=FILES, rows=ROWS)
            assert scores(tried["results"]) == SCORES
            await call(client, "save", source=SOURCE, files=FILES, name="by-agent")
            assert (await call(client, "show", kind="evaluator", name="by-agent"))["files"] == FILES

    asyncio.run(body())


def test_the_store_keeps_them_and_each_change_is_a_version(script: Path) -> None:
    assert "polite@1" in evalcell("add", "polite").output
    assert "polite@1" in evalcell("add", "polite").output
    (script / "deep" / "low.py").write_text("def low(text):\n    return text\n")
    assert "polite@2" in evalcell("add", "polite/").output
    assert scores([one.model_dump() for one in evaluate("polite@1", ROWS).results]) == SCORES
    assert scores([one.model_dump() for one in evaluate("polite@2", ROWS).results]) == [0.0, 0.0]
    with open_store() as store:
        assert store.evaluator("polite@1").files == FILES
        assert store.evaluator("polite@1").evaluator().version == store.evaluator("polite@1").version


def test_a_folder_is_an_evaluator(script: Path) -> None:
    found = read_evaluator(script)
    assert (found.name, found.files) == ("polite", FILES)
    assert found.version == read_evaluator("polite/evaluator.py").version
    Path("polite/cases.jsonl").write_text('{"output": "A", "reference": "a", "expected": {"score": 1}}\n')
    assert evalcell("test", "polite").exit_code == 0
    for named in ("polite", "polite/", "polite:evaluate"):
        assert evalcell("run", named, "rows.jsonl", "-q", "-o", "out.jsonl", "--overwrite").exit_code == 0
        results = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        assert scores(results) == SCORES
    Path("polite/evaluator.ts").write_text("export const evaluate = () => 1;\n")
    assert "polite has evaluator.py and evaluator.ts; name one of them" in evalcell("check", "polite").output
    Path("polite/evaluator.py").rename("polite/scorer.py")
    Path("polite/evaluator.ts").unlink()
    said = " ".join(evalcell("check", "polite", COLUMNS="200").output.split())
    assert "is a folder without an evaluator.py or evaluator.ts; name a script in it, such as polite/" in said
