"""Results folders of the command line appear as runs, without import, and grow as they do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner import evaluate
from runner.core.errors import DatasetError
from runner.results.store.types import Selection
from runner.server.service.folders import Folders
from runner.server.service.settings import ServiceSettings
from tests.server.http.live import live

SCRIPT = "def evaluate(output, reference):\n    return output == reference\n"
ROWS = [{"id": f"r{n}", "output": n % 3, "reference": 0} for n in range(30)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs."""
    folder = tmp_path_factory.mktemp("results")
    script = folder / "same.py"
    script.write_text(SCRIPT)
    for name in ("one", "Two runs"):
        evaluate(script, ROWS, output=folder / name, keep="all", sandbox="wasm")
    return folder


@pytest.fixture(scope="module")
def shown(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with live(tmp_path_factory.mktemp("store"), ServiceSettings(folders=(results,))) as found, found.client() as client:
        yield client


def test_runs_of_a_folder_stand_beside_those_of_the_store(shown: httpx.Client) -> None:
    found = shown.get("/v1/runs").json()["items"]
    ids = [one["id"] for one in found]
    assert ids[0] == "folder~one"
    assert ids[1].startswith("folder~two-runs-")
    run = shown.get("/v1/runs/folder~one").json()
    assert (run["source"], run["state"], run["evaluator"], run["rows"]) == ("folder", "finished", "same", 30)
    assert run["summary"]["labels"] == {"False": 20, "True": 10}
    first = shown.get("/v1/runs", params={"count": 1}).json()
    second = shown.get("/v1/runs", params={"count": 1, "after": first["next"]}).json()
    assert [one["id"] for one in (*first["items"], *second["items"])] == ids
    assert second["next"] is None


def test_its_results_are_chosen_as_those_of_the_store(shown: httpx.Client) -> None:
    address = "/v1/runs/folder~one/results"
    chosen = shown.get(address, params={"label": "False", "first": 2, "count": 3}).json()
    assert (chosen["total"], [row["number"] for row in chosen["rows"]]) == (20, [5, 6, 8])
    assert shown.get(address, params={"search": "r17"}).json()["total"] == 1
    assert shown.get(address, params={"order": "best", "count": 1}).json()["rows"][0]["score"] in (1.0, None)
    lines = shown.get("/v1/runs/folder~one/download").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [row["id"] for row in ROWS]
    verdict = shown.get("/v1/compare", params={"base": "folder~one", "new": "folder~one"}).json()
    assert verdict["pairs"] == 30
    with shown.stream("GET", "/v1/runs/folder~one/events") as reply:
        events = "".join(reply.iter_text())
    assert '"rows":30' in events
    assert '"state":"finished"' in events


@pytest.mark.parametrize("what", ["cancel", "resume", "delete"])
def test_it_is_only_read(shown: httpx.Client, results: Path, what: str) -> None:
    before = sorted(path.stat().st_mtime_ns for path in results.rglob("*"))
    address = "/v1/runs/folder~one"
    reply = shown.delete(address) if what == "delete" else shown.post(f"{address}/{what}")
    assert (reply.status_code, reply.json()["type"]) == (409, "/problems/read-only")
    assert sorted(path.stat().st_mtime_ns for path in results.rglob("*")) == before


def test_a_run_that_comes_and_grows_is_seen(tmp_path: Path) -> None:
    folders = Folders([tmp_path])
    assert folders.runs(None, None, ()) == []
    run = tmp_path / "deep" / "new"
    run.mkdir(parents=True)
    line = {"id": "a", "outcome": "scored", "label": None, "score": 0.5, "explanation": None, "error": None}
    rows = run / "results.jsonl"
    rows.write_text(json.dumps(line) + "\n" + json.dumps(line)[:20])
    folders = Folders([tmp_path])
    (found,) = folders.runs(None, None, ())
    assert found.id.startswith("folder~deep.new")
    assert found.rows == 1  # what is not written to its end is not there yet
    with rows.open("a") as file:
        file.write(json.dumps(line)[20:] + "\n" + json.dumps(line | {"score": 0.25}) + "\n")
    chosen = folders.select(found.id, Selection(high=0.3))
    assert (chosen.total, chosen.rows[0]["number"], folders.run(found.id).rows) == (1, 3, 3)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        "[1]\n",
        '{"outcome": "fine"}\n',
        '{"outcome": "scored", "score": "x"}\n',
        "\x00\n",
        "{" * 5000 + "\n",
    ],
)
def test_a_file_that_no_run_wrote_is_refused_with_its_row(tmp_path: Path, text: str) -> None:
    run = tmp_path / "odd"
    run.mkdir()
    (run / "results.jsonl").write_text(text)
    (run / "manifest.json").write_text(json.dumps({"state": 7, "summary": [], "evaluator": 3, "started": "never"}))
    with pytest.raises(DatasetError, match="row 1"):
        Folders([tmp_path]).select("folder~odd", Selection())


def test_a_folder_that_cannot_be_read_hides_no_other_run(tmp_path: Path) -> None:
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.jsonl").write_text("nonsense\n" if name == "bad" else "")
    bad, good = Folders([tmp_path]).runs(None, None, ())
    assert (bad.id, bad.state, good.id) == ("folder~bad", "failed", "folder~good")
    assert "row 1" in (bad.error or "")


