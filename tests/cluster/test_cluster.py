"""Runs on a Ray cluster: the results of one machine, whatever dies meanwhile, and nothing is left."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.core.types import Result
from sandboxes import SandboxConfig, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.base import Isolation
from sandboxes.cluster import files, worker
from sandboxes.cluster.files import WorkerFiles, read_files
from sandboxes.cluster.worker import NodeWorker
from sandboxes.words.wording import python_words
from tests.cli.commands import evalcell
from tests.cluster.nodes import Nodes
from tests.several import ROWS, SCORES, Several, both

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
turns = pytest.mark.rotating("runs on a cluster", "cluster")

SCRIPT = """
import random
SEEN = []
def evaluate(output):
    SEEN.append(output)
    print("row", output)
    if output == "x7":
        raise ValueError("seven")
    return {"score": len(SEEN) + random.random(), "label": output}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "output": f"x{n}"} for n in range(count)]


def plain(results: list[Result]) -> list[Result]:
    return [result.model_copy(update={"duration_ms": 0.0}) for result in results]


@turns
@pytest.mark.parametrize("backend", ["wasm", "process"])
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_results_are_those_of_one_machine(cluster: Nodes, script: Path, backend: str, isolation: Isolation) -> None:
    config = SandboxConfig(backend=backend, isolation=isolation, jobs=2)
    here, there = (evaluate(script, rows(100), sandbox=config, on=on, seed=5).results for on in (None, "ray"))
    assert plain(there) == plain(here)
    assert sum(result.outcome == "scored" for result in there) == 99


@turns
@both
def test_a_scripts_own_files_travel(cluster: Nodes, tmp_path: Path, several: Several) -> None:
    several.lay(tmp_path)
    report = evaluate(tmp_path, ROWS, sandbox=SandboxConfig(jobs=2), on="ray")
    assert [result.score for result in report.results] == SCORES


@turns
def test_files_and_variables_travel(cluster: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_WORD", "open sesame now")
    (tmp_path / "words.txt").write_text("three little words")
    (tmp_path / "more/deep").mkdir(parents=True)
    (tmp_path / "more/deep/words.txt").write_text("and two")
    (tmp_path / "script.py").write_text(
        "import os\ndef evaluate(output):\n"
        "    words = open(os.environ['WORDS']).read().split()\n"
        "    words += open(os.environ['MORE'] + '/deep/words.txt').read().split()\n"
        "    return {'score': len(words), 'explanation': os.environ['SECRET_WORD']}\n"
    )
    files = {"WORDS": str(tmp_path / "words.txt"), "MORE": str(tmp_path / "more")}
    config = SandboxConfig(backend="process", jobs=2, files=files, env=("SECRET_WORD",))
    report = evaluate(tmp_path / "script.py", rows(4), sandbox=config, on="ray")
    assert [result.score for result in report.results] == [5] * 4
    assert "sesame" not in repr(report.results), "it is masked there, too"


@turns
def test_the_command_of_the_page_runs(cluster: Nodes) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "ray.md").read_text("utf-8")
    command = re.search(r"^evalcell (run .*--on ray)$", page, re.MULTILINE)
    assert command
    done = evalcell(*command[1].split())
    assert done.exit_code == 0, done.output
    assert "200: 200 scored" in " ".join(done.output.split())


@turns
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_large_rows_and_results_go_in_pieces(
    cluster: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: Isolation
) -> None:
    """In the driver a batch is divided above 1 MB; in workers, replies are above 8 MB, of 60 rows with 400 kB each."""
    monkeypatch.setattr(worker, "PIECE", 1 << 20)
    path = tmp_path / "script.py"
    path.write_text("def evaluate(output):\n    return {'label': output[:5], 'explanation': output}\n")
    large = [{"id": f"r{n}", "output": f"{n:5}" + "x" * 400_000} for n in range(60)]
    config = SandboxConfig(backend="wasm", isolation=isolation, jobs=2)
    here, there = (evaluate(path, large, sandbox=config, on=on, seed=5).results for on in (None, "ray"))
    assert plain(there) == plain(here)
    assert sum(result.outcome == "scored" for result in there) == 60


def test_a_worker_says_why_its_sandbox_does_not_open() -> None:
    import pickle

    worker = NodeWorker()
    config = SandboxConfig(backend="wasm", packages=("numpy",))
    reply = asyncio.run(worker.open(pickle.dumps((python_words, config)), {}, {}))
    assert "the wasm sandbox has no packages" in reply["failed"]
    asyncio.run(worker.close())


def test_a_worker_has_a_folder_for_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = WorkerFiles()
    assert kept.write({}) == {}
    assert not list(tmp_path.iterdir()), "a worker that is killed would leave it"
    places = kept.write({"WORDS": b"one two", "MORE/deep/a": b"a", "MORE/b": b"b"})
    words, more = Path(places["WORDS"]), Path(places["MORE"])
    assert ((more / "deep/a").read_bytes(), (more / "b").read_bytes(), len(places)) == (b"a", b"b", 2)
    assert {path.stat().st_mode & 0o777 for path in (more, more / "deep")} == {0o755}
    assert words.read_bytes() == b"one two"
    assert (words.stat().st_mode & 0o777, words.parent.stat().st_mode & 0o777) == (0o644, 0o711)
    kept.close()
    kept.close()
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_travel_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST", 5)
    (tmp_path / "a").write_text("abc")
    assert read_files({"A": str(tmp_path / "a")}) == {"A": b"abc"}
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/c").write_text("c")
    assert read_files({"F": str(tmp_path / "folder")}) == {"F/deep/c": b"c"}
    (tmp_path / "folder/d").write_text("large")
    with pytest.raises(UnsupportedConfigError, match="too large to travel"):
        read_files({"F": str(tmp_path / "folder")})
    with pytest.raises(UnsupportedConfigError, match="too large to travel; make them smaller, or leave `on` out"):
        read_files(dict.fromkeys("AB", str(tmp_path / "a")))
    with pytest.raises(UnsupportedConfigError, match=r"the file A=.*b cannot be read \(No such file .*check the path"):
        read_files({"A": str(tmp_path / "b")})


@pytest.mark.parametrize("on", ["spark", "ray://", "ray://host", "ray://:1", "ray://host:99999", "ray://h\nx:1", ""])
def test_what_is_no_cluster_is_refused(on: str) -> None:
    with pytest.raises(UnsupportedConfigError, match="is no cluster; write `ray`"):
        evaluate("json-distance", "demo", on=on)


def test_a_provider_s_sandbox_needs_no_cluster() -> None:
    with pytest.raises(UnsupportedConfigError, match="the e2b sandbox runs at a provider"):
        evaluate("json-distance", "demo", sandbox="e2b", on="ray")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SandboxUnavailableError, match=r"run: pip install 'evalcell\[ray\]'"):
        evaluate("json-distance", "demo", on="ray")
