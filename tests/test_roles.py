"""One mapping of two columns works for every evaluator and through every door: columns are named by their roles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mcp import Client as McpClient

import templates
from runner import (
    Client,
    InputMapping,
    compare_datasets,
    evalcell_scorer,
    evaluate,
    evaluate_all,
    evaluate_project,
    parity,
    read_evaluator,
    reward,
    stream,
)
from runner.cli.main import cli
from runner.core.errors import ColumnsError, EvaluatorError, MappingError
from runner.core.types import Case, Evaluator
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from runner.inputs.evaluators.mapping import bind
from runner.inputs.evaluators.resolve import choose, find_dataset, find_evaluator
from runner.server.service.rows import as_row
from tests.server.http.live import Live, finished, live
from tests.server.mcp.agent import call
from tests.server.page.forms import form
from tests.skips import need
from tests.test_doors import NEEDED, TEMPLATES, Template

VENDORS = Path(__file__).parent / "inputs/foreign/vendors/scripts"
MAPPING = {"output": "prediction", "reference": "gold"}
MAP = ["--map", "output=prediction", "--map", "reference=gold"]
ROWS = [{"prediction": p, "gold": g} for p, g in (("a", "a"), ("b", "c"), ("d", "d"))]
SCORES: list[float | None] = [1.0, 0.0, 1.0]
SCRIPTS = {
    "own": "def evaluate(answer, truth):\n    return float(answer == truth)\n",
    "promptfoo": 'def get_assert(output, context):\n    return output == context["vars"]["expected"]\n',
    "promptfoo_vars": 'def get_assert(output, context):\n    return output == context["vars"]["answer"]\n',
    "langsmith": (
        "def correct(outputs: dict, reference_outputs: dict) -> bool:\n"
        '    return outputs["answer"] == reference_outputs["answer"]\n'
    ),
    "openai": 'def grade(sample, item):\n    return float(sample["output_text"] == item["correct_answer"])\n',
    "verl": "def compute_score(solution_str, ground_truth):\n    return float(solution_str == ground_truth)\n",
    "braintrust": "def handler(output, expected):\n    return 1.0 if output == expected else 0.0\n",
}
PHOENIX = ("contains", "exact-match", "json-distance-strict", "levenshtein-distance", "regex")
"""Templates whose parameters have the names that Phoenix gives them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows, and each script as a file."""
    folder = tmp_path_factory.mktemp("roles")
    (folder / "v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, text in SCRIPTS.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server")) as found:
        yield found


def scores(results: Any) -> list[float | None]:
    return [one["score"] if isinstance(one, Mapping) else one.score for one in results]


class Doors:
    """Every way to run an evaluator; each gives the scores of the rows."""

    def __init__(self, evaluator: str, folder: Path, server: Live, tmp_path: Path) -> None:
        path = folder / f"{evaluator}.py"
        self.evaluator = str(path) if evaluator in SCRIPTS else evaluator
        self.source = SCRIPTS[evaluator] if evaluator in SCRIPTS else templates.source(evaluator)
        self.data, self.server, self.folder = str(folder / "v.jsonl"), server, tmp_path

    def command(self) -> list[float | None]:
        out = self.folder / "out.jsonl"
        self._invoke("run", self.evaluator, self.data, *MAP, "-q", "-o", str(out))
        return scores(map(json.loads, out.read_text().splitlines()))

    def command_with_several(self) -> list[float | None]:
        self._invoke("run", "-e", f"one={self.evaluator}", "-e", "contains", self.data, *MAP, *self._several())
        return scores(map(json.loads, (self.folder / "both/one/results.jsonl").read_text().splitlines()))

    def config_file(self) -> list[float | None]:
        return scores(evaluate_project(config=self._project("by-name", ""), progress=False)["all.one"].results)

    def config_file_by_command(self) -> list[float | None]:
        self._invoke("run", "--config", str(self._project("by-command", 'output = "results/"')), "-q")
        return scores(map(json.loads, (self.folder / "by-command/results/one/results.jsonl").read_text().splitlines()))

    def check(self) -> list[float | None]:
        self._invoke("check", self.evaluator, self.data, *MAP)
        return SCORES

    def python(self) -> list[float | None]:
        return scores(evaluate(self.evaluator, self.data, mapping=MAPPING, progress=False).results)

    def python_rows(self) -> list[float | None]:
        return scores(evaluate(self.evaluator, ROWS, mapping=MAPPING, progress=False).results)

    def python_stream(self) -> list[float | None]:
        async def collect() -> list[float | None]:
            async with aclosing(stream(self.evaluator, ROWS, mapping=MAPPING)) as found:
                return [result.score async for result in found]

        return asyncio.run(collect())

    def python_several(self) -> list[float | None]:
        mapping = InputMapping(paths=MAPPING, literals={"contains.words": "a"})
        each = {"one": self.evaluator, "contains": "contains"}
        return scores(evaluate_all(each, ROWS, mapping=mapping, progress=False)["one"].results)

    def python_parity(self) -> list[float | None]:
        assert parity(self.evaluator, self.data, sandboxes=["wasm", "process"], mapping=MAPPING).same == len(ROWS)
        return SCORES

    def python_compare(self) -> list[float | None]:
        worse = self.folder / "worse.jsonl"
        worse.write_text("".join(json.dumps(row | {"prediction": "z"}) + "\n" for row in ROWS))
        found = compare_datasets(self.evaluator, self.data, worse, mapping=MAPPING, direction="maximize")
        assert (found.wins, found.losses, found.ties) == (0, 2, 1)
        assert not [note for note in found.notes if "input" in note]  # it is the output that differs
        return SCORES

    def rewards(self) -> list[float | None]:
        with reward(self.evaluator, mapping={"output": "output", "reference": "gold"}) as function:
            return function(completions=[row["prediction"] for row in ROWS], gold=[row["gold"] for row in ROWS])

    def ray_data(self) -> list[float | None]:
        scorer = evalcell_scorer(self.evaluator, mapping=MAPPING)()
        try:
            return list(scorer({name: np.array([row[name] for row in ROWS]) for name in ROWS[0]})["score"])
        finally:
            scorer.close()

    def client(self) -> list[float | None]:
        with Client(self.server.url) as client:
            return scores(client.evaluate(self.evaluator, ROWS, mapping=MAPPING).results)

    def client_dataset(self) -> list[float | None]:
        with Client(self.server.url) as client:
            return scores(client.evaluate(self.evaluator, self.data, mapping=MAPPING).results)

    def http(self) -> list[float | None]:
        body = {"source": self.source, "rows": ROWS, "mapping": {"paths": MAPPING}}
        with self.server.client() as client:
            reply = client.post("/v1/evaluate", json=body)
        assert reply.status_code == 200, reply.text
        return scores(one["result"] for one in reply.json()["results"])

    def mcp(self) -> list[float | None]:
        async def tried() -> dict[str, Any]:
            async with McpClient(f"{self.server.url}/mcp") as agent:
                return await call(agent, "try", source=self.source, rows=ROWS, mapping=MAPPING)

        return scores(asyncio.run(tried())["results"])

    def page(self) -> list[float | None]:
        with self.server.client(headers={"accept": "text/html"}) as client:
            name = Path(self.evaluator).stem
            client.post("/v1/evaluators", json={"name": name, "source": self.source})
            client.post("/v1/datasets?name=v.jsonl", content=Path(self.data).read_text())
            fields = {"evaluator": name, "dataset": "v", "mapping": "output = prediction\nreference = gold"}
            leads = form(client, "/runs/new", **fields)
            assert leads.status_code == 303, leads.text
            run = leads.headers["location"].rpartition("/")[2]
            finished(client, run)
            found = client.get(f"/v1/runs/{run}/results", headers={"accept": "application/json"}).json()
        return scores(found["rows"])

    def _several(self) -> list[str]:
        return ["--set", 'contains.words="a"', "-q", "-o", f"{self.folder / 'both'}/"]

    def _project(self, name: str, more: str) -> Path:
        (self.folder / name).mkdir()
        text = f"""
            [datasets.answers]
            path = {json.dumps(self.data)}
            [datasets.answers.columns]
            output = "prediction"
            reference = "gold"
            [run.all]
            dataset = "answers"
            evaluators = {{ one = {json.dumps(self.evaluator)}, contains = "contains", regex = "regex" }}
            map = {{ "regex.pattern" = "reference" }}
            set = {{ "contains.words" = "a" }}
            {more}
        """
        (self.folder / name / "evalcell.toml").write_text(text)
        return self.folder / name / "evalcell.toml"

    def _invoke(self, *words: str) -> None:
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output


DOORS = [name for name in vars(Doors) if not name.startswith("_")]


def _pairs() -> Iterator[Any]:
    alike = pytest.mark.thorough("scripts that one door gives rows, and a template that all doors give them")
    for evaluator in ("exact-match", *SCRIPTS):
        for door in DOORS:
            usual = evaluator == "exact-match" or door == "python_rows"
            yield pytest.param(evaluator, door, id=f"{evaluator}-{door}", marks=[] if usual else [alike])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("evaluator", "door"), list(_pairs()))
def test_one_mapping_for_every_evaluator_and_door(
    evaluator: str, door: str, folder: Path, server: Live, tmp_path: Path
) -> None:
    doors = Doors(evaluator, folder, server, tmp_path)
    way: Callable[[], list[float | None]] = getattr(doors, door)
    assert way() == SCORES


def renamed(template: Template, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first rows of a template's demo, and the same with other names for the output and the reference."""
    with open_dataset(find_dataset("demo", *template)) as demo:
        rows = [as_row(case) for case in islice(demo, count)]

    return rows, [{MAPPING.get(name, name): value for name, value in row.items()} for row in rows]


