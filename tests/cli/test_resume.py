"""`--resume`: a run that was stopped goes on, and ends as if it had not been; anything else is refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.core.errors import OutputError, ResumeError
from runner.results.output.folder_lock import FolderLock
from sandboxes import SandboxConfig
from tests.cli.commands import header, run, write_rows
from tests.cli.test_process import start, wait_for_rows
from tests.skips import need

SCRIPT = header(
    "import random\nSEEN = []\n"
    "def evaluate(output):\n"
    "    SEEN.append(output)\n"
    "    if output == 'x7':\n        raise ValueError(output)\n"
    "    print(output)\n"
    "    return {'label': output[:2], 'score': random.random(), 'explanation': f'{len(SEEN)} \u2028 \u0085'}\n",
    "[tool.evalcell]",
    'output = {kind = "continuous", direction = "maximize", lower_bound = 0, upper_bound = 1}',
)
TABLES = ("x.csv", "x.json", "x.parquet")
OPTIONS = ("--seed", "3", "--keep", "who")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noisy.py").write_text(SCRIPT)
    rows: list[dict[str, Any]] = [{"id": f"r{n}", "output": f"x{n}", "who": [n, "\ud800é"]} for n in range(1, 61)]
    rows[20] = {"id": "without"}
    write_rows(tmp_path / "data.jsonl", rows)
    return tmp_path


def score(folder: str, *options: str, files: tuple[str, ...] = ()) -> Any:
    outputs = [word for file in files for word in ("-o", f"{folder}.{file}")]
    return run("noisy.py", "data.jsonl", *OPTIONS, "-o", f"{folder}/", *outputs, *options)


def stopped(folder: str, bytes: int, source: str = "full") -> None:
    """A folder as a run leaves it that was killed once it had written so much."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    unfinish(folder)
    with open(f"{folder}/results.jsonl", "r+b") as file:
        file.truncate(bytes)


def unfinish(folder: str, **changed: Any) -> None:
    path = Path(folder, "manifest.json")
    found = json.loads(path.read_text())
    found |= {"state": "unfinished", "finished": None, "summary": None} | changed
    path.write_text(json.dumps(found))


def untimed(path: str) -> list[str]:
    """The rows of a text file without the times."""
    if path.endswith(".csv"):
        import csv

        with open(path, newline="") as file:
            return [json.dumps({**row, "duration_ms": 0}) for row in csv.DictReader(file)]
    text = Path(path).read_text()
    rows = json.loads(text) if path.endswith(".json") else map(json.loads, text.splitlines())
    return [json.dumps({**row, "duration_ms": 0}) for row in rows]


def manifest(folder: str) -> dict[str, Any]:
    found = json.loads(Path(folder, "manifest.json").read_text())
    found["summary"] |= {"seconds": 0, "rows_per_second": 0}
    return {**found, "started": 0, "finished": 0, "results": 0}  # its digest is of times, too


@pytest.mark.parametrize("isolation", ["call", "batch"])
@pytest.mark.parametrize(
    "repeat",
    [
        pytest.param((), id="once"),
        pytest.param(("--repeat", "3"), id="thrice", marks=pytest.mark.rotating("runs that go on", "wasm", "engine")),
    ],
)
def test_it_ends_as_if_it_had_not_been_stopped(here: Path, isolation: str, repeat: tuple[str, ...]) -> None:
    more = ("--isolation", isolation, *repeat)
    assert score("full", *more, files=TABLES).exit_code == 0
    whole = Path("full/results.jsonl").read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    cuts = (0, ends[20] + 1, len(whole)) if isolation == "call" else (5, ends[20], ends[-2] + 7)
    for cut in cuts:
        stopped("part", cut)
        kept = Path("part/results.jsonl").read_bytes()
        result = score("part", *more, "--resume", files=TABLES)
        assert result.exit_code == 0, result.stderr
        for name in ("/results.jsonl", ".x.csv", ".x.json"):
            assert untimed(f"part{name}") == untimed(f"full{name}"), (cut, name)
        assert manifest("part") == manifest("full")
        if isolation == "call":  # not one of them was scored again
            assert Path("part/results.jsonl").read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    import pyarrow.parquet as pq

    tables = [pq.read_table(f"{name}.x.parquet").drop(["duration_ms"]) for name in ("full", "part")]
    assert tables[0].equals(tables[1])


