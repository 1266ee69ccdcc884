"""Every page: its commands and snippets are run in order, in one folder; its links lead somewhere."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple, get_args

import click
import pytest
import yaml

import runner
from docs import cli_reference, http_reference, python_reference
from runner.cli.main import cli
from runner.core.types import ErrorKind
from tests.cli.commands import evalcell

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *DOCS.rglob("*.md")])

RUN = [
    "docs/coming-from.md",
    "docs/concepts.md",
    "docs/how-to/air-gapped.md",
    "docs/how-to/audit.md",
    "docs/how-to/ci.md",
    "docs/how-to/compare.md",
    "docs/how-to/containers.md",
    "docs/how-to/evaluator.md",
    "docs/how-to/export.md",
    "docs/how-to/json.md",
    "docs/how-to/own-data.md",
    "docs/how-to/packages.md",
    "docs/how-to/parts.md",
    "docs/how-to/programs.md",
    "docs/how-to/rag.md",
    "docs/how-to/reports.md",
    "docs/how-to/resume-and-cache.md",
    "docs/how-to/several-files.md",
    "docs/how-to/stop-when-sure.md",
    "docs/how-to/store.md",
    "docs/how-to/traces.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/scaling.md",
    "docs/security.md",
    "docs/ten-minutes.md",
    "docs/troubleshooting.md",
]

OTHERS = {
    "README.md": ("tests/test_readme.py", 6),
    "docs/backends.md": ("tests/remote/test_readme.py", 3),
    **{
        f"docs/from/{tool}.md": ("tests/inputs/foreign/test_from_pages.py", 1)
        for tool in ("braintrust", "langfuse", "langsmith", "openai", "promptfoo", "trl")
    },
    "docs/how-to/aggregates.md": ("tests/engine/test_aggregate.py", 5),
    "docs/how-to/client.md": ("tests/server/http/test_client.py", 4),
    "docs/how-to/config-file.md": ("tests/cli/test_project.py", 6),
    "docs/how-to/data-frames.md": ("tests/test_how_to.py", 3),
    "docs/how-to/functions.md": ("tests/test_how_to.py", 1),
    "docs/how-to/kubernetes.md": ("tests/test_kubernetes.py", 3),
    "docs/how-to/mcp.md": ("tests/server/mcp/test_mcp.py", 1),
    "docs/how-to/notebooks.md": ("tests/test_how_to.py", 2),
    "docs/how-to/package-data.md": ("tests/packages/test_wheels.py", 4),
    "docs/how-to/pytest.md": ("tests/test_pytest_plugin.py", 4),
    "docs/how-to/ray-data.md": ("tests/cluster/test_ray_data.py", 1),
    "docs/how-to/ray.md": ("tests/cluster/test_cluster.py", 1),
    "docs/how-to/rewards.md": ("tests/test_how_to.py", 2),
    "docs/how-to/server.md": ("tests/server/http/test_container.py", 8),
    "docs/reference/http.md": ("tests/server/http/test_http.py", 1),
    "docs/rules.md": ("tests/inputs/test_rules.py", 2),
    "docs/templates.md": ("tests/templates/test_scikit_learn.py", 8),
    "docs/testing-evaluators.md": ("tests/cli/test_testing_page.py", 12),
}
"""Who runs the other pages, and how many of their blocks; what is not run there is in `SHOWN`."""

_PACKAGED = ("deepeval", "inspect", "mlflow", "opik", "phoenix", "pydantic-evals", "ragas", "weave")
_WITH_ITS_PACKAGE = "needs the tool's package; `make test-vendors` runs such scripts"
NOT_RUN = {
    **{f"docs/from/{tool}.md": _WITH_ITS_PACKAGE for tool in _PACKAGED},
    "docs/reference/cli.md": "what --help prints; compared below",
    "docs/reference/python.md": "signatures, compared below; its examples are those of docstrings: test_docstrings.py",
    "docs/how-to/langfuse.md": "another tool's variables; tests/server/protocols has its requests",
    "docs/how-to/openrlhf.md": "another tool's option; tests/server/protocols has its requests",
    "docs/how-to/opik.md": "another tool's variable; tests/server/protocols has its requests",
    "docs/how-to/promptfoo.md": "another tool's config; tests/server/protocols has its requests",
    "docs/how-to/verl.md": "another tool's setting; tests/server/protocols has its requests",
    "docs/how-to/judges.md": "it asks models for money; tests/judges and tests/engine/test_asks.py ask a local one",
}

_ENGINE, _CLUSTER = "needs a container engine and a registry", "needs a cluster"
_INSTALLS = "installs evalcell, which tests/wheel does; its extras are compared below"
SHOWN = {
    ("docs/backends.md", ""): (1, "needs root on an Ubuntu"),
    ("docs/from/braintrust.md", ""): (1, _WITH_ITS_PACKAGE),
    ("docs/how-to/air-gapped.md", "sh"): (2, _INSTALLS),
    ("docs/how-to/ci.md", "yaml"): (4, "runs at GitHub or GitLab; it is parsed, and the workflow compared"),
    ("docs/how-to/containers.md", "dockerfile"): (1, _ENGINE),
    ("docs/how-to/containers.md", "sh"): (1, _ENGINE),
    ("docs/how-to/export.md", "yaml"): (1, "belongs to a config of promptfoo; it is parsed"),
    ("docs/how-to/kubernetes.md", ""): (2, _CLUSTER),
    ("docs/how-to/mcp.md", ""): (3, "another program's commands, and " + _INSTALLS),
    ("docs/how-to/package-data.md", "sh"): (1, "needs a folder of data, and packages of an index"),
    ("docs/how-to/packages.md", "ts"): (1, "needs a registry of npm"),
    ("docs/how-to/ray.md", "sh"): (1, _CLUSTER),
    ("docs/how-to/ray-data.md", "sh"): (1, _INSTALLS),
    ("docs/how-to/server.md", ""): (3, "needs Caddy, sqlite3 or a container engine"),
    ("docs/how-to/store.md", "sh"): (1, _INSTALLS),
    ("docs/ten-minutes.md", "sh"): (1, "pushes to a repository; " + _INSTALLS),
}
"""Blocks that cannot be run here, by page and language: how many there are, and why."""


class Block(NamedTuple):
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    pattern = r"^( *)```([^\n]*)\n(.*?)^\1```$"
    found = re.findall(pattern, (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    parts = [(re.fullmatch(r'(\w*)(?: title="([\w./-]+)")?', head), dedent(text)) for _, head, text in found]
    assert all(head for head, _ in parts), f"{page}: a block's first line is odd"
    return [Block(head[1], head[2] or "", text) for head, text in parts if head]


def plain(text: str) -> str:
    return " ".join(text.split())


def test_every_block_is_run_or_named_with_its_reason() -> None:
    with_blocks = {page for page in PAGES if blocks(page)}
    assert set(RUN).isdisjoint({*OTHERS, *NOT_RUN})
    assert with_blocks - set(RUN) == OTHERS.keys() | NOT_RUN.keys()
    for page, (test, count) in OTHERS.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8")
        shown = sum(number for (named, _), (number, _) in SHOWN.items() if named == page)
        assert len(blocks(page)) == count + shown, f"{page}: run a new block, or say in SHOWN why not"


def commands(page: str) -> Iterator[str]:
    """What a page calls evalcell with: in blocks, and in a line of text."""
    text = (ROOT / page).read_text("utf-8")
    start = re.compile(r"\s*(?:\$ |- (?:run: )?|RUN |[A-Z_]+=\S+ )*(?=evalcell )")
    for line in "".join(block.text for block in blocks(page)).replace("\\\n", " ").splitlines():
        if begin := start.match(line):
            yield from re.findall(r"evalcell [^#|>&]*", line[begin.end() :])
    yield from re.findall(r"(?<!`)`(evalcell [^`]*)`", text)


@pytest.mark.parametrize("page", sorted({*PAGES} - {"docs/reference/cli.md", "docs/reference/python.md"}))
def test_each_command_and_option_that_a_page_names_is_there(page: str) -> None:
    for command in commands(page):
        words = command.split()[1:]
        at: click.Command = cli
        while isinstance(at, click.Group) and words and words[0] in at.commands:
            at = at.commands[words.pop(0)]
        named = re.match(r"[a-z]+$", words[0]) if words and at is cli else None
        assert named is None, f"{page}: there is no command in {command!r}"
        known = {option for one in at.params for option in one.opts} | {"--help", "-h"}
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert options <= known, f"{page}: {command!r}"


def test_each_extra_that_a_page_names_is_there() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        for extras in re.findall(r"(?:evalcell|pip \w+ '?\.)\[([\w,-]+)\]", (ROOT / page).read_text("utf-8")):
            assert set(extras.split(",")) <= known.keys(), page


SLOW = {"docs/how-to/air-gapped.md", "docs/how-to/json.md"}


TOOLS = {"git", "mv", "rm"}
"""What pages run beside evalcell."""


def run(command: str) -> tuple[int, str]:
    """Run a command of a page in this folder; return its exit code, and what it printed."""
    name, *words = shlex.split(command)
    if name == "evalcell":
        result = evalcell(*words)
        return result.exit_code, result.output
    assert name in TOOLS, command
    done = subprocess.run([name, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def follow(page: str) -> None:
    """Do what a page shows, from its top to its end, in this folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, shown = "", Counter[tuple[str, str]]()
    for language, title, text in blocks(page):
        if title:
            Path(title).write_text(text, "utf-8")
        elif language == "python":
            exec(compile(text, page, "exec"), names)
        elif language == "text":
            for line in text.splitlines():
                assert plain(line) in printed, printed
        elif language:
            shown[page, language] += 1
            assert language != "yaml" or yaml.safe_load(text)
        else:
            for line in text.splitlines():
                command, _, comment = line.partition("  #")
                expected = re.search(r"exit code (\d)", comment)
                code, output = run(command)
                assert code == (int(expected[1]) if expected else 0), f"{line}\n{output}"
                printed = plain(output)
    assert shown == {key: count for key, (count, _) in SHOWN.items() if key[0] == page}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, for who has never used evalcell or git."""
    monkeypatch.chdir(tmp_path)
    variables = {"COLUMNS": "200", "EVALCELL_STATE_DIR": str(tmp_path / "state"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        variables |= {f"GIT_{who}_NAME": "A reader", f"GIT_{who}_EMAIL": "reader@example.com"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.rotating("commands of pages", "packages" if page in SLOW else "pages"))
        for page in RUN
    ],
)
def test_the_commands_and_snippets_of_a_page_do_what_it_says(page: str, folder: Path) -> None:
    follow(page)


@pytest.mark.rotating("commands of pages", "pages")
def test_the_pull_request_of_ten_minutes_fails_its_check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("docs/ten-minutes.md")
    (workflow,) = (yaml.safe_load(path.read_text("utf-8")) for path in Path(".github/workflows").iterdir())
    job = workflow["jobs"]["score"]
    steps = [step["run"] for step in job["steps"] if step.get("run", "").startswith("evalcell ")]
    assert len(steps) == 3
    codes = {}
    for branch in ("main", "shorter-prompt"):
        assert run(f"git checkout --quiet {branch}") == (0, "")
        with monkeypatch.context() as there:
            there.chdir(job["defaults"]["run"]["working-directory"])
            codes[branch] = [run(step)[0] for step in steps]
    assert codes == {"main": [0, 0, 0], "shorter-prompt": [0, 0, 1]}


@pytest.mark.rotating("commands of pages", "templates")
def test_the_commands_on_templates_work(here: Path) -> None:
    page = "docs/templates.md"
    Path("data.jsonl").write_text('{"output": "spam", "reference": "spam"}\n{"output": "ham", "reference": "spam"}\n')
    Path("data.csv").write_text("output,reference\nspam,spam\nham,spam\n")
    Path("answers.jsonl").write_text('{"output": "It is {\\"a\\": 1}.", "reference": {"a": 1}}\n')
    lines = [line for block in blocks(page) if not block.language for line in block.text.splitlines()]
    commands = [line.partition("  #")[0] for line in lines if line.startswith("evalcell ") and "--file" not in line]
    assert len(commands) > 8  # those with --file: tests/templates/test_scikit_learn.py
    for command in commands:
        result = evalcell(*shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_the_workflow_is_what_init_writes(here: Path) -> None:
    assert evalcell("init").exit_code == 0
    (written,) = Path("evals/.github/workflows").iterdir()
    assert blocks("docs/how-to/ci.md")[1] == Block("yaml", "", written.read_text("utf-8"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives the headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    heads = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head) for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def links(page: str) -> Iterator[tuple[Path, str]]:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`(?!\])", "", text)):
        if not re.match(r"https?:|mailto:", target):
            path, _, anchor = target.partition("#")
            yield ((ROOT / page).parent / path).resolve() if path else ROOT / page, anchor


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    for path, anchor in links(page):
        assert path.exists(), f"{page}: {path} is not there"
        if anchor:
            assert anchor in anchors(path), f"{page}: {path.name} has no heading for #{anchor}"


def test_the_site_shows_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "decisions"}
    assert sorted(re.findall(r": (\S+\.md)$", nav, re.MULTILINE)) == sorted(pages)


def test_the_site_has_four_parts() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    assert re.findall(r"^  - (.*):$", nav, re.MULTILINE) == ["Start", "Do", "Understand", "Look up"]
    do = nav.partition("  - Do:\n")[2].partition("  - Understand:\n")[0]
    for page in re.findall(r": (\S+\.md)$", do, re.MULTILINE):
        start = (DOCS / page).read_text("utf-8").partition("\n## ")[0]
        first = start.partition("\n```")[0]
        assert "\n```" in start, f"{page} shows no command before its first heading"
        assert len(first.partition("\n\n")[2].split()) >= 6, f"{page} does not say first what one gets"


def code() -> Iterator[Path]:
    for folder in ("evalcell", "runner", "sandboxes", "templates"):
        yield from (ROOT / folder).rglob("*.py")


def texts() -> Iterator[str]:
    """Every text in the code; what is computed within one is a gap."""
    for path in code():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_variables_are_those_of_the_code() -> None:
    pattern = re.compile(r"_?EVALCELL_[A-Z0-9_]+")
    used = {name for path in code() for name in pattern.findall(path.read_text("utf-8"))}
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "environment.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(used)


def test_the_messages_are_those_of_the_code() -> None:
    heads = re.findall(r"^### `(.*)`$", (DOCS / "troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    assert len(heads) > 15
    every = list(texts())
    assert [head for head in heads if not any(head in text for text in every)] == []


def test_the_reference_of_commands_is_up_to_date() -> None:
    assert cli_reference.PAGE.read_text("utf-8") == cli_reference.page(), "run `make reference`"


def test_the_reference_of_python_is_up_to_date_and_has_every_public_name() -> None:
    assert python_reference.PAGE.read_text("utf-8") == python_reference.page(), "run `make reference`"
    assert sorted(chain(*python_reference.PARTS.values())) == sorted(runner.__all__)


def test_the_reference_of_http_is_up_to_date() -> None:
    assert http_reference.PAGE.read_text("utf-8") == http_reference.page(), "run `make reference`"


def keys(page: str, title: str) -> set[str]:
    """The first column of the first table below a heading."""
    text = (ROOT / page).read_text("utf-8").partition(f"## {title}\n")[2]
    (rows, *_) = re.findall(r"\n\n((?:\|.*\n)+)", text)
    return {name for row in rows.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_the_reference_of_results_has_what_a_run_writes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.results.score_cache.store.cache_dir", lambda: here / "cache")
    page = "docs/reference/results.md"
    about = "# kind = 'freeform'\n# direction = 'maximize'\n"
    head = "".join(f"# [tool.evalcell.outputs.{name}]\n{about}" for name in "ab")
    Path("two.py").write_text(f"# /// script\n{head}# ///\ndef evaluate(output):\n    return {{'a': 1, 'b': 2}}\n")
    Path("data.json").write_text('[{"output": "x", "kind": "y"}]')
    assert (
        evalcell(
            "run", "two.py", "data.json", "--keep", "kind", "--repeat", "2", "--cache", "-o", "run/", "-o", "out.csv"
        ).exit_code
        == 0
    )
    (row, _), (manifest,) = (
        [json.loads(line) for line in lines]
        for lines in (
            Path("run/results.jsonl").read_text("utf-8").splitlines(),
            [Path("run/manifest.json").read_text("utf-8")],
        )
    )
    assert row.keys() == keys(page, "A row") - {"exchanges", "waiting_ms"}  # nobody was asked
    assert manifest.keys() == keys(page, "The manifest")
    (first, *_) = csv.reader(Path("out.csv").read_text("utf-8").splitlines())
    named = {"error_kind", "error_message", *(f"{n}.{p}" for n in "ab" for p in ("label", "score", "explanation"))}
    assert set(first) == row.keys() - {"error", "outputs", "row"} | named | {"kind"}


def test_the_kinds_of_error_are_those_of_the_code() -> None:
    text = (
        (ROOT / "docs/reference/results.md").read_text("utf-8").partition("The kinds of `error`")[2].partition("###")[0]
    )
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(get_args(ErrorKind))


def test_the_reference_has_every_command_and_option() -> None:
    text = cli_reference.page()
    for name, command in cli.commands.items():
        if command.hidden:
            continue
        section = text.partition(f"## evalcell {name}\n")[2].partition("\n## ")[0]
        options = [word for option in command.params if isinstance(option, click.Option) for word in option.opts]
        assert section, name
        assert [word for word in options if word not in section] == [], name
