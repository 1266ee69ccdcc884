"""The same words give the same rows through every door: the commands, Python, HTTP and MCP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from mcp import Client as McpClient

import templates
from runner import Client, InputMapping, RowScorer, check_examples, evaluate, parity, read_evaluator, reward, stream
from runner.cli.main import cli
from runner.core.doors import speaking
from runner.core.types import Result
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.evaluators.resolve import choose, find_dataset, find_evaluator, find_files
from runner.server.service.rows import as_row
from sandboxes import SandboxConfig, Script
from sandboxes.base import Language
from tests import recorder
from tests.scripts import script
from tests.server.http.live import Live, live
from tests.server.mcp.agent import call
from tests.several import ROWS, SCORES, Several, both
from tests.skips import need

FEW = 3
NEEDED: dict[str, dict[str, Any]] = {
    "contains": {"words": ["the", "answer"]},
    "json-schema": {"schema": {"type": "object"}},
    "pairwise": {"other": {}},
    "regex": {"pattern": "[a-z]+"},
    "regex-match": {"pattern": "[a-z]+"},
}
"""Parameters that a demo does not give."""
ROW = ("id", "evaluator", "version", "sandbox", "outcome", "label", "score", "explanation", "error", "stdout")
ABBREVIATED: dict[Language, str] = {"python": "py", "typescript": "ts"}


class Template(NamedTuple):
    """A template in one of its languages."""

    name: str
    language: Language

    def __str__(self) -> str:
        return f"{self.name}-{self.language}"


TEMPLATES = [
    Template(name, language)
    for name in templates.names()
    for language in templates.languages(name)
    if "evalcell_judge" not in find_evaluator(name, language).source
]
"""Those that ask no judge, which few entry points have: tests/engine/test_asks.py."""
SOME = ("tfidf-cosine-python", "json-distance-typescript", "contains-python", "classification-python")
"""One needs a file, one is TypeScript, one has no demo of its own and needs a parameter, one needs packages."""


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The recorder, as pip would leave it."""
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "recorder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[evalcell.sandboxes]\nrecorder = tests.recorder:RecorderSandbox\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


class Doors:
    """Every door, with one template in one sandbox."""

    def __init__(self, template: Template, backend: str, folder: Path) -> None:
        self._name, self._language = template
        self._config = SandboxConfig(backend=backend, jobs=1)
        self._language_option = ["--lang", ABBREVIATED[self._language]]
        self._backend = backend
        literals = NEEDED.get(self._name, {})
        self._set = [word for name, value in literals.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        self._mapping = InputMapping(literals=literals)
        self._file = folder / "rows.jsonl"

    def run(self) -> list[dict[str, Any]]:
        words = ["--sandbox", self._backend, "-j", "1", "--limit", str(FEW), *self._set]
        self._invoke("run", "demo", *words, "-q", "-o", str(self._file))
        return [_row(json.loads(line)) for line in self._file.read_text("utf-8").splitlines()]

    def evaluate(self) -> list[dict[str, Any]]:
        report = evaluate(self._name, "demo", sandbox=self._config, mapping=self._mapping, language=self._language)
        return [_row(result.model_dump()) for result in report.results]

    def stream(self) -> list[dict[str, Any]]:
        async def collect() -> list[Result]:
            results: list[Result] = []
            found = stream(self._name, "demo", sandbox=self._config, mapping=self._mapping, language=self._language)
            async with aclosing(found):
                async for result in found:
                    results.append(result)
                    if len(results) == FEW:
                        break
            return results

        return [_row(result.model_dump()) for result in asyncio.run(collect())]

    def check(self) -> int:
        return self._invoke("check", "demo", "--sandbox", self._backend, *self._set)[0]

    def test(self) -> dict[str, Any]:
        return _judged(json.loads(self._invoke("test", "--sandbox", self._backend, "-j", "1", "--json")[1]))

    def check_examples(self) -> dict[str, Any]:
        return _judged(
            check_examples(self._name, sandbox=self._config, language=self._language).model_dump(mode="json")
        )

    def parity(self, dataset: str) -> dict[str, Any]:
        words = ["--sandbox", self._backend] * 2 + ["-j", "1", "--limit", str(FEW), "--json"]
        words += self._set if dataset == "demo" else []
        found: dict[str, Any] = json.loads(self._invoke("parity", dataset, *words)[1])
        return found

    def compare(self, dataset: str) -> dict[str, Any]:
        found = parity(
            self._name,
            dataset,
            sandboxes=[self._config] * 2,
            mapping=self._mapping if dataset == "demo" else None,
            limit=FEW,
            language=self._language,
        )
        return found.model_dump(mode="json")

    def _invoke(self, command: str, *arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, [command, self._name, *arguments, *self._language_option])
        assert result.exit_code != 2, result.output
        return result.exit_code, result.stdout


def _untimed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"duration_ms": 0, "waiting_ms": 0}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in ROW}