def test_it_says_where_it_goes_on(here: Path) -> None:
    score("full")
    stopped("part", Path("full/results.jsonl").read_bytes().index(b'"r31"'))
    result = score("part", "--resume")
    assert "part/ goes on after 30 rows; sandbox: " in result.stderr
    assert "60: 58 scored" in result.stdout


def test_nothing_to_go_on_with_is_a_beginning(here: Path) -> None:
    assert score("new", "--resume").exit_code == 0
    Path("bare").mkdir()
    Path("bare/results.jsonl").write_text('{"half of a ro')
    assert score("bare", "--resume").exit_code == 0
    assert untimed("bare/results.jsonl") == untimed("new/results.jsonl")


def test_a_finished_run_is_judged_and_nothing_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = score("full", "--max-failed", "5")
    score("other", files=TABLES)
    before = {path: path.read_bytes() for path in Path("full").iterdir()}

    async def none(_: object) -> None:
        raise AssertionError("it opens a sandbox")

    monkeypatch.setattr("sandboxes.wasm.sandbox.WasmSandbox.open", none)
    for gate, code in (("mean<0.9", 1), ("mean>0.9", 0)):
        result = score("full", "--resume", "--max-failed", "5", "--fail-if", gate, files=TABLES)
        assert (result.exit_code, first.exit_code) == (code, 0), result.stderr
        assert "full/ is finished, with 60 rows: nothing is scored again" in result.stderr
        assert result.stdout.partition("time ")[0] == first.stdout.partition("time ")[0], "the worst rows, the figures"
        assert ("rows/s" in first.stdout, "rows/s" in result.stdout) == (True, False), "no row is new"
        assert "written: full/" not in result.stdout
        assert "written: full.x.csv" in result.stdout, "other files are written, from its rows"
    assert {path: path.read_bytes() for path in Path("full").iterdir()} == before
    for name in (".x.csv", ".x.json"):
        assert untimed(f"full{name}") == untimed(f"other{name}")


def test_a_finished_run_that_was_begun_again_goes_on(here: Path) -> None:
    """It was killed after its rows were emptied, and before its manifest was replaced."""
    score("full")
    shutil.copytree("full", "part")
    Path("part/results.jsonl").write_text("")
    assert score("part", "--resume").exit_code == 0
    assert untimed("part/results.jsonl") == untimed("full/results.jsonl")


def another_script(here: Path) -> list[str]:
    (here / "noisy.py").write_text(SCRIPT + "\n# another\n")
    return []


def another_row(here: Path) -> list[str]:
    with (here / "data.jsonl").open("a") as file:
        file.write('{"output": "one more"}\n')
    return []


def another_name(here: Path) -> list[str]:
    (here / "data.jsonl").rename("other.jsonl")
    (here / "data.jsonl").symlink_to("other.jsonl")
    (here / "noisy.py").rename("loud.py")
    return ["loud.py", "other.jsonl"]


