"""`--cache`: a row that was scored before is not run again, and its result is the one that it would have."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.core.types import DialectFailures
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.score_cache import store
from runner.results.score_cache.randomness import draws
from runner.results.score_cache.store import ScoreCacheStore
from sandboxes import SandboxConfig
from sandboxes.base import Language
from sandboxes.errors import SandboxError
from sandboxes.remote.sandbox import RemoteSandbox
from tests.cli.commands import evalcell, run, write_rows
from tests.cli.folders import KEY, Folders

SCRIPT = """
SEEN = []
def evaluate(output, other=None):
    SEEN.append(output)
    print(output)
    if output == "x3":
        raise ValueError(output)
    if output == "x5":
        return {"score": None, "explanation": "no"}
    return {"label": str(output), "score": float(len(SEEN)), "explanation": repr(other)}
"""


LOOP = (
    SCRIPT
    + """
plain = evaluate
def evaluate(output, other=None):
    while output == "x20":
        pass
    return plain(output, other)
"""
)


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of scores, in a cache that has nothing else."""
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(store, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "scores"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    rows: list[dict[str, Any]] = [
        {"id": f"r{n}", "output": f"x{n}", "other": {"b": n, "a": "é\ud800"}} for n in range(1, 41)
    ]
    rows[7] = {"id": "without"}
    write_rows(tmp_path / "data.jsonl", rows)
    return tmp_path


def score(name: str, *options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows without their times, and the summary."""
    words = ["script.py", "data.jsonl", "--map", "other=other", "--json", "-o", name]
    result = run(*words, *options)
    assert result.exit_code in (0, 3), result.stderr
    rows = [json.loads(line) for line in Path(name).read_text().splitlines()]
    return [row | {"duration_ms": 0, "cached": None} for row in rows], json.loads(result.stdout)


@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="once"),
        pytest.param(
            ("--repeat", "2", "--seed", "1"),
            id="twice",
            marks=pytest.mark.rotating("scores that are kept", "wasm", "cache"),
        ),
    ],
)
def test_what_is_taken_from_the_cache_is_what_would_be_computed(
    here: Path, isolation: str, more: tuple[str, ...]
) -> None:
    (here / "script.py").write_text(LOOP)
    options, times = ("--isolation", isolation, "--timeout", "1", *more), 2 if more else 1
    first, before = score("first.jsonl", "--cache", *options)
    again, after = score("again.jsonl", "--cache", *options)
    plain, _ = score("plain.jsonl", *options)
    assert first == again
    assert [row | {"cached": None} for row in plain] == again
    lacking = times * (2 if isolation == "call" else 1 + 5)  # without a mapping; a timeout, with its batch
    assert (before["cached"], after["cached"]) == (0, 40 * times - lacking)
    assert {name: before[name] for name in ("count", "mean", "failed")} == {
        name: after[name] for name in ("count", "mean", "failed")
    }


@pytest.mark.rotating("long tests", "cache")
def test_what_a_score_depends_on_is_in_its_key(here: Path) -> None:
    def cached(*options: str) -> int:
        found: int = score("x.jsonl", "--cache", *options)[1]["cached"]
        return found

    cached()
    assert cached() == 39
    assert cached("--limit", "5") == 5
    assert cached("--isolation", "call", "--keep", "other") == 39
    for options in (["--memory", "200"], ["--seed", "1"], ["--timeout", "9"], ["--isolation", "batch"]):
        assert (options, cached(*options)) == (options, 0)
    lines = (here / "data.jsonl").read_text().splitlines(keepends=True)
    (here / "data.jsonl").write_text("".join(reversed(lines)))
    assert cached() == 39, "the order of rows makes no difference"
    assert cached("--seed", "1") == 0, "with a seed it does"
    changed = lines[0].replace('"b": 1, "a"', '"a"').replace('800"}', '800", "b": 1}')
    assert sorted(json.loads(changed)["other"]) == sorted(json.loads(lines[0])["other"])
    (here / "data.jsonl").write_text("".join([changed, *lines[1:5]]))
    assert cached() == 4, "the order of an object's keys does"
    (here / "script.py").write_text(SCRIPT + "\n")
    assert cached() == 0


@pytest.mark.rotating("scores that are kept", "wasm", "cache")
@pytest.mark.rotating("process", "cache")
def test_a_script_that_reads_a_files_time_is_run_again_when_that_changes(here: Path) -> None:
    reads = "import os\ndef evaluate(output, other=0): return {} % 1000 + len(open(os.environ['MODEL']).read())\n"
    (here / "model").write_text("four")
    write_rows(here / "data.jsonl", [{"output": "a", "other": 0}])

    def scored(seconds: int, what: str) -> tuple[Any, int]:
        (here / "script.py").write_text(reads.format(what))
        if (here / "model").stat().st_mtime != seconds:
            os.utime(here / "model", (seconds, seconds))
        words = ["--sandbox", "process", "--file", "MODEL=model", "--cache"]
        (row,), told = score("x.jsonl", *words)
        return row["score"], told["cached"]

    times = "os.stat(os.environ['MODEL']).st_mtime"
    assert [scored(7, times), scored(7, times), scored(8, times)] == [(11, 0), (11, 1), (12, 0)]
    assert [scored(7, "0"), scored(8, "0")] == [(4, 0), (4, 1)], (
        "where it reads none, a touch or a checkout costs nothing"
    )


def test_tables_tell_what_was_taken_from_the_cache(here: Path) -> None:
    score("x.jsonl", "--cache")
    run(
        "script.py",
        "data.jsonl",
        "--map",
        "other=other",
        "--cache",
        "-o",
        "x.csv",
        "-o",
        "x.parquet",
    )
    import pyarrow.parquet as pq

    assert pq.read_table("x.parquet")["cached"].to_pylist().count(True) == 39
    assert Path("x.csv").read_text().splitlines()[0].startswith("id,cached,evaluator,")
    shown = run("script.py", "data.jsonl", "--map", "other=other", "--cache", "--worst", "1")
    assert "cached     39 of 40 scores are of earlier runs" in shown.stdout
    report = evaluate(
        "script.py", [{"output": "new"}, {"output": "new"}], cache=True, sandbox=SandboxConfig(backend="wasm", jobs=1)
    )
    assert (report.summary.cached, [r.cached for r in report.results]) in ((0, [False, False]), (1, [False, True]))


@pytest.mark.rotating("long tests", "cache")
def test_one_source_that_is_read_in_several_ways_has_scores_for_each(here: Path) -> None:
    text = "def one(output, context):\n    return 0.25\n\n\ndef two(output, context):\n    return 1 / (output == 'x')\n"
    rows = [{"output": "x"}, {"output": "y"}]

    def told(entry: str, failures: DialectFailures) -> list[tuple[str, float | None, bool]]:
        read = parse_evaluator(text, "s.py", dialect="promptfoo", entry=entry, failures=failures)
        results = evaluate(read, rows, cache=True, sandbox=SandboxConfig(backend="wasm", jobs=1)).results
        return [(one.outcome, one.score, one.cached) for one in results]

    for cached in (False, True):
        assert told("one", "failed") == [("scored", 0.25, cached)] * 2
        assert told("two", "failed") == [("scored", 1.0, cached), ("failed", None, cached)]
        assert told("two", "as-zero")[0] == ("scored", 1.0, cached)
        assert told("two", "as-zero")[1][:2] == ("scored", 0.0)


@pytest.mark.parametrize(
    ("source", "language", "name"),
    [
        ("import random\n", "python", "random"),
        ("from random import choice\n", "python", "random"),
        ("import os.path, numpy.random as r\n", "python", "random"),
        ("import numpy as np\nx = np.random.rand\n", "python", "random"),
        ("import os\nx = os.urandom\n", "python", "urandom"),
        ("import uuid\n", "python", "uuid"),
        ("from datetime import datetime\nx = datetime.now\n", "python", "now"),
        ("x = __import__\n", "python", "__import__"),
        ("from datetime import date\nimport json, re, math, collections\nrandomly = 1\n", "python", None),
        ("const x = Math . random;\n", "typescript", "Math . random"),
        ("const x = new Date();\n", "typescript", "Date"),
        ("const x = crypto.randomUUID();\n", "typescript", "crypto"),
        ("const Dated = 1, Math2 = Math.floor(1);\n", "typescript", None),
    ],
)
def test_names_that_tell_of_chance(source: str, language: Language, name: str | None) -> None:
    function = (
        "def evaluate(output):\n    return 1\n"
        if language == "python"
        else "function evaluate({ output }) { return 1 }"
    )
    assert draws(parse_evaluator(source + function, "x", language=language)) == name


@pytest.mark.rotating("long tests", "cache")
@pytest.mark.usefixtures("theirs")
def test_it_is_off_where_a_score_may_change(here: Path, scores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    (here / "chance.py").write_text("import random\ndef evaluate(output):\n    return random.random()\n")
    for words, why in (
        (
            ["chance.py"],
            "the script names `random`, so it may give another score each time; with a seed its scores are kept",
        ),
        (["script.py", "--sandbox", "theirs", "--allow-network"], "the script may use the network"),
        (
            ["script.py", "--sandbox", "theirs", "--env", "TOKEN"],
            "the script is given variables, whose values are not kept",
        ),
    ):
        result = run(words[0], "data.jsonl", *words[1:], "--cache", "--limit", "2", "--json")
        assert result.exit_code == 0, result.stderr
        assert f"the score cache is off: {why}" in result.stderr
        assert json.loads(result.stdout)["cached"] == 0
    assert not scores.exists()
    for hits in (0, 2):
        result = run("chance.py", "data.jsonl", "--cache", "--limit", "2", "--json", "--seed", "1")
        assert json.loads(result.stdout)["cached"] == hits


def garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def other_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE scores (key, used, value)")


def a_trigger(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("CREATE TRIGGER t AFTER INSERT ON scores BEGIN DELETE FROM scores; END")


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def another_score(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("UPDATE scores SET value = replace(value, 'r', 'R')")


def values_of_others(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute("UPDATE scores SET value = (SELECT value FROM scores LIMIT 1)")


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(8192))


@pytest.mark.rotating("scores that are kept", "wasm", "cache")
@pytest.mark.parametrize("damage", [garbage, other_tables, a_trigger, a_link, another_score, values_of_others, cut])
def test_a_file_that_is_damaged_or_forged_is_not_trusted(
    here: Path, scores: Path, damage: Callable[[Path], None]
) -> None:
    first, _ = score("first.jsonl", "--cache")
    damage(scores / "scores.sqlite")
    again, summary = score("again.jsonl", "--cache")
    assert again == first
    assert summary["cached"] <= 1
    assert not (scores / "scores.sqlite").is_symlink()
    score("once more.jsonl", "--cache")
    assert score("x.jsonl", "--cache")[1]["cached"] == 39


def test_a_folder_that_cannot_be_used_is_no_reason_to_fail(here: Path, scores: Path) -> None:
    scores.write_text("a file")
    result = run("script.py", "data.jsonl", "--limit", "2", "--cache")
    assert result.exit_code == 0
    assert "the score cache is off: " in result.stderr


@pytest.mark.rotating("scores that are kept", "wasm", "cache")
def test_a_run_that_goes_on_takes_both(here: Path) -> None:
    words = [
        "script.py",
        "data.jsonl",
        "--map",
        "other=other",
        "--cache",
        "-q",
        "--isolation",
        "call",
    ]
    assert run(*words, "-o", "run/").exit_code == 0
    shutil.copytree("run", "part")
    path = Path("part/results.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:10]))
    found = json.loads(Path("part/manifest.json").read_text()) | {"state": "unfinished"}
    Path("part/manifest.json").write_text(json.dumps(found))
    assert run(*words, "-o", "part/", "--resume").exit_code == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["cached"] for row in rows] == [False] * 10 + [True] * 30
    whole = [
        json.loads(line) | {"cached": None, "duration_ms": 0}
        for line in Path("run/results.jsonl").read_text().splitlines()
    ]
    assert [row | {"cached": None, "duration_ms": 0} for row in rows] == whole


def put_many(folder: Path, name: int, ended: Any) -> None:
    vars(store)["cache_dir"] = lambda: folder
    kept = ScoreCacheStore(print)
    for n in range(2000):
        kept.put(b"%d-%d" % (name, n), b"value %d" % n)
        assert kept.get(b"%d-%d" % (1 - name, n)) in (None, b"value %d" % n)
    ended.set()
    if name == 1:
        time.sleep(60)  # to be killed
    kept.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_several_processes_write_at_once_and_one_is_killed(scores: Path) -> None:
    context = multiprocessing.get_context("fork")
    ended = [context.Event(), context.Event()]
    both = [context.Process(target=put_many, args=(scores.parent, n, ended[n])) for n in (0, 1)]
    for process in both:
        process.start()
    assert all(event.wait(60) for event in ended)
    both[0].join(60)
    assert both[1].pid is not None
    os.kill(both[1].pid, signal.SIGKILL)
    both[1].join()
    kept = ScoreCacheStore(print)
    assert sum(kept.get(b"0-%d" % n) == b"value %d" % n for n in range(2000)) == 2000
    assert {kept.get(b"1-%d" % n) for n in range(2000)} <= {None, *(b"value %d" % n for n in range(2000))}
    kept.close()


def test_it_is_bounded(scores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST", 1 << 20)
    monkeypatch.setattr(store, "MOST_VALUE", 10_000)
    today = [100.0 * 86_400]
    monkeypatch.setattr("runner.results.score_cache.store.time.time", lambda: today[0])
    for part in range(4):
        today[0] += 86_400
        kept = ScoreCacheStore(print)
        for n in range(100):
            kept.put(b"%d-%d" % (part, n), bytes(5000))
        kept.put(b"large", bytes(10_000))
        kept.close()
    kept = ScoreCacheStore(print)
    held = [[kept.get(b"%d-%d" % (part, n)) is not None for n in range(100)] for part in range(4)]
    assert not any(held[0])
    assert all(held[3])
    assert kept.get(b"large") is None
    kept.close()
    assert (scores / "scores.sqlite").stat().st_size < 4 << 20


def test_the_cache_is_listed_and_pruned_unless_a_run_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "kept"))
    kept = ScoreCacheStore(print)
    kept.put(b"key", b"value")
    assert "scores   scores of earlier runs" in evalcell("cache").stdout
    assert "a run is using it" in evalcell("cache", "prune", "--all").stdout
    kept.close()
    assert "deleted 1 thing" in evalcell("cache", "prune", "--all").stdout
    assert list((tmp_path / "kept" / "scores").iterdir()) == []
    again = ScoreCacheStore(print)
    assert again.get(b"key") is None
    again.close()


@pytest.mark.rotating("long tests", "cache")
def test_with_all_scores_kept_no_machine_is_opened(
    here: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_KEY", KEY)
    words = [
        "script.py",
        "data.jsonl",
        "--sandbox",
        "folder",
        "--cache",
        "--json",
        "--overwrite",
        "--limit",
        "2",
        "-o",
        "run/",
    ]
    first = run(*words)
    assert first.exit_code == 0, first.stderr
    rows = Path("run/results.jsonl").read_text()

    async def none(_: object) -> None:
        raise SandboxError("it opens a machine")

    with monkeypatch.context() as patch:
        patch.setattr("sandboxes.remote.sandbox.RemoteSandbox.open", none)
        again = run(*words)
        assert again.exit_code == 0, again.stderr
        assert json.loads(again.stdout)["cached"] == 2
        manifest = json.loads(Path("run/manifest.json").read_text())
        assert manifest["sandbox"] == {"sandbox": json.loads(rows.splitlines()[0])["sandbox"]}
        assert run(*words[:-4], "--limit", "3").exit_code == 3, "the third row needs one"


@pytest.mark.rotating("scores that are kept", "remote", "cache")
def test_scores_of_another_machine_are_not_mixed_with_its_own(
    here: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_KEY", KEY)
    words = ["script.py", "data.jsonl", "--sandbox", "folder", "--cache", "--json", "--limit"]
    assert run(*words, "2").exit_code == 0
    identity: Any = RemoteSandbox.identity
    with monkeypatch.context() as patch:  # as if the provider had other machines since
        patch.setattr(RemoteSandbox, "identity", property(lambda self: identity.fget(self) + "/newer"))
        mixed = run(*words, "3")
        assert mixed.exit_code == 3
        assert "the scores taken from the cache are of folder/" in mixed.stderr
        assert "run it again, which scores all rows there" in mixed.stderr
        for hits in (0, 3):
            again = run(*words, "3")
            assert (again.exit_code, json.loads(again.stdout)["cached"]) == (0, hits), again.stderr


@pytest.mark.rotating("scores that are kept", "remote", "cache")
def test_a_run_that_goes_on_takes_no_scores_of_another_machine(
    here: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_KEY", KEY)
    words = ["script.py", "data.jsonl", "--sandbox", "folder", "--cache", "-q", "--limit"]
    assert run(*words, "3", "-o", "run/").exit_code == 0
    path = Path("run/results.jsonl")
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    identity: Any = RemoteSandbox.identity
    monkeypatch.setattr(RemoteSandbox, "identity", property(lambda self: identity.fget(self) + "/newer"))
    assert [run(*words, "4").exit_code for _ in range(2)] == [3, 0], "the first finds that the machines are others"
    mixed = run(*words, "3", "-o", "run/", "--resume")
    assert mixed.exit_code == 2, path.read_text()
    assert "run/ cannot be resumed: the sandbox was folder/" in mixed.stderr
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.rotating("scores that are kept", "wasm", "cache")
def test_the_file_of_a_project_may_ask_for_it(here: Path) -> None:
    (here / "evalcell.toml").write_text('dataset = "data.jsonl"\nevaluator = "script.py"\ncache = true\njobs = 1\n')
    for hits in (0, 39):
        result = evalcell("run", "--json")
        assert f'"cached": {hits}' in result.stdout, result.output
