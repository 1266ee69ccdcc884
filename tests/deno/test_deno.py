"""Which Deno is used, what is said where there is none, and what results are told of it."""

from __future__ import annotations

import asyncio
import importlib
import re
import stat
import sys
from pathlib import Path

import pytest

from sandboxes import Sandbox, SandboxConfig, SandboxUnavailableError, UnsupportedConfigError, create, find
from sandboxes.deno import DenoSandbox, binary
from tests.deno.opened import Opened


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package `deno` were not installed."""
    monkeypatch.setitem(sys.modules, "deno", None)
    monkeypatch.delenv(binary.VARIABLE, raising=False)


@pytest.mark.usefixtures("no_package")
def test_without_deno_the_message_says_what_to_install() -> None:
    sandbox = create(SandboxConfig(backend="deno"))
    for tried in (DenoSandbox.check, binary.find_deno, lambda: asyncio.run(sandbox.open())):
        with pytest.raises(SandboxUnavailableError, match=re.escape("pip install 'evalcell[deno]'")):
            tried()


def test_a_config_is_checked_without_deno(no_package: None) -> None:
    create(SandboxConfig(backend="deno"))
    with pytest.raises(UnsupportedConfigError, match="write 'npm:numpy' if npm"):
        create(SandboxConfig(backend="deno", packages=("numpy",)))


def test_importing_the_backend_needs_neither_deno_nor_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("deno", "tree_sitter", "tree_sitter_typescript"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [n for n in sys.modules if n.startswith("sandboxes.deno")]:
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("sandboxes.deno")
    assert issubclass(module.DenoSandbox, Sandbox)


def test_another_deno_can_be_named(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened.sandbox().manifest["deno"]
    program = binary.find_deno()
    monkeypatch.setitem(sys.modules, "deno", None)
    monkeypatch.setenv(binary.VARIABLE, program)
    assert binary.find_deno() == program
    assert DenoSandbox.check().startswith("tier ")


@pytest.mark.parametrize("named", ["/no/such/deno", "/etc", "deno"])
def test_a_name_of_no_program_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binary.VARIABLE, named)
    with pytest.raises(SandboxUnavailableError, match=f"{binary.VARIABLE}={named} cannot be executed"):
        DenoSandbox.check()


@pytest.mark.parametrize("does", ["exit 3", "echo python 3.11", "echo", "kill -9 $$"])
def test_a_program_that_is_no_deno_is_refused(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "deno"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(binary.VARIABLE, str(program))
    with pytest.raises(SandboxUnavailableError, match=f"is not a Deno that works.*{binary.VARIABLE}"):
        DenoSandbox.check()


def test_results_tell_the_version_and_the_tier(opened: Opened) -> None:
    sandbox = opened.sandbox()
    version = binary.version(binary.find_deno())
    tier = sandbox.manifest["tier"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert sandbox.identity == f"deno/{version}/tier-{tier}"
    assert sandbox.manifest["deno"] == version
    assert sandbox.manifest["sandbox"] == sandbox.identity
    assert sandbox.manifest["isolation"] == "batch"
    (found,) = opened.each(["Deno.version.deno"])
    assert found.value == version


def test_it_runs_typescript_and_no_python(opened: Opened) -> None:
    assert find("deno").capabilities.languages == ("typescript",)
    assert opened.sandbox().python is None
    (found,) = opened.evaluate("def evaluate(output): return 1\n", [{}])
    assert found.error is not None
    assert found.error.type == "SyntaxError"


def test_its_check_tells_what_is_active(opened: Opened) -> None:
    assert f"tier {opened.sandbox().manifest['tier']} is active" in DenoSandbox.check()