CHANGED: list[tuple[Any, str]] = [
    (another_script, "the evaluator was version "),
    (another_row, "the dataset has another content"),
    (another_name, "the evaluator's name was noisy and is loud, the dataset was data.jsonl and is other.jsonl"),
    (["--map", "output=id"], "`mapping.paths.output` was $.output and is $.id"),
    (["--set", "output=1"], "`mapping.literals.output` was nothing and is 1"),
    (["--seed", "4"], "`seed` was 3 and is 4"),
    (["--timeout", "3"], "`limits.timeout` was 10.0 and is 3.0"),
    (["--memory", "100"], "`limits.memory` was "),
    (["--isolation", "batch"], "`isolation` was call and is batch"),
    (["--sandbox", "process"], "the sandbox was wasm and is process"),
    (["--with", "six", "--sandbox", "process"], "`packages` was [] and is ['six']"),
    (["--keep", "id"], "`dataset.keep` was ['who'] and is ['who', 'id']"),
    (["--limit", "8"], "it has 9 rows already, and `limit` is 8"),
    (["--id", "who"], "`dataset.id` was None and is who"),
    (["--repeat", "2"], "`repeat` was 1 and is 2"),
    (["--empty", "null"], "`dataset.empty` was text and is null"),
]


def test_whatever_changed_is_named_with_the_command_that_starts_anew(here: Path) -> None:
    score("full")
    stopped("part", 3300)
    saved = {name: (here / name).read_text() for name in ("noisy.py", "data.jsonl")}
    before = Path("part/results.jsonl").read_bytes(), Path("part/manifest.json").read_bytes()
    for change, words in CHANGED:
        for path in (*here.glob("*.py"), *here.glob("*.jsonl")):
            path.unlink()
        for name, text in saved.items():
            (here / name).write_text(text)
        options = change(here) if callable(change) else change
        names = options if callable(change) and options else ["noisy.py", "data.jsonl"]
        result = run(*names, *OPTIONS, "-o", "part/", "--resume", *([] if callable(change) else options))
        assert (result.exit_code, result.stdout) == (2, ""), (words, result.stderr)
        assert f"part/ cannot be resumed: {words}" in result.stderr or f", {words}" in result.stderr, result.stderr
        first = "Run this to start anew, without the rows that are there:\n  evalcell run -j 1"
        assert f"{first} {' '.join(names)} --seed 3 --keep who -o part/" in result.stderr
        assert result.stderr.splitlines()[-1].endswith(" --overwrite")
        assert (Path("part/results.jsonl").read_bytes(), Path("part/manifest.json").read_bytes()) == before


