"""The folder that a command is run in, and sandboxes that a third party adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import LENGTH, ROWS, write_rows
from tests.cli.folders import Folders

THEIRS = '''
from sandboxes.base import Capabilities
from sandboxes.fake import FakeSandbox

DIGEST = "0" * 64

class TheirsSandbox(FakeSandbox):
    """
    Scores 1.0 whatever the script; has everything, and saves a lock of the packages asked for, at version 2.0.

    For a network it lets its user wait.
    """

    name = "theirs"
    capabilities = Capabilities(
        languages=("python",), isolation=("batch",), packages=True, files=True, env=True, network=True
    )

    async def open(self):
        if self.config.network:
            self.progress("fetching the cable")

    @property
    def lock(self):
        made = "".join(f"{name}==2.0 \\\\\\n    --hash=sha256:{DIGEST}\\n" for name in self.config.packages)
        return self.config.lock or made or None

    @property
    def manifest(self):
        return {"sandbox": self.identity, "tier": "T", "python": "3.12.1"}
'''

LOSSY = '''
from sandboxes.base import Capabilities
from sandboxes.errors import SandboxLostError, SandboxUnavailableError
from sandboxes.fake import FakeSandbox

class LossySandbox(FakeSandbox):
    """Dies at every call. With a network it does not even start."""

    name = "lossy"
    capabilities = Capabilities(languages=("python",), isolation=("batch",), network=True)

    def __init__(self, config):
        super().__init__(config, self.die)

    def die(self, call):
        raise SandboxLostError("the cable was cut")

    async def open(self):
        if self.config.network:
            raise SandboxUnavailableError("it cannot start here; wait for the cable")
'''


@pytest.fixture(scope="module", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the user of this computer keeps is no tests' business: neither read nor written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALCELL_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a script and a dataset, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "length.py").write_text(LENGTH)
    write_rows(tmp_path / "data.jsonl", ROWS)
    return tmp_path


@pytest.fixture
def theirs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with a sandbox named `theirs`."""
    _install(tmp_path_factory.mktemp("installed"), "theirs", THEIRS, monkeypatch)


@pytest.fixture
def lossy(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with a sandbox named `lossy`."""
    _install(tmp_path_factory.mktemp("installed"), "lossy", LOSSY, monkeypatch)


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """The provider of the documentation as an installed distribution, and nobody's credentials."""
    for name in list(os.environ):
        if name.startswith(("E2B_", "MODAL_", "VERCEL_", "DAYTONA_", "FOLDER_")):
            monkeypatch.delenv(name)
    example = Path(__file__).parents[2] / "docs" / "example_provider.py"
    installed, place = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("account")
    _install(installed, "folder", example.read_text(), monkeypatch)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(place / "state"))
    monkeypatch.setenv("FOLDER_ROOT", str(place / "machines"))
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(place / "none"))
    monkeypatch.setenv("EVALCELL_ENGINE", "none")  # whether this machine has one or not
    return Folders(installed, place)


def _install(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip would leave it."""
    (folder / f"{name}_package.py").write_text(source)
    about = folder / f"{name}_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[evalcell.sandboxes]\n{name} = {name}_package:{name.title()}Sandbox\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, f"{name}_package", raising=False)
