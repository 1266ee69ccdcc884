"""The folder that a command is run in, and a sandbox that a third party adds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.commands import LENGTH, ROWS, write_rows

THEIRS = '''
from sandboxes.base import Capabilities
from sandboxes.fake import FakeSandbox

DIGEST = "0" * 64

class TheirSandbox(FakeSandbox):
    """Scores 1.0 whatever the script; has everything, and saves a lock of the packages asked for, at version 2.0."""

    name = "theirs"
    capabilities = Capabilities(
        languages=("python",), isolation=("batch",), packages=True, files=True, env=True, network=True
    )

    @property
    def lock(self):
        made = "".join(f"{name}==2.0 \\\\\\n    --hash=sha256:{DIGEST}\\n" for name in self.config.packages)
        return self.config.lock or made or None

    @property
    def manifest(self):
        return {"sandbox": self.identity, "tier": "T", "python": "3.12.1"}
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a script and a dataset, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "length.py").write_text(LENGTH)
    write_rows(tmp_path / "data.jsonl", ROWS)
    return tmp_path


@pytest.fixture
def theirs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with a sandbox named `theirs`, as pip would leave it."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "their_package.py").write_text(THEIRS)
    about = folder / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[evalcell.sandboxes]\ntheirs = their_package:TheirSandbox\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "their_package", raising=False)
