"""Pages of single rows: of a dataset, and of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest

from runner.server.web import datasets
from runner.service import rows as kept_rows
from tests.server.live import Live, live

HEADERS = {"accept": "text/html"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Live) -> Iterator[httpx.Client]:
    with server.client(headers=HEADERS) as found:
        yield found


def test_a_row_of_many_columns_shows_the_first(client: httpx.Client) -> None:
    many = {"output": 1, **{f"k{n}": n for n in range(5000)}}
    fat = {"output": 1, **{f"k{n}": "v" * 19_000 for n in range(100)}}
    odd = {"output": 1, "": "nothing", "last": 2}
    client.post("/v1/datasets?name=wide.jsonl", content="".join(json.dumps(row) + "\n" for row in (many, fat, odd)))
    texts = [client.get(f"/datasets/wide/rows/{n}").text for n in (1, 2, 3)]
    names = [re.findall(r"<h2>(.*?)</h2>", text) for text in texts]
    assert names[0] == ["output", *(f"k{n}" for n in range(199))]
    assert names[1] == ["output", *(f"k{n}" for n in range(21))]
    assert names[2] == ["output", "(no name)", "last"]
    assert [re.findall(r"([\d,]+) more column", text) for text in texts] == [["4,801"], ["79"], []]
    assert all("<h3" not in text for text in texts)
    assert max(map(len, texts)) < 500_000


def test_a_broken_row_is_named_by_its_number(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=broken.jsonl", content='{"output": 1}\n{"output": \n')
    text = client.get("/datasets/broken/rows/2").text
    said = re.findall(r'role="alert">(.*?)</p>', text)
    assert len(said) == 1
    assert said[0].startswith("row 2: ")
    assert ".jsonl" not in said[0]
    assert len(said[0]) > len("row 2: ")


@pytest.mark.parametrize("number", [0, -1, 1 << 53, (1 << 63) - 1, 1 << 63, 10**30])
def test_a_run_has_no_such_row(client: httpx.Client, number: int) -> None:
    client.post("/v1/evaluators", json={"name": "one", "source": "def evaluate(output):\n    return 1.0\n"})
    client.post("/v1/datasets?name=few.jsonl", content='{"output": 1}\n')
    run = client.post("/v1/runs", json={"evaluator": "one", "dataset": "few"}).json()["id"]
    assert client.get(f"/runs/{run}/rows/{number}").status_code == 404


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only three rows of a dataset can be looked at."""
    monkeypatch.setattr(kept_rows, "FURTHEST", 3)
    monkeypatch.setattr(datasets, "FURTHEST", 3)


@pytest.mark.usefixtures("near")
def test_no_link_leads_to_a_row_too_far_to_be_looked_at(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=long.jsonl", content='{"output": 1}\n' * 30)
    for path in ("/datasets/long", "/datasets/long/rows/3"):
        links = re.findall(r'href="(/datasets/long[^"]*)"', client.get(path).text)
        assert {client.get(link).status_code for link in links} == {200}
    assert client.get("/datasets/long/rows/4").status_code == 422
