"""Each setting is declared once, and every entry point has it, or says why not."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import runner
from runner.cli.main import cli
from runner.core.entry_points import ENTRY_POINTS, reason, settings_of
from runner.core.settings import SETTINGS, Kind, nest_settings, parameter, value_of
from runner.engine.request import RunRequest
from runner.results.store.types import RunSpec
from runner.runs.project.types import Project
from runner.server.client.client import Client
from runner.server.http.web.forms import Field
from runner.server.http.web.runs import FORM
from runner.server.mcp.server import make_server
from runner.server.service.types import EvaluateRequest

KINDS = get_args(Kind)
FILES = {"file", "env_file", "engine", "image", "runtime"}
"""What a server refuses of a sandbox's config; tests/server/http/test_allowed.py holds it."""


def command(name: str) -> dict[str, click.Option]:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return {one.name or "": one for one in found.params if isinstance(one, click.Option)}


def python(function: Callable[..., Any]) -> set[str]:
    """The settings that are parameters, or parts of them."""
    names = inspect.signature(function).parameters
    return {
        name for name in SETTINGS if parameter(name) in names or (parameter(name) == "sandbox" and "sandboxes" in names)
    }


def toml() -> set[str]:
    return set(Project.model_fields) & SETTINGS.keys()


def mcp(tool: str = "run") -> set[str]:
    words = {"mapping": "map", "values": "set", "gates": "fail_if", "language": "lang"}
    (run,) = (one for one in asyncio.run(make_server(lambda: None).list_tools()) if one.name == tool)  # type: ignore[arg-type, return-value]
    return {words.get(name, name) for name in run.input_schema["properties"]} & SETTINGS.keys()


def page() -> set[str]:
    """The fields of the form, where `mapping` has two settings, and the sandbox is chosen beside them."""
    return {field.name for field in (Field.of(name, "") for name in FORM)} | {"map", "set", "sandbox"}


SURFACES: dict[str, Callable[[], set[str]]] = {
    **{
        f"evalcell {name}": lambda name=name: set(command(name)) & SETTINGS.keys()  # type: ignore[misc]
        for name in ("run", "check", "audit", "test", "parity", "compare", "suggest", "lines")
    },
    "evalcell.toml": toml,
    "evaluate": lambda: python(runner.evaluate),
    "stream": lambda: python(runner.stream),
    "check_examples": lambda: python(runner.check_examples),
    "parity": lambda: python(runner.parity),
    "audit": lambda: python(runner.audit),
    "compare_datasets": lambda: python(runner.compare_datasets),
    "RowScorer": lambda: python(runner.RowScorer.__init__),
    "POST /v1/evaluate": lambda: (
        {name for name in SETTINGS if parameter(name) in EvaluateRequest.model_fields}
        - FILES
        - {"rows"}  # these are the rows themselves
    ),
    "try of MCP": lambda: mcp("try") - {"rows"},
    "POST /v1/runs": lambda: {name for name in SETTINGS if parameter(name) in RunSpec.model_fields} - FILES,
    "Client.run": lambda: python(Client.run) - FILES,
    "Client.evaluate": lambda: python(Client.evaluate) - FILES,
    "run of MCP": mcp,
    "the page": page,
}


@pytest.mark.parametrize("door", ENTRY_POINTS)
def test_an_entry_point_has_a_setting_or_says_why_not(door: str) -> None:
    there = SURFACES[door]()
    assert {name: reason(door, name) for name in SETTINGS if (name in there) == bool(reason(door, name))} == {}


@pytest.mark.parametrize("door", ENTRY_POINTS)
def test_what_an_entry_point_lacks_is_a_setting_or_a_kind(door: str) -> None:
    assert ENTRY_POINTS[door].settings.keys() <= SETTINGS.keys()
    assert ENTRY_POINTS[door].kinds.keys() <= set(KINDS)


def test_every_field_of_a_request_is_a_setting() -> None:
    fields = RunRequest.model_fields.keys() - {"evaluator", "dataset"}
    assert fields <= {parameter(name) for name in SETTINGS}
    for part in ("limits", "sandbox"):
        held = type(getattr(RunRequest(evaluator="x"), part)).model_fields.keys()
        named = {(SETTINGS[name].field).partition(".")[2] for name in SETTINGS if parameter(name) == part}
        assert held - named <= {"language", "judges", "load_timeout", "output", "result"}, (
            part
        )  # for who writes Python or JSON


def test_an_option_is_its_field() -> None:
    """By type, bounds and default, where a command, a file and a parameter have the same."""
    made = Project.model_fields
    options, names = command("run"), inspect.signature(runner.evaluate).parameters
    for name in settings_of("evalcell run"):
        value = value_of(name)
        assert options[name].opts[-1] == f"--{name.replace('_', '-')}"
        assert options[name].multiple == (value.many or value.type is dict), name
        assert options[name].is_flag == (value.type is bool), name
        if name in settings_of("evalcell.toml"):
            assert made[name].description, name
        if parameter(name) == name and name in names and name not in ("output", "report", "sandbox"):
            assert names[name].default == value.default, name


def test_settings_by_their_own_names_are_fields() -> None:
    assert nest_settings({"memory": 2, "with": ("numpy",), "fail_if": ("mean<1",), "repeat": 3, "lang": "python"}) == {
        "limits": {"memory": 2 << 20},
        "sandbox": {"packages": ("numpy",)},
        "gates": ("mean<1",),
        "repeat": 3,
        "language": "python",
    }


def test_a_setting_that_is_lacking_is_explained() -> None:
    with pytest.raises(TypeError, match=r"stream\(\) takes no `worst`: results are yielded"):
        runner.stream("exact-match", "demo", worst=3)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"evaluate\(\) got an unexpected keyword argument 'repaet' \(did you mean `repeat`"
    ):
        runner.evaluate("exact-match", "demo", repaet=2)  # type: ignore[call-arg]


def test_the_docstring_lists_each_parameter() -> None:
    text = inspect.getdoc(runner.evaluate) or ""
    for name in inspect.signature(runner.evaluate).parameters:
        assert f"\n    {name}: " in text, name


@pytest.mark.parametrize("name", ["aggregate_timeout", "fail_if_worse", "json_columns"])
def test_a_setting_is_declared_as_a_field_and_as_a_parameter(name: str) -> None:
    """And nowhere else: evaluators and gates have words of their own."""
    root = Path(runner.__file__).parent
    files = [path for path in root.rglob("*.py") if re.search(rf"^ +{name}: ", path.read_text("utf-8"), re.MULTILINE)]
    of_evaluators = {"types.py", "load.py", "dialect.py", "mapping.py"} if name == "json_columns" else set()
    assert [path.name for path in files if path.name not in of_evaluators] == ["settings.py"]
    assert len(re.findall(rf"^    {name}: ", (root / "core" / "settings.py").read_text("utf-8"), re.MULTILINE)) == 2
