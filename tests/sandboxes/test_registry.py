"""Backends by name, ours and third parties'."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandboxes import SandboxConfig, SandboxUnavailableError, UnsupportedConfigError, backends, create, find
from sandboxes.fake import FakeSandbox
from sandboxes.process import ProcessSandbox
from sandboxes.wasm.sandbox import WasmSandbox

THEIRS = """
from sandboxes.base import Capabilities
from sandboxes.fake import FakeSandbox

class TheirSandbox(FakeSandbox):
    name = "theirs"
    capabilities = Capabilities(languages=("python",), isolation=("batch",), packages=True)

not_a_sandbox = 3
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with entry points, as pip would leave it."""
    (tmp_path / "their_package.py").write_text(THEIRS)
    about = tmp_path / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[evalcell.sandboxes]\ntheirs = their_package:TheirSandbox\nwasm = their_package:TheirSandbox\n"
        "broken = no_such_package:Sandbox\nwrong = their_package:not_a_sandbox\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_package", raising=False)


def test_ours_are_found_and_the_fake_is_hidden() -> None:
    assert find("wasm") is WasmSandbox
    assert find("process") is ProcessSandbox
    assert find("fake") is FakeSandbox
    listed = [b.name for b in backends().values() if not b.hidden]
    assert listed == ["wasm", "process", "deno", "docker", "e2b", "modal", "vercel", "daytona"]
    assert [name for name in listed if find(name).capabilities.elsewhere] == listed[4:]
    assert [b.name for b in backends().values() if b.elsewhere] == listed[4:]


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(
        UnsupportedConfigError, match="no sandbox named 'wsam'; choose one of: wasm, process, deno, docker, e2b"
    ):
        create(SandboxConfig(backend="wsam"))


@pytest.mark.parametrize("backend", ["process", "e2b"])
@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a/b", "A B", "A=B", "A\n", "A\0", "é", "A" * 201])
def test_a_file_needs_the_name_of_a_variable(backend: str, name: str) -> None:
    with pytest.raises(UnsupportedConfigError, match="is not a variable name; use letters, digits and underscores"):
        create(SandboxConfig(backend=backend, files={name: "x"}))


@pytest.mark.usefixtures("third_party")
def test_third_parties_register_by_entry_point() -> None:
    sandbox = create(SandboxConfig(backend="theirs", packages=("numpy",)))
    assert (sandbox.name, sandbox.isolation) == ("theirs", "batch")


@pytest.mark.usefixtures("third_party")
def test_a_third_party_cannot_take_the_place_of_ours() -> None:
    assert find("wasm") is WasmSandbox


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize("name", ["broken", "wrong"])
def test_one_that_cannot_be_imported_says_what_to_do(name: str) -> None:
    with pytest.raises(SandboxUnavailableError, match=f"reinstall the package that provides '{name}'"):
        find(name)
