"""Datasets read and refused, for the tests of every format."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from runner.core.errors import DatasetError
from runner.core.types import Case
from runner.inputs.datasets.dataset import open_dataset


def read(path: Path) -> list[Case]:
    with open_dataset(path) as dataset:
        return list(dataset)


def lines(data: bytes) -> list[Case]:
    """The cases of JSONL on standard input."""
    return list(open_dataset("-", stdin=BytesIO(data)))


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def broken(case: Case) -> str:
    """Why it cannot be used, in one printable line that begins with the place."""
    assert case.broken is not None
    assert case.broken.startswith(f"{case.where}: ")
    assert case.broken.isprintable()
    return case.broken


def refusal(path: str | Path) -> str:
    """Why the whole file cannot be used."""
    with pytest.raises(DatasetError) as caught:
        open_dataset(path)
    assert str(caught.value).isprintable()
    return str(caught.value)