_OF_OUTPUTS = [one for one in TEMPLATES if not one.name.startswith("context-")]
"""Those that take an output."""


@pytest.mark.parametrize("template", _OF_OUTPUTS, ids=str)
def test_every_template_gets_the_same_arguments(template: Template) -> None:
    evaluator = find_evaluator(*template)
    literals = NEEDED.get(template.name, {})
    rows, others = renamed(template, 20)
    plain, by_role = (bind(evaluator, InputMapping(paths=p, literals=literals)) for p in ({}, MAPPING))
    assert plain.outputs == by_role.outputs
    assert by_role.columns is None or not {"output", "reference"} & by_role.columns
    for one, other in zip(cases_from_rows(rows), cases_from_rows(others), strict=True):
        assert by_role.arguments(other) == plain.arguments(one)


def _each() -> Iterator[Any]:
    alike = pytest.mark.thorough("templates with the words of Phoenix; what each is given is compared without a run")
    for template in _OF_OUTPUTS:
        usual = template.name in PHOENIX and template.language == "python"
        yield pytest.param(template, id=str(template), marks=[] if usual else [alike])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("template", list(_each()))
def test_every_template_gives_the_same_scores(template: Template) -> None:
    evaluator = find_evaluator(*template)
    if templates.demo_files(template.name):
        pytest.skip("its demo needs a file")
    need(choose(evaluator).config.backend or "")
    rows, others = renamed(template, 3)
    literals = NEEDED.get(template.name, {})
    wish: dict[str, Any] = {"language": template.language, "progress": False}
    found = [
        evaluate(template.name, given, mapping=InputMapping(paths=paths, literals=literals), **wish)
        for given, paths in ((rows, {}), (others, MAPPING))
    ]
    own, by_role = ([(one.outcome, one.label, one.score) for one in report.results] for report in found)
    assert own == by_role
    assert {outcome for outcome, *_ in own} <= {"scored", "abstained"}