def _judged(report: dict[str, Any]) -> dict[str, Any]:
    return report | {"examples": [case | {"result": _untimed(case["result"])} for case in report["examples"]]}


class Through(NamedTuple):
    """What went in and out by one door."""

    answer: Any
    loaded: set[str]
    called: list[str]


def through(door: Callable[[], Any]) -> Through:
    recorder.LOADED.clear()
    recorder.CALLED.clear()
    answer = door()
    return Through(answer, set(recorder.LOADED), list(recorder.CALLED))


def agreed(doors: Doors) -> tuple[dict[str, Through], dict[str, Through]]:
    """The first rows of the demo, and the cases, through every door; all say the same of them."""
    demo = {
        "run": through(doors.run),
        "evaluate": through(doors.evaluate),
        "stream": through(doors.stream),
        "check": through(doors.check),
        "parity": through(lambda: doors.parity("demo")),
        "compare": through(lambda: doors.compare("demo")),
    }
    with speaking("options"):  # a message of a row that cannot be filled says it as the command does
        examples = through(doors.check_examples)
    cases = {
        "test": through(doors.test),
        "check_examples": examples,
        "parity": through(lambda: doors.parity("cases")),
        "compare": through(lambda: doors.compare("cases")),
    }
    first = demo["run"].answer
    assert len(first) == FEW
    assert demo["evaluate"].answer[:FEW] == demo["stream"].answer == first
    assert demo["check"].answer == (0 if any(row["outcome"] == "scored" for row in first) else 3)
    assert cases["test"].answer == cases["check_examples"].answer
    for found in (demo, cases):
        assert found["parity"].answer == found["compare"].answer
        assert (found["parity"].answer["rows"], found["parity"].answer["same"]) == (FEW, FEW)
    assert demo["parity"].answer["failed"] == sum(row["outcome"] == "failed" for row in first)
    return demo, cases


def _each() -> Iterator[Any]:
    alike = pytest.mark.thorough(f"templates that are assembled as {', '.join(SOME)}")
    for template in TEMPLATES:
        yield pytest.param(template, id=str(template), marks=[] if str(template) in SOME else [alike])


@pytest.mark.parametrize("template", list(_each()))
def test_every_door_hands_over_the_same(template: Template, tmp_path: Path) -> None:
    demo, cases = agreed(Doors(template, "recorder", tmp_path))
    every = set().union(*(door.loaded for door in (*demo.values(), *cases.values())))
    # Those that show figures of all rows load the script once more, for its `aggregate`.
    (loaded,) = (text for text in every if json.loads(text)[0][2] == "evaluate")
    loads, shown, _ = json.loads(loaded)
    # Nobody looks through a template's own text for what could reach the process that holds it.
    author = "" if template.language == "python" else None
    loads = [tuple(one) if isinstance(one, list) else one for one in loads]  # of JSON, which has no tuples
    assert Script(*loads) == script(templates.source(*template), template.language)._replace(author=author)
    has_one = find_evaluator(*template).aggregate is not None
    assert [name for name, door in demo.items() if len(door.loaded) > 1] == (["run", "evaluate"] if has_one else [])
    assert shown["language"] == template.language
    assert shown["files"] == {name: str(path) for name, path in templates.demo_files(template.name).items()}
    first = demo["run"].called[:FEW]
    assert first == [row["explanation"] for row in demo["run"].answer]
    for name, door in demo.items():
        assert set(door.called if name != "evaluate" else door.called[:FEW]) >= set(first), name
    assert sorted(cases["test"].called) == sorted(cases["check_examples"].called)
    assert set(cases["parity"].called) == set(cases["compare"].called) == set(cases["test"].called[:FEW])


