"""A run on a server has the settings of one on this machine, and does what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import Client, DatasetError, InputError, evaluate
from tests.server.http.live import Live
from tests.server.http.test_client import SAME


@pytest.fixture(scope="module")
def us(server: Live) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "same.py"
    path.write_text(SAME)
    return path


def rows(path: Path, right: int) -> Path:
    """Twenty rows, of which so many are right; an empty cell, JSON in a cell, and ids with a name of their own."""
    lines = ["key,output,reference,more", *(f'k{n},{int(n < right)},1,"[{n}]"' for n in range(20))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_is_judged_by_an_earlier_one(us: Client, script: Path, tmp_path: Path) -> None:
    good = us.wait(
        us.run(us.add(script, name="judged").reference, us.add_dataset(rows(tmp_path / "good.csv", 20)).name).id
    )
    assert good.state == "finished"
    bad = us.add_dataset(rows(tmp_path / "bad.csv", 2)).name
    run = us.run("judged", bad, baseline=good.id, fail_if_worse=0.1)
    assert f"--baseline {good.id} --fail-if-worse 0.1" in run.command
    ended = us.wait(run.id)
    assert ended.summary is not None
    (gate,) = ended.summary.gates
    assert (ended.state, gate.verdict, gate.reason.partition(":")[0]) == ("finished", "failed", "worse"), ended.error
    assert "/" not in gate.reason  # no folder of the server


def test_a_baseline_is_a_finished_run_and_no_path(us: Client, script: Path, tmp_path: Path) -> None:
    name = us.add_dataset(rows(tmp_path / "unbased.csv", 20)).name
    us.add(script, name="unbased")
    for wrong in ("/etc/passwd", str(tmp_path), "nothing"):
        with pytest.raises(InputError, match="the store has no run"):
            us.run("unbased", name, baseline=wrong)
    with pytest.raises(InputError, match="`fail_if_worse` needs a baseline"):
        us.run("unbased", name, fail_if_worse=0.1)


def test_rows_are_read_as_the_run_says(us: Client, script: Path, tmp_path: Path) -> None:
    settings = {"id": "key", "json_columns": ["more"], "empty": "null", "keep": ["more"], "max_failed": 3}
    data = rows(tmp_path / "read.csv", 5)
    there, here = us.evaluate(script, data, **settings), evaluate(script, data, **settings)  # type: ignore[arg-type]
    assert [(one.id, one.row, one.score) for one in there.results] == [
        (one.id, one.row, one.score) for one in here.results
    ]
    assert (there.results[3].id, there.results[3].row) == ("k3", {"more": [3]})
    assert there.summary.gates == here.summary.gates


def test_a_file_of_another_encoding_is_kept_as_utf_8(us: Client, script: Path, tmp_path: Path) -> None:
    data = tmp_path / "umlauts.csv"
    data.write_bytes("output,reference\nfür,für\n".encode("cp1252"))
    with pytest.raises(DatasetError, match="encoding"):
        us.add_dataset(data)
    report = us.evaluate(script, data, encoding="cp1252", keep="all")
    assert [one.row["output"] for one in report.results] == ["für"]
    assert report.summary.mean == 1.0
    with pytest.raises(TypeError, match="it is said when the dataset is sent"):
        us.run("judged", "umlauts", encoding="cp1252")  # type: ignore[call-arg]


def test_what_a_run_lacks_is_refused_with_the_reason(server: Live) -> None:
    with server.client() as client:
        asked = {"evaluator": "judged", "dataset": "good", "on": "ray", "encoding": "cp1252"}
        detail = client.post("/v1/runs", json=asked).json()["detail"]
    assert "on` is not taken here: who starts the server decides where scripts run" in detail
    assert "encoding` is not taken here: it is said when the dataset is sent" in detail


def test_the_pages_form_has_a_field_for_each_setting(us: Client, server: Live, script: Path, tmp_path: Path) -> None:
    us.add(script, name="formed")
    data = us.add_dataset(rows(tmp_path / "formed.csv", 5)).name
    form = {"evaluator": "formed", "dataset": data, "repeat": "2", "id": "key", "keep": "more, key", "memory": "200"}
    form |= {
        "empty": "null",
        "max_failed": "10%",
        "require": "mean>=0, rows>=20",
        "seed": "7",
        "cpus": "",
        "cache": "on",
    }
    with server.client() as client:
        page = client.get("/runs/new", params={"evaluator": "formed", "dataset": data}).text
        assert all(f'name="{name}"' in page for name in form)
        made = client.post("/runs/new", data=form, headers={"X-Evalcell": "1"})
    assert made.status_code == 303, made.text
    run = us.wait(made.headers["location"].rpartition("/")[2])
    for words in (
        "--id key",
        "--empty null",
        "--memory 200",
        "--repeat 2",
        "--keep more --keep key",
        "--max-failed 10%",
    ):
        assert words in run.command
    assert run.summary is not None
    assert (run.state, run.summary.repeat, [gate.verdict for gate in run.summary.gates]) == (
        *("finished", 2),
        ["passed"] * 3,
    )