def evaluator_of(text: str, header: str = "") -> Evaluator:
    lines = "".join(f"# {line}\n" for line in ("/// script", *header.splitlines(), "///")) if header else ""
    return parse_evaluator(f"{lines}{text}\n", "own")


HEADER = "[tool.evalcell.mapping]\n{}"


@pytest.mark.parametrize(
    ("signature", "header", "mapping", "paths"),
    [
        ("prediction, gold", "", MAPPING, {"prediction": "prediction", "gold": "gold"}),
        ("response, answer", "", MAPPING, {"response": "prediction", "answer": "gold"}),
        ("answer, label", "", MAPPING, {"answer": "prediction", "label": "gold"}),
        ("output, answer", "", MAPPING, {"output": "prediction", "answer": "gold"}),
        ("modelOutput, expected=None", "", MAPPING, {"modelOutput": "prediction", "expected": "gold"}),
        # A parameter's own name wins, and a parameter with the name of a role is that parameter.
        ("answer, truth", "", MAPPING | {"truth": "other"}, {"answer": "prediction", "truth": "other"}),
        ("output, response", "", {"output": "p"}, {"output": "p", "response": "response"}),
        (
            "output, text",
            'output = "metadata.x"\ntext = "output"',
            {"output": "p"},
            {"output": "p", "text": "$.output"},
        ),
        # A header says which parameter takes what, and a path of it goes into the column.
        ("x, y", 'x = "output"\ny = "$.reference"', MAPPING, {"x": "prediction", "y": "gold"}),
        ("x", 'x = "output.text"', {"output": "a reply"}, {"x": '$.metadata["a reply"].text'}),
        ("x", "x = \"$['output'][0]\"", {"output": "input"}, {"x": "$.input[0]"}),
        ("x", 'x = "$.output.text"', {"output": "metadata.reply.raw"}, {"x": "$.metadata.reply.raw.text"}),
        # Not asked for, it stays as it was.
        ("answer, truth", "", {"output": "prediction"}, {"answer": "prediction", "truth": "truth"}),
        ("question, answer, docs", "", {"output": "o", "input": "q", "contexts": "c"}, None),
        ("output, **more", "", MAPPING, MAPPING),
        ("prediction, **more", "", MAPPING, {"prediction": "prediction", "reference": "gold"}),
    ],
)
def test_a_role_is_given_to_what_takes_it(
    signature: str, header: str, mapping: dict[str, str], paths: dict[str, str] | None
) -> None:
    evaluator = evaluator_of(f"def evaluate({signature}): return 1", HEADER.format(header) if header else "")
    binding = bind(evaluator, InputMapping(paths=mapping))
    assert binding.mapping.paths == (paths or {"question": "q", "answer": "o", "docs": "c"})
    assert not binding.notes