@pytest.mark.timeout(600)  # ten times a sandbox with scikit-learn, on a machine that does something else as well
@pytest.mark.thorough("what the doors hand over, which is compared without running it")
@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_every_door_gives_the_same_rows(template: Template, tmp_path: Path) -> None:
    evaluator = find_evaluator(*template)
    backend = choose(evaluator, files=find_files("demo", template.name)).config.backend
    need(backend)
    demo, cases = agreed(Doors(template, backend, tmp_path))
    assert {row["outcome"] for row in demo["run"].answer} <= {"scored", "abstained"}
    assert (cases["test"].answer["failed"], cases["test"].answer["lost"]) == (0, 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("doors")) as found:
        yield found


def _served() -> Iterator[Any]:
    alike = pytest.mark.thorough("a template that is sent as contains is")
    for template in TEMPLATES:
        usual = str(template) == "contains-python"
        yield pytest.param(template, id=str(template), marks=[] if usual else [alike])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("template", list(_served()))
def test_a_server_gives_the_same_rows(server: Live, template: Template) -> None:
    """As a run of a dataset, as rows that are scored at once, and as a tool of an agent."""
    name, language = template
    if templates.demo_files(name):
        pytest.skip("its demo needs a file, and a request names no files of a server")
    evaluator = find_evaluator(*template)
    backend = choose(evaluator).config.backend
    need(backend)
    literals = NEEDED.get(name, {})
    mapping = InputMapping(literals=literals)
    wish: dict[str, Any] = {"mapping": mapping, "language": language, "limit": FEW}
    here = evaluate(name, "demo", **wish)
    with open_dataset(find_dataset("demo", name, language)) as demo:
        rows = [as_row(case) for case in islice(demo, FEW)]
    with Client(server.url) as client:
        run, at_once = client.evaluate(name, "demo", **wish), client.evaluate(name, rows, **wish)
    for report in (run, at_once):
        assert [_row(one.model_dump()) for one in report.results] == [_row(one.model_dump()) for one in here.results]
        assert report.summary.mean == here.summary.mean
    assert run.summary.aggregates == at_once.summary.aggregates == here.summary.aggregates

    async def tried() -> dict[str, Any]:
        async with McpClient(f"{server.url}/mcp") as agent:
            return await call(agent, "try", source=evaluator.source, language=language, rows=rows, values=literals)

    reply = asyncio.run(tried())
    own = ("id", "outcome", "label", "score", "explanation")
    found = [{part: one.get(part) for part in own} for one in reply["results"]]
    assert found == [{part: one[part] for part in own} for one in (_row(each.model_dump()) for each in here.results)]


