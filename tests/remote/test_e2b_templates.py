"""
Templates on E2B: their worked examples, in as few machines as there are sets of packages and records of judges.

For each set each commit tries one template. tests/templates tries them all, in each other way to run them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import templates
from runner.engine.judges import find_record
from runner.inputs.evaluators.resolve import find_evaluator
from runner.runs.examples.check import compare_result
from sandboxes import Isolation, Sandbox, SandboxConfig
from sandboxes.base import Language
from sandboxes.remote.e2b.provider import E2BProvider
from tests.remote.room import PYTHON, bubblewrap
from tests.remote.serving import Server
from tests.remote.wheel import bring_deno
from tests.templates.ways import Opened, Way

LARGE = "scikit-learn"
"""Takes its time to be installed."""


class Shared(Opened):
    """
    Templates with the same packages share a machine, which has the files that one of them needs.

    Those that ask a judge have a machine each, as each has a record of its own; `asking` names them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asking: set[str] = set()

    def sandbox(self, way: Way) -> Sandbox | str:
        asks = find_record(way.name, way.evaluator) is not None
        self.asking |= {way.name} if asks else set()
        if asks or way.language == "typescript":
            return super().sandbox(way)
        return super().sandbox(way._replace(name=first_of(packages(way.name))))

    def config(self, way: Way) -> SandboxConfig:
        """The examples of a template in TypeScript share a Worker, as a new one takes 20 ms."""
        isolation: Isolation | None = "batch" if way.language == "typescript" else None
        return super().config(way).model_copy(update={"isolation": isolation})


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Its machines live as long as it does: no other test may count them."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    bring_deno()
    with pytest.MonkeyPatch.context() as patch, Server.start("tests.remote.e2b_server") as server:
        patch.setenv("EVALCELL_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setattr(E2BProvider, "pace", 1000.0)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        found = Shared()
        yield found
        state = server.state()
        assert state.created == len(state.machines) <= 4 + len(found.asking)
        found.close()
        assert not server.state().machines


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What keeps pip from finding packages here; empty where nothing does."""
    command = [str(PYTHON), "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    folder: Path = tmp_path_factory.mktemp("wheels")
    tried = subprocess.run([*command, "jsonschema==4.26.0", "-d", str(folder)], capture_output=True, timeout=60)
    return "pip reaches no index of packages here" if tried.returncode else ""


def holds(name: str, opened: Opened, language: Language = "python") -> None:
    way = Way(name, language, "e2b")
    assert not way.lacking
    sandbox = opened.sandbox(way)
    assert not isinstance(sandbox, str), sandbox
    for case, result in zip(way.cases, opened.results(way, way.cases), strict=True):
        found = compare_result(case, result)
        assert found.verdict == "passed", (found.where, found.differences, found.result)


ROTATING = pytest.mark.rotating("providers", "remote")


def written(language: Language = "python") -> list[str]:
    return [name for name in templates.names() if language in templates.languages(name)]


@cache
def packages(name: str) -> tuple[str, ...]:
    return find_evaluator(name, "python").packages


def first_of(wanted: tuple[str, ...]) -> str:
    """Of the templates with these packages one that needs most files."""
    alike = [name for name in written() if packages(name) == wanted]
    return max(alike, key=lambda name: len(templates.demo_files(name)))


def tried(names: list[str], firsts: set[str]) -> list[Any]:
    """These templates as parameters; make test-all alone tries those that are not the first of their kind."""
    rest = [pytest.mark.thorough("examples of templates that are judged in each way but at a provider")]
    slow = [pytest.mark.slow, ROTATING]
    return [
        pytest.param(name, marks=[*(slow if LARGE in str(packages(name)) else ()), *(() if name in firsts else rest)])
        for name in names
    ]


@pytest.mark.parametrize("name", tried([name for name in written() if not packages(name)], {first_of(())}))
def test_examples_hold(name: str, opened: Opened) -> None:
    holds(name, opened)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", tried([name for name in written() if packages(name)], {first_of(packages(name)) for name in written()})
)
def test_examples_hold_with_packages(name: str, opened: Opened, index: str) -> None:
    if index:
        pytest.skip(index)
    holds(name, opened)


@ROTATING
@pytest.mark.parametrize("name", tried(written("typescript"), {"json-distance"}))
def test_examples_hold_in_typescript(name: str, opened: Opened, index: str) -> None:
    """All in one machine, in which Deno is installed as a package."""
    if index:
        pytest.skip(index)
    holds(name, opened, "typescript")