@pytest.mark.parametrize(
    ("signature", "mapping", "note"),
    [
        ("answer", MAPPING, "no parameter of evaluate(answer) takes `reference`, and `gold` is not read for it"),
        ("output, labels=()", MAPPING, "not read for it; if `labels` does, map it by its own name"),
        ("output, y", MAPPING, "not read for it; if `y` does, map it by its own name"),
    ],
)
def test_a_role_that_nothing_takes_is_told(signature: str, mapping: dict[str, str], note: str) -> None:
    binding = bind(evaluator_of(f"def evaluate({signature}): return 1"), InputMapping(paths=mapping))
    assert len(binding.notes) == 1
    assert binding.notes[0].endswith(note) or note in binding.notes[0]


@pytest.mark.parametrize(
    ("signature", "mapping", "why"),
    [
        (
            "x, y",
            MAPPING,
            r"evaluate\(x, y\) has no parameter `output`, nor one that is known to take it; .*`x`, `y`.*such as",
        ),
        ("length", {"reference": "gold"}, "no parameter `reference`, nor one that is known"),
        ("output", {"reference": "gold"}, r"known to take it; leave it out, or map one that there is \(`output`\)"),
        ("output, gold", MAPPING | {"oputput": "x"}, r"no parameter `oputput` \(did you mean `output`\?\)"),
        ("prediction, gold", MAPPING | {"refrence": "x"}, r"no parameter `refrence` \(did you mean `reference`\?\)"),
    ],
)
def test_a_name_that_nothing_has_is_refused(signature: str, mapping: dict[str, str], why: str) -> None:
    with pytest.raises(MappingError, match=why):
        bind(evaluator_of(f"def evaluate({signature}): return 1"), InputMapping(paths=mapping))