class FolderDoors:
    """Every door of this machine, with one evaluator that is a path; each gives scores in the order of the rows."""

    def __init__(self, script: Path, language: Language, place: Path) -> None:
        self.script, self.language = str(script), language
        self.place = place
        self.name = script.stem
        self.rows = write(place / "rows.jsonl", ROWS)

    def run(self) -> list[float]:
        return self._scores("run", self.script, str(self.rows))

    def kept(self) -> list[float]:
        self._invoke("add", self.script, "--name", "kept")
        return self._scores("run", "kept@latest", str(self.rows))

    def written_back(self) -> list[float]:
        self._invoke("add", self.script, "--name", "kept")
        back = self.place / f"back-{self.name}"
        self._invoke("show", "kept@latest", "-o", str(back))
        return self._scores("run", str(back), str(self.rows))

    def parts(self) -> list[float]:
        for number, row in enumerate(ROWS):
            write(self.place / f"part-{number}.jsonl", [row])
        folder = self.place / f"parts-{self.name}"
        self._invoke("run", self.script, str(self.place / "part-*.jsonl"), "-q", "-j", "1", "-o", f"{folder}/")
        return [score for part in sorted(folder.rglob("results.jsonl")) for score in read(part)]

    def project(self) -> list[float]:
        out = self.place / f"project-{self.name}"
        settings = {"evaluator": self.script, "dataset": str(self.rows), "output": f"{out}.jsonl"}
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        config = self.place / f"{self.name}.toml"
        config.write_text(f"[run.only]\n{text}")
        self._invoke("run", "--config", str(config), "-q")
        return read(Path(f"{out}.jsonl"))

    def lines(self) -> list[float]:
        text = "".join(json.dumps({"id": number, **row}) + "\n" for number, row in enumerate(ROWS))
        answers = map(json.loads, self._invoke("lines", self.script, input=text).splitlines())
        return [one["score"] for one in sorted(answers, key=lambda one: str(one["id"]))]

    def evaluate(self) -> list[float | None]:
        return [one.score for one in evaluate(self.script, ROWS).results]

    def read(self) -> list[float | None]:
        return [one.score for one in evaluate(read_evaluator(self.script), ROWS).results]

    def stream(self) -> list[float | None]:
        async def collect() -> list[Result]:
            async with aclosing(stream(self.script, ROWS)) as found:
                return [result async for result in found]

        return [one.score for one in asyncio.run(collect())]

    def row_by_row(self) -> list[float | None]:
        with RowScorer(self.script) as scorer:
            return [scorer.score(row).score for row in ROWS]

    def reward(self) -> list[float | None]:
        with reward(self.script) as score:
            outputs, references = ([row[name] for row in ROWS] for name in ("output", "reference"))
            return score(["?"] * len(ROWS), outputs, reference=references)

    def parity(self) -> list[float]:
        backends = ["wasm", "process"] if self.language == "python" else ["deno", "deno"]
        found = parity(self.script, ROWS, sandboxes=[SandboxConfig(backend=one) for one in backends])
        assert (found.same, found.failed) == (len(ROWS), 0)
        return SCORES

    def test(self) -> list[float]:
        found = json.loads(self._invoke("test", self.script, str(self._examples()), "--json"))
        assert found == json.loads(check_examples(self.script, self._examples()).model_dump_json()) | found
        return [one["result"]["score"] for one in found["examples"]]

    def pytest(self) -> list[float]:
        script = Path(self.script)
        script = script / f"evaluator{LANGUAGE_SUFFIX[self.language]}" if script.is_dir() else script
        examples = self._examples(script.with_name(f"{script.stem}.cases.jsonl"))
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(examples),
            f"--rootdir={self.place}",
        ]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.place)
        assert (done.returncode, f"{len(ROWS)} passed" in done.stdout) == (0, True), done.stdout
        return SCORES

    def _examples(self, path: Path | None = None) -> Path:
        rows = [{**row, "expected": {"score": score}} for row, score in zip(ROWS, SCORES, strict=True)]
        return write(path or self.place / "examples.jsonl", rows)

    def _scores(self, *words: str) -> list[float]:
        out = self.place / "out.jsonl"
        self._invoke(*words, "-q", "-o", str(out), "--overwrite")
        return read(out)

    def _invoke(self, *words: str, input: str | None = None) -> str:
        result = CliRunner().invoke(cli, list(words), input=input)
        assert result.exit_code == 0, result.output
        return result.stdout


LANGUAGE_SUFFIX: dict[Language, str] = {"python": ".py", "typescript": ".ts"}
FOLDER_DOORS = [name for name, door in vars(FolderDoors).items() if callable(door) and not name.startswith("_")]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[float]:
    return [json.loads(line)["score"] for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("door", FOLDER_DOORS)
@both
def test_every_door_takes_an_evaluator_of_several_files(
    several: Several, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that in one file gives; what a server and a cluster give is in their own tests."""
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    suffix = LANGUAGE_SUFFIX[several.language]
    one = tmp_path / f"one{suffix}"
    one.write_text(several.whole)
    scores = [
        getattr(FolderDoors(script, several.language, tmp_path), door)()
        for script in (one, several.lay(tmp_path / "many"))
    ]
    assert scores == [SCORES, SCORES]
