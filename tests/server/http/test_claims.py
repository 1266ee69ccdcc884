"""Two servers with one PostgreSQL: each run is done by one of them, and by the other when the first is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from runner.results.store import open_store
from runner.results.store.errors import ClaimLostError, InUseError
from runner.results.store.store import Store
from runner.results.store.types import RunSpec
from tests.postgres import postgres
from tests.results.store.making import evaluator, result, segment
from tests.server.http.live import finished
from tests.server.http.served import PATIENCE, Served
from tests.server.http.test_kill import scores

__all__ = ["postgres"]
ROWS = 3000
SOURCE = "import time\ndef evaluate(output):\n    time.sleep(0.002)\n    return output / 7\n"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    address = request.getfixturevalue("postgres")() if request.param == "postgresql" else None
    made: Store = request.getfixturevalue("opened")(address, tmp_path / "store")
    made.add_evaluator(evaluator())
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b'{"output": 1}\n')
    made.add_dataset(rows, name="rows", suffix=".jsonl")
    return made


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Callable[[str | None, Path], Store]:
    def made(address: str | None, folder: Path) -> Store:
        store = open_store(address, folder)
        request.addfinalizer(store.close)
        return store

    return made


def test_a_run_is_one_servers_until_its_claim_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec(evaluator="polite", dataset="rows")
    id = store.create_run(spec, server="one").id
    assert store.claim("two") == []
    assert store.renew("one", [id, "gone"]) == (("gone",), ())
    assert store.renew("two", [id]) == ((id,), ())
    monkeypatch.setattr("runner.results.store.runs.LEASE", timedelta(seconds=-1))
    store.renew("one", [id])
    assert store.add_segment(id, segment(result(1, 0.5)), "one") == 1  # nobody has taken it
    monkeypatch.undo()
    assert [run.id for run in store.claim("two")] == [id]
    with pytest.raises(ClaimLostError):
        store.add_segment(id, segment(result(2, 0.5)), "one")
    with pytest.raises(ClaimLostError):
        store.set_run(id, "one", state="failed")
    assert store.run(id).state == "queued"
    assert store.add_segment(id, segment(result(2, 0.5)), "two") == 2
    store.let_go("two")
    assert [run.id for run in store.claim("three")] == [id]


def test_a_run_is_stopped_where_it_is_done(store: Store) -> None:
    spec = RunSpec(evaluator="polite", dataset="rows")
    id, waits = (store.create_run(spec, server=server).id for server in ("one", None))
    assert store.ask_to_stop(waits).state == "cancelled"
    assert store.ask_to_stop(id).state == "queued"
    assert store.renew("one", [id]) == ((), (id,))
    store.let_go("one")  # it was killed before it looked
    assert store.claim("two") == []
    assert store.run(id).state == "cancelled"
    assert store.requeue(id, "one").state == "queued"
    with pytest.raises(InUseError):
        store.requeue(id, "two")
    assert store.renew("one", [id]) == ((), ())


@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
@pytest.mark.parametrize("shared", [True, False], ids=["one folder", "a folder each"])
def test_the_other_server_goes_on_with_the_runs_of_one_that_is_killed(
    tmp_path: Path, postgres: Callable[[], str], shared: bool
) -> None:
    address = postgres()
    first = Served(tmp_path / "one", EVALCELL_DATABASE_URL=address)
    second = Served(tmp_path / ("one" if shared else "two"), EVALCELL_DATABASE_URL=address)
    with first.client() as one, second.client() as two:
        one.post("/v1/evaluators", json={"name": "seventh", "source": SOURCE})
        lines = b"".join(b'{"id": "row-%d", "output": %d}\n' % (n, n) for n in range(ROWS))
        one.post("/v1/datasets", params={"name": "many.jsonl"}, content=lines)
        id = str(one.post("/v1/runs", json={"evaluator": "seventh", "dataset": "many"}).json()["id"])
        cancelled = str(one.post("/v1/runs", json={"evaluator": "seventh", "dataset": "many"}).json()["id"])
        _until(one, id, 1)
        assert two.post(f"/v1/runs/{cancelled}/cancel").json()["state"] == "cancelled"
        assert two.get(f"/v1/runs/{id}").json()["state"] == "running"
        first.kill()
        if not shared:  # the second has none of its files, and leaves it alone
            first = Served(tmp_path / "one", EVALCELL_DATABASE_URL=address)
    survivor = second if shared else first
    with survivor.client() as client:
        run = finished(client, id)
        assert (run["rows"], run["counts"]) == (ROWS, {"scored": ROWS})
        assert scores(client, id) == [n / 7 for n in range(ROWS)]
    ended = [server.end() for server in (first, second) if server.process.returncode is None]
    assert [code for code, _ in ended] == [0] * (1 if shared else 2), ended
    taken = ["run taken over" in said for _, said in ended]
    assert taken == ([True] if shared else [False, False])


def _until(client: httpx.Client, id: str, rows: int) -> None:
    late = time.monotonic() + PATIENCE
    while client.get(f"/v1/runs/{id}").json()["rows"] < rows and time.monotonic() < late:
        time.sleep(0.05)