def test_a_literal_may_be_for_a_role() -> None:
    case = next(iter(cases_from_rows([{"prediction": "a"}])))
    assert isinstance(case, Case)
    mapping = InputMapping(paths={"output": "prediction"}, literals={"reference": "a"})
    given = {"expected": "a", "actual": "a", "case_sensitive": True}
    assert bind(find_evaluator("exact-match"), mapping).arguments(case) == ((), given)


def test_a_message_says_the_role(folder: Path) -> None:
    for mapping in ({}, {"output": "predicton"}, {"reference": "glod"}):
        with pytest.raises(ColumnsError) as refused:
            evaluate("exact-match", ROWS, mapping=mapping, progress=False)
        assert mapping | refused.value.paths == MAPPING
        again = evaluate("exact-match", ROWS, mapping=mapping | refused.value.paths, progress=False)
        assert scores(again.results) == SCORES
    with pytest.raises(ColumnsError) as refused:  # by its own name it was mapped, and by that it is told
        evaluate("exact-match", ROWS, mapping={"actual": "predicton"}, progress=False)
    assert refused.value.paths == {"actual": "prediction", "reference": "gold"}


def test_a_message_keeps_the_names_of_what_was_not_mapped_by_its_role() -> None:
    rows = [{"output": row["prediction"], "gold": row["gold"]} for row in ROWS]
    evaluator = evaluator_of(SCRIPTS["own"])
    with pytest.raises(ColumnsError, match="no column for `answer`; the columns are `output`, `gold`") as refused:
        evaluate(evaluator, rows, mapping={"reference": "gold"}, progress=False)
    assert refused.value.paths == {"answer": "output"}


def test_the_proposed_command_of_several_evaluators_runs(folder: Path) -> None:
    each = ["-e", "exact-match", "-e", "levenshtein-distance", "-e", "token-cosine"]
    done = CliRunner().invoke(cli, ["run", *each, str(folder / "v.jsonl"), "-q"])
    assert done.exit_code == 2
    command = done.stderr.splitlines()[-1].split()
    assert sorted(command[command.index("--map") :]) == sorted(MAP)
    assert CliRunner().invoke(cli, command[1:]).exit_code == 0


def test_what_is_not_read_is_noted_after_the_run(folder: Path) -> None:
    words = ["run", "contains", str(folder / "v.jsonl"), *MAP, "--set", 'words="a"']
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    assert "takes `reference`, and `gold` is not read" in done.stderr


def test_parts_of_a_dataset_are_scored_by_roles(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text((folder / "v.jsonl").read_text())
    words = [
        "run",
        "contains",
        str(tmp_path / "*.jsonl"),
        *MAP,
        "--set",
        'words="a"',
        "-o",
        f"{tmp_path}/run/",
        "--json",
    ]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["mean"] == 1 / 3
    assert "takes `reference`, and `gold` is not read" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("promptfoo.js", "module.exports = (output, context) => output === context.vars.answer;\n"),
        ("own.ts", "export function evaluate({ response, answer }: any) { return response === answer ? 1 : 0; }\n"),
        (
            "langsmith.ts",
            "export function correct({ outputs, referenceOutputs }: { outputs: any; referenceOutputs: any }) {\n"
            '  return { key: "correct", score: outputs.answer === referenceOutputs.answer ? 1 : 0 };\n}\n',
        ),
    ],
)
def test_a_script_in_typescript_or_javascript(name: str, text: str, tmp_path: Path) -> None:
    need("deno")
    (tmp_path / name).write_text(text)
    assert scores(evaluate(tmp_path / name, ROWS, mapping=MAPPING, progress=False).results) == SCORES