def edited(change: Callable[[list[Any]], object]) -> Callable[[], None]:
    def edit() -> None:
        path = Path("part/results.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return edit


def lines(change: Callable[[list[bytes]], object]) -> Callable[[], None]:
    def edit() -> None:
        path = Path("part/results.jsonl")
        found = path.read_bytes().splitlines(keepends=True)
        change(found)
        path.write_bytes(b"".join(found))

    return edit


def told(**changed: Any) -> Callable[[], None]:
    return lambda: unfinish("part", **changed)


EDITED: list[tuple[Callable[[], object], str]] = [
    (edited(lambda rows: rows.pop(3)), "results.jsonl:4: `id` is 'r5', and should be 'r4'"),
    (edited(lambda rows: rows.insert(3, rows[3])), "results.jsonl:5: `id` is 'r4', and should be 'r5'"),
    (edited(lambda rows: rows.extend(rows[:40])), "results.jsonl:31: `id` is 'r1', and should be 'r31'"),
    (edited(lambda rows: rows[3].update(score=2)), "results.jsonl:4: label 'x4' and score 2.0 are none that"),
    (edited(lambda rows: rows[3].update(score=True)), "results.jsonl:4: `score`: Input should be a valid number"),
    (edited(lambda rows: rows[3].update(score="0.5")), "results.jsonl:4: `score`: Input should be a valid number"),
    (
        edited(lambda rows: rows[3].update(outcome="failed")),
        "results.jsonl:4: the outcome is failed, and the error None",
    ),
    (
        edited(lambda rows: rows[6]["error"].update(kind="lost")),
        "results.jsonl:7: the outcome is failed, and the error 'lost'",
    ),
    (edited(lambda rows: rows[6].update(score=0.0)), "results.jsonl:7: the outcome is failed, and it has a score"),
    (edited(lambda rows: rows[6]["error"].update(kind="mapping")), "results.jsonl:7: `outcome` is"),
    (edited(lambda rows: rows[20].update(error={"kind": "mapping", "message": "x"})), "results.jsonl:21: `error` is"),
    (
        edited(lambda rows: rows[3].update(evaluator="other")),
        "results.jsonl:4: `evaluator` is 'other', and should be 'noisy'",
    ),
    (edited(lambda rows: rows[3].update(version="0")), "results.jsonl:4: `version` is '0'"),
    (edited(lambda rows: rows[3].update(sandbox="x")), "results.jsonl:4: `sandbox` is 'x'"),
    (edited(lambda rows: rows[3].update(given=rows[4]["given"])), "results.jsonl:4: `given` is '"),
    (edited(lambda rows: rows[3].update(row={"who": 4})), "results.jsonl:4: `row` is {'who': 4}"),
    (edited(lambda rows: rows[3].update(outputs={"b": {}})), "results.jsonl:4: it has outputs that"),
    (edited(lambda rows: rows[3].update({"\x1b[2J": 1})), "results.jsonl:4: `\\x1b[2J`: Extra inputs"),
    (edited(lambda rows: rows.__setitem__(3, [1])), "results.jsonl:4: `the row`: Input should be a valid dictionary"),
    (lines(lambda found: found.insert(3, b"\xff\n")), "results.jsonl:4: not UTF-8 at byte 1"),
    (lines(lambda found: found.insert(3, b"{}}\n")), "results.jsonl:4: not JSON: Extra data"),
    (lines(lambda found: found.insert(3, b"[" * 100_000 + b"\n")), "results.jsonl:4: nested too deeply"),
    (lines(lambda found: found.insert(3, b'{"score": NaN}\n')), "results.jsonl:4: not JSON: NaN is not JSON"),
    (lines(lambda found: found.insert(3, b"\n")), "results.jsonl:4: not JSON"),
    (lambda: Path("part/manifest.json").write_text("{\n\n,"), "manifest.json:3: not JSON"),
    (lambda: Path("part/manifest.json").write_text("[]"), "manifest.json: not a manifest: `state` is nothing"),
    (lambda: Path("part/manifest.json").unlink(), "part/ has rows, but no manifest.json"),
    (told(started="yesterday"), "manifest.json: `started` is 'yesterday', which is no time"),
    (told(started="2026-01-01T00:00:00"), "which is no time"),
    (told(sandbox={"sandbox": 3}), "manifest.json: not a manifest: `sandbox.sandbox` is 3"),
    (told(sandbox={"sandbox": "wasm/\x1b[2J"}), "results.jsonl:1: `sandbox` is"),
    (told(evalcell="0.0.1"), "part/ cannot be resumed: evalcell was 0.0.1 and is "),
    (told(seed=3.0), "`seed` was 3.0 and is 3"),
    (told(files={"A": "b"}), "`files.A` was b and is nothing"),
]


@pytest.mark.rotating("long tests", "data")
def test_what_somebody_else_wrote_is_refused_with_file_and_line(here: Path) -> None:
    score("full")
    half = Path("full/results.jsonl").read_bytes().index(b'"r31"') - 7
    for edit, words in EDITED:
        stopped("part", half)
        edit()
        before = {path: path.read_bytes() for path in Path("part").iterdir()}
        result = score("part", "--resume")
        assert result.exit_code == 2, (words, result.stdout)
        assert words in result.stderr, result.stderr
        assert "Run this to start anew" in result.stderr
        assert "\x1b" not in result.stderr
        assert {path: path.read_bytes() for path in Path("part").iterdir()} == before, words


def test_more_rows_than_the_dataset_has_are_refused(here: Path) -> None:
    score("full")
    rows = Path("full/results.jsonl").read_text().splitlines(keepends=True)
    stopped("part", 0)
    Path("part/results.jsonl").write_text("".join([*rows, rows[0]]))
    result = score("part", "--resume")
    assert result.exit_code == 2
    assert "part/results.jsonl:61: the dataset has no such row" in result.stderr


def test_another_sandbox_is_seen_once_it_is_open(here: Path) -> None:
    score("full")
    stopped("part", 3300)
    path = Path("part/results.jsonl")
    old = json.loads(path.read_text().splitlines()[0])["sandbox"]
    path.write_text(path.read_text().replace(old, "wasm/older"))
    unfinish("part", sandbox={"sandbox": "wasm/older"})
    result = score("part", "--resume")
    assert result.exit_code == 2
    assert f"part/ cannot be resumed: the sandbox was wasm/older and is {old}" in result.stderr


@pytest.mark.usefixtures("theirs")
def test_other_packages_are_refused_and_the_lock_is_the_way_on(here: Path) -> None:
    options = ("--sandbox", "theirs", "--with", "numpy")
    score("full", *options)
    stopped("part", 3300)
    Path("part/requirements.lock").write_text("numpy==1.0 --hash=sha256:" + "0" * 64 + "\n")
    unfinish("part", lock="part/requirements.lock")
    result = score("part", "--resume", *options)
    assert result.exit_code == 2
    assert "give that one as --lock, or give --overwrite in place of --resume" in result.stderr
    assert score("part", "--resume", *options, "--lock", "part/requirements.lock").exit_code == 0
    assert len(untimed("part/results.jsonl")) == 60


def test_what_cannot_be_resumed_is_refused(here: Path) -> None:
    result = run("noisy.py", "data.jsonl", "-o", "x.jsonl", "--resume")
    assert (
        result.exit_code,
        "--resume goes on with a run in a folder; give one, such as -o run/" in result.stderr,
    ) == (2, True)
    Path("run").mkdir()
    result = run("noisy.py", "-", "-o", "run/", "--resume", input='{"output": "x"}\n')
    assert (result.exit_code, "standard input cannot be read a second time" in result.stderr) == (2, True)


@pytest.mark.skipif(sys.platform == "win32", reason="folders are locked on POSIX systems")
def test_two_runs_do_not_write_to_one_folder(here: Path) -> None:
    score("full")
    lock = FolderLock(here / "full")
    lock.take()
    for options in ((), ("--resume",)):
        result = score("full", *options)
        assert result.exit_code == 2
        assert "-o full: another run writes there; wait for it" in result.stderr
    lock.release()
    assert score("full", "--resume").exit_code == 0
    with pytest.raises(ResumeError):  # and who is refused lets go of it
        evaluate("noisy.py", "data.jsonl", output="full/", resume=True, seed=9)
    lock.take()
    lock.release()


def test_in_python_too_with_rows_of_ones_own(here: Path) -> None:
    rows = [{"id": n, "output": f"y{n}"} for n in range(40)]
    config = SandboxConfig(backend="wasm", jobs=1)
    full = evaluate("noisy.py", rows, output="full/", seed=1, sandbox=config)
    stopped("part", Path("full/results.jsonl").read_bytes().index(b'"20"'))
    again = evaluate("noisy.py", iter(rows), output="part/", resume=True, seed=1, sandbox=config)
    assert [r.model_dump(exclude={"duration_ms"}) for r in again.results] == [
        r.model_dump(exclude={"duration_ms"}) for r in full.results
    ]
    assert again.summary.mean == full.summary.mean
    assert untimed("part/results.jsonl") == untimed("full/results.jsonl")
    stopped("part", Path("full/results.jsonl").read_bytes().index(b'"20"'))
    with pytest.raises(
        ResumeError, match=r"results.jsonl:6: `id` is '5', and should be 'other'.*give `overwrite` in place of `resume`"
    ):
        evaluate("noisy.py", [*rows[:5], {"id": "other", "output": "z"}], output="part/", resume=True, seed=1)
    stopped("part", Path("full/results.jsonl").read_bytes().index(b'"20"'))
    with pytest.raises(ResumeError, match=r"results.jsonl:6: `given` is"):
        evaluate("noisy.py", [*rows[:5], {"id": 5, "output": "z"}], output="part/", resume=True, seed=1)
    with pytest.raises(OutputError, match="`resume` goes on with a run in a folder"):
        evaluate("noisy.py", rows, resume=True)


KILLS = 20
SLOW = "import time\ndef evaluate(output):\n    time.sleep(0.001)\n    return {'score': len(output), 'label': output}\n"


def killed_runs() -> list[Any]:
    every = pytest.mark.thorough("fewer kills in each sandbox")
    found = []
    for backend, script in (("wasm", "slow.py"), ("process", "slow.py"), ("deno", "slow.ts")):
        few = pytest.mark.rotating("kills of runs that go on", backend, "engine")
        found.append(pytest.param(backend, script, 2, marks=few, id=f"{backend}-few"))
        found.append(pytest.param(backend, script, KILLS, marks=every, id=f"{backend}-many"))
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("backend", "script", "kills"), killed_runs())
def test_killed_at_any_moment_no_row_is_lost_or_scored_twice(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, backend: str, script: str, kills: int
) -> None:
    need(backend)
    here = open_folder
    monkeypatch.chdir(here)
    (here / "slow.py").write_text(SLOW)
    (here / "slow.ts").write_text(
        "export function evaluate({ output }: { output: string }) {\n"
        "  const until = performance.now() + 1;\n  while (performance.now() < until);\n"
        "  return { score: output.length, label: output };\n}\n"
    )
    count = 3000 if kills == KILLS else 500
    write_rows(here / "data.jsonl", [{"output": "x" * (n % 90)} for n in range(count)])
    words = ["run", script, "data.jsonl", "--sandbox", backend, "-j", "2", "-q", "-o"]
    full, part = f"full-{backend}-{kills}/", f"part-{backend}-{kills}/"
    if not Path(full).exists():
        assert start(here, *words, full).wait(120) == 0
    chance = random.Random(backend)
    began = time.monotonic()
    for _ in range(kills):
        process = start(here, *words, part, "--resume", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if chance.random() < 0.6 and Path(part, "manifest.json").exists():
            at = Path(part, "results.jsonl").read_bytes().count(b"\n")
            wait_for_rows(Path(part, "results.jsonl"), min(count, at + chance.randrange(1, count // 12)))
        else:
            time.sleep(chance.uniform(0.0, 1.2))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    process = start(here, *words, part, "--resume")
    assert process.wait(120) == 0, process.communicate()
    assert untimed(f"{part}results.jsonl") == untimed(f"{full}results.jsonl"), time.monotonic() - began
    assert {**manifest(part), "command": ""} == {**manifest(full), "command": ""}


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize("lock", ["/etc/passwd", "../../x", "a\x1b[31m b"])
def test_the_manifest_of_somebody_else_names_no_file_of_the_command(here: Path, lock: str) -> None:
    for options, kept in ((("--sandbox", "theirs", "--with", "numpy"), "part/requirements.lock"), ((), None)):
        assert score("full", "--overwrite", *options).exit_code == 0
        stopped("part", 3300)
        unfinish("part", lock=lock)
        if kept is None:
            Path("part/requirements.lock").unlink(missing_ok=True)
        result = score("part", "--resume", *options)
        assert result.exit_code == 0, result.stderr
        found = json.loads(Path("part/manifest.json").read_text())
        assert found["lock"] == kept
        assert lock not in found["command"]
        assert (f"--lock {kept}" in found["command"]) is (kept is not None)


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59.999+00:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_no_run_began_at_is_refused(here: Path, when: str) -> None:
    score("full")
    stopped("part", 3300)
    unfinish("part", started=when)
    result = score("part", "--resume")
    assert (result.exit_code, "which is no time; to start anew, give --overwrite" in result.stderr) == (2, True), (
        result.stderr
    )