LINE = json.dumps({"id": "a", "outcome": "scored", "label": None, "score": 0.5, "explanation": None, "error": None})


def test_many_who_look_at_once_see_each_row_once(tmp_path: Path) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "results.jsonl").write_text(f"{LINE}\n" * 20_000)
    folders = Folders([tmp_path])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            looks = [threads.submit(folders.select, "folder~one", Selection(count=0)) for _ in range(8)]
            assert {one.result().total for one in looks} == {20_000}
    finally:
        sys.setswitchinterval(before)
    assert folders.run("folder~one").rows == 20_000


def test_rows_before_a_damaged_one_are_counted_once(tmp_path: Path) -> None:
    run = tmp_path / "one"
    run.mkdir()
    (run / "results.jsonl").write_text(f"{LINE}\n{LINE}\nnonsense\n")
    folders = Folders([tmp_path])
    for _ in range(2):
        with pytest.raises(DatasetError, match="row 3"):
            folders.select("folder~one", Selection())


def test_a_link_that_leads_out_of_the_folder_is_no_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("-----BEGIN PRIVATE KEY-----\n")
    run = tmp_path / "shown" / "one"
    run.mkdir(parents=True)
    (run / "results.jsonl").symlink_to(secret)
    assert Folders([tmp_path / "shown"]).runs(None, None, ()) == []
    (run / "results.jsonl").unlink()
    (run / "results.jsonl").write_text("")
    assert len(Folders([tmp_path / "shown"]).runs(None, None, ())) == 1
    (run / "manifest.json").symlink_to(secret)
    assert Folders([tmp_path / "shown"]).runs(None, None, ()) == []


def test_a_folder_of_somebody_else_is_shown_or_refused(results: Path, tmp_path: Path) -> None:
    """Numbers, texts, times and depths that no run writes: each page is a page."""
    good = (results / "one" / "results.jsonl").read_text().splitlines()
    manifest = json.loads((results / "one" / "manifest.json").read_text())
    names: list[str] = []

    def put(row: str | None = None, **told: Any) -> None:
        names.append(f"r{len(names)}")
        folder = tmp_path / names[-1]
        folder.mkdir()
        (folder / "results.jsonl").write_text("\n".join([*good[:3], *([] if row is None else [row])]) + "\n")
        (folder / "manifest.json").write_text(json.dumps({**manifest, **told}))

    row = json.loads(good[0])
    for value in (
        "1" * 400,
        "1e999",
        "-1e308",
        '"\\ud800"',
        "[" * 900 + "]" * 900,
        "{}",
        "null",
        '"\\u001b[31m<script>"',
    ):
        for name in ("id", "score", "label", "explanation", "row", "outputs", "error"):
            put(json.dumps({**row, name: "@"}).replace('"@"', value))
    summary = manifest["summary"]
    for text in ("\ud800", "\x1b[31m<script>", "x" * 50_000):
        put(summary={**summary, "evaluator": text, "version": text, "sandbox": text})
        put(evaluator={"name": text, "version": text}, command=text, error=text, state="failed")
        put(dataset={"path": text, "sha256": text, "rows": 10**30}, sandbox={"sandbox": text})
    for when in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999-14:00", "soon", 1):
        put(started=when, finished=when, state="unfinished")
    put(summary=[1], evaluator=[], dataset=None, sandbox=3)
    put(summary={**summary, "rows": 10**400, "mean": "x"})
    with live(tmp_path / "store", ServiceSettings(folders=(tmp_path,))) as found, found.client() as client:
        assert len(client.get("/v1/runs", params={"count": 200}).json()["items"]) >= len(names) - 1
        for page in ("/runs", *(f"/{kind}/folder~{name}" for name in names for kind in ("v1/runs", "runs"))):
            reply = client.get(page)
            assert reply.status_code < 500, (page, reply.text)
            assert "\x1b" not in reply.text
            assert "[31m<script>" not in reply.text or page.startswith("/v1")
        for name in names:
            assert client.get(f"/v1/runs/folder~{name}/results").status_code < 500, name


def test_a_run_in_parts_is_one_run(tmp_path: Path) -> None:
    """Its parts are read as one file, in order, and are no runs of their own."""
    script = tmp_path / "same.py"
    script.write_text(SCRIPT)
    evaluate(script, ROWS, output=tmp_path / "one", keep="all", sandbox="wasm")
    lines = (tmp_path / "one" / "results.jsonl").read_bytes().splitlines(keepends=True)
    for number, some in enumerate((lines[:7], lines[7:8], lines[8:]), 1):
        part = tmp_path / "two" / "parts" / f"{number:05}"
        part.mkdir(parents=True)
        (part / "results.jsonl").write_bytes(b"".join(some))
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    (tmp_path / "two" / "manifest.json").write_text(json.dumps({**manifest, "parts": 3}))
    folders = Folders([tmp_path])
    assert [run.id for run in folders.runs(None, None, ())] == ["folder~one", "folder~two"]
    for selection in (Selection(count=30), Selection(label="False", first=2, count=9), Selection(search="r17")):
        found = [folders.select(f"folder~{name}", selection) for name in ("one", "two")]
        assert found[0] == found[1]
        assert found[0].total > 0