def test_each_script_of_another_tool_is_given_both() -> None:
    tools = set()
    for path in sorted(VENDORS.glob("*/*.py")):
        try:
            evaluator = read_evaluator(path)
        except EvaluatorError:  # one of several is to be named, or it stands in a config file
            continue
        paths = bind(evaluator, InputMapping(paths=MAPPING)).mapping.paths
        assert {"prediction", "gold"} <= {*paths.values()}, path
        tools.add(evaluator.dialect)
    assert len(tools) == 13, tools


PROJECT = """\
[datasets.answers]
path = "v.jsonl"

[datasets.answers.columns]
output = "prediction"
reference = "gold"

[run.all]
dataset = "answers"
evaluators = ["exact-match", "own.py"]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("reference =", "refernce =", "evalcell.toml:6: there is no key 'refernce' (did you mean `reference`?)"),
        ("path =", "file = 1\npth =", "there is no key 'file'"),
        ("[datasets", "[dataset", "evalcell.toml"),
        (
            'dataset = "answers"',
            'dataset = "anwsers"',
            "run all: there is no dataset 'anwsers' (did you mean `answers`?)",
        ),
        ('"gold"', '"glod"', 'put `reference = "gold"` into `[datasets.answers.columns]`'),
        ('output = "prediction"\n', "", 'put `output = "prediction"` into `[datasets.answers.columns]`'),
        ('path = "v.jsonl"', 'path = "w.jsonl"', "w.jsonl"),
    ],
)
def test_what_is_wrong_with_a_dataset_of_the_config_file(
    old: str, new: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert old in PROJECT
    for text, code in ((PROJECT, 0), (PROJECT.replace(old, new), 2)):
        (folder / "evalcell.toml").write_text(text)
        done = CliRunner().invoke(cli, ["run", "-q"])
        assert done.exit_code == code, done.output
    assert said in done.stderr


def test_a_run_may_overrule_the_columns_of_its_dataset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for line, found in (
        ('map = { output = "gold" }', {"exact-match": [1, 1, 1], "own": [1, 1, 1]}),
        ('map = { "own.answer" = "reference" }', {"exact-match": SCORES, "own": [1, 1, 1]}),
        ('map = { "exact-match.actual" = "reference" }', {"exact-match": [1, 1, 1], "own": SCORES}),
        ('set = { "own.truth" = "a" }', {"exact-match": SCORES, "own": [1, 0, 0]}),
        ('set = { reference = "a" }', {"exact-match": [1, 0, 0], "own": [1, 0, 0]}),
    ):
        (folder / "evalcell.toml").write_text(f"{PROJECT}{line}\n")
        reports = evaluate_project(progress=False)
        assert {name.removeprefix("all."): scores(one.results) for name, one in reports.items()} == found, line


@pytest.mark.parametrize("name", ["promptfoo_vars", "openai"])
def test_a_field_of_another_tools_script_has_its_own_column_first(name: str) -> None:
    """`vars.answer` is the column `answer` there; the reference stands in for it where no row has one."""
    evaluator = parse_evaluator(SCRIPTS[name], name)
    field = next(one.columns[0] for one in evaluator.parameters if "." in one.name)
    rows = [row | {field: "b"} for row in ROWS]
    own = [row["prediction"] == "b" for row in ROWS]
    for mapping in (
        InputMapping(paths=MAPPING),
        InputMapping(paths={"output": "prediction"}, literals={"reference": None}),
    ):
        assert scores(evaluate(evaluator, rows, mapping=mapping, progress=False).results) == own
    assert scores(evaluate(evaluator, ROWS, mapping=MAPPING, progress=False).results) == SCORES
