"""A script with files of its own through every door of a server, and in the store: the rows of the command line."""

from __future__ import annotations

import asyncio
import base64
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
from tests.several import PYTHON, ROWS, SCORES, Several, both

SOURCE, FILES = PYTHON.source, PYTHON.files


def zipped(several: Several, top: str = "polite/") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in {several.main: several.source, **several.files}.items():
            made.writestr(top + name, text)
    return data.getvalue()


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


@both
def test_http_checks_scores_keeps_and_runs_it(server: Live, several: Several) -> None:
    name = f"by-http-{several.language}"
    packed = base64.b64encode(zipped(several)).decode()
    with server.client() as client:
        script = {"source": several.source, "language": several.language}
        bodies = ({**script, "files": several.files}, {"zip": packed})
        alone = client.post("/v1/check", json=script).json()
        checked = [client.post("/v1/check", json=body).json() for body in bodies]
        for one in checked:
            assert (one["problems"], one["language"], set(one["files"])) == ([], several.language, {*several.files})
            assert one["version"] == checked[0]["version"] != alone["version"]
        for body in bodies:
            tried = client.post("/v1/evaluate", json={**body, "rows": ROWS}).json()
            assert scores([one["result"] for one in tried["results"]]) == SCORES
        for body in bodies:  # the same: no second version
            saved = client.post("/v1/evaluators", json={**body, "name": name}).json()
            assert (saved["files"], saved["version"], saved["number"]) == (several.files, checked[0]["version"], 1)
        match = {"if-match": f'"{saved["version"]}"'}
        changed = client.put(f"/v1/evaluators/{name}", json={"source": several.source + "\n"}, headers=match).json()
        assert (changed["number"], changed["files"]) == (2, several.files)
        match = {"if-match": f'"{changed["version"]}"'}
        assert client.put(f"/v1/evaluators/{name}", json={"zip": packed}, headers=match).json()["number"] == 3
        tried = client.post("/v1/evaluate", json={"evaluator": f"{name}@2", "rows": ROWS}).json()
        assert scores([one["result"] for one in tried["results"]]) == SCORES
        raw = client.post("/v1/evaluators/zip", content=zipped(several))
        assert (raw.status_code, raw.json()["name"], raw.json()["version"]) == (201, "polite", saved["version"])
        named = client.post("/v1/evaluators/zip?name=other", content=zipped(several, "")).json()
        assert (named["name"], named["version"]) == ("other", saved["version"])


def test_what_is_too_much_or_hostile_is_refused_before_it_is_read(server: Live) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("evaluator.py", SOURCE)
        made.writestr("helper.py", b"\0" * (50 << 20))
    wrong: list[tuple[dict[str, Any], str]] = [
        *(
            ({"source": SOURCE, "files": {name: ""}}, "is no name of a file")
            for name in ("../a.py", "a\nb.py", "/etc/x")
        ),
        ({"source": SOURCE, "files": {f"m{number}.py": "" for number in range(101)}}, "files"),
        (
            {"source": SOURCE, "files": {"helper.py": "", "words.txt": "é" * ((1 << 20) + 1)}},
            "more than 100 files or 2 MB",
        ),
        ({"zip": base64.b64encode(bomb.getvalue()).decode()}, "bytes in them"),
        ({"zip": base64.b64encode(b"no zip").decode()}, "the zip cannot be read"),
        ({"zip": "?"}, "zip"),
        ({"files": FILES}, "`files` belong to a `source`"),
        ({"source": SOURCE, "zip": base64.b64encode(zipped(PYTHON)).decode()}, "send it alone"),
    ]
    with server.client() as client:
        for body, why in wrong:
            for path, more in (("/v1/evaluators", {"name": "no"}), ("/v1/evaluate", {"rows": ROWS})):
                refused = client.post(path, json={**body, **more})
                assert (refused.status_code, why in refused.text) == (422, True), refused.text
            checked = client.post("/v1/check", json=body)
            assert why in checked.text
            assert checked.status_code == 422 or checked.json()["problems"]
        assert client.get("/v1/evaluators/no").status_code == 404
        for wrong_zip in (b"no zip", b"x" * (3 << 20), bomb.getvalue()):
            assert client.post("/v1/evaluators/zip", content=wrong_zip).status_code in (413, 422)


def test_a_page_of_versions_is_bounded(server: Live) -> None:
    with server.client() as client:
        for number in range(4):
            files = {"helper.py": "norm = str\n", "words.txt": f"{number}" * (3 << 19)}
            assert client.post("/v1/evaluators", json={"source": SOURCE, "files": files, "name": "large"}).is_success
        numbers, after = [], ""
        while after is not None:
            page = client.get(
                "/v1/evaluators/large/versions", params={"count": 50} | ({"after": after} if after else {})
            )
            assert len(page.content) < 5 << 20
            numbers += [one["number"] for one in page.json()["items"]]
            after = page.json()["next"]
        assert numbers == [4, 3, 2, 1]


def test_a_run_of_the_client_and_of_the_page_has_them(server: Live, script: Path) -> None:
    with Client(server.url) as client:
        checked = client.check(SOURCE, files=FILES)
        assert (checked.version, set(checked.files)) == (read_evaluator(script).version, {*FILES})
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


@both
def test_agents_give_and_see_them(server: Live, several: Several) -> None:
    async def body() -> None:
        async with McpClient(f"{server.url}/mcp") as client:
            sent = {"source": several.source, "language": several.language, "files": several.files}
            checked = await call(client, "check", **sent)
            assert (checked["problems"], set(checked["files"])) == ([], {*several.files})
            tried = await call(client, "try", **sent, rows=ROWS)
            assert scores(tried["results"]) == SCORES
            name = f"by-agent-{several.language}"
            saved = await call(client, "save", **sent, name=name)
            assert set(saved["files"]) == {*several.files}
            assert (await call(client, "show", kind="evaluator", name=name))["files"] == several.files
            edited = several.source + "\n"
            asked = {"source": edited, "language": several.language, "name": name, "expected": saved["version"]}
            assert set((await call(client, "save", **asked))["files"]) == {*several.files}
            words = {**several.files, "words.txt": "x" * 100_000}
            await call(client, "save", **{**sent, "files": words}, name=name)
            shown = await call(client, "show", kind="evaluator", name=name)
            assert (shown["files"]["words.txt"], len(json.dumps(shown)) < 10_000) == ("100,000 characters", True)
            (helper, *_) = several.files
            one = await call(client, "show", kind="evaluator", name=name, file=helper)
            assert one["text"] == several.files[helper]

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
