"""The folder that a command is run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import LENGTH, ROWS, write_rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a script and a dataset, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "length.py").write_text(LENGTH)
    write_rows(tmp_path / "data.jsonl", ROWS)
    return tmp_path
