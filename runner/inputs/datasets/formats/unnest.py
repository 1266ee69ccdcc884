"""Keep the rows of a JSON document as JSON Lines."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from runner.core.errors import DatasetError, InputError, PathError
from runner.core.text import printable
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.formats.streams import COMPRESSION_SUFFIXES, as_utf8, refuse_encoding
from runner.inputs.datasets.places import parse_place
from runner.inputs.datasets.rows import RowReading
from runner.inputs.datasets.work import ask
from sandboxes.words.wording import Message, Setting


def write_as_utf8(path: Path, encoding: str, target: Path) -> None:
    """
    Write a text file of this encoding as UTF-8 into another, which must not exist.

    Raises:
        InputError: For what is no encoding.
        DatasetError: For text that is of another.
        OSError: The system refused.
    """
    if why := refuse_encoding(encoding):
        raise InputError(f"encoding={encoding!r} {why}")
    if path.suffix in (*COMPRESSION_SUFFIXES, ".parquet", ".arrow"):
        raise DatasetError(f"{path.name} is no plain text, and has no encoding; send it without one, or unpacked")
    with path.open("rb") as file, target.open("xb") as made:
        text, _ = as_utf8(file, path.name, encoding)
        shutil.copyfileobj(text, made)  # what is not of this encoding becomes U+FFFD or a row that fails, as in a run


def write_rows(path: str | os.PathLike[str], place: str, target: Path) -> None:
    """
    Write the rows at this place of a JSON file as JSON Lines into another, which must not exist.

    Raises:
        InputError: For what is no such place.
        DatasetError: For a file without rows there, or with one that cannot be used.
        OSError: Where the other file cannot be written.
    """
    try:
        parse_place(place)
    except PathError as error:
        raise InputError(Message(Setting("rows", place), f": {error}")) from None
    with open_dataset(path, reading=RowReading(rows=place)) as dataset, target.open("xb") as file:
        for where, row in dataset.rows:
            ask()
            if isinstance(row, RowError):
                raise DatasetError(f"{where}: {printable(str(row))}; mend it, or leave it out")
            file.write(json.dumps(row).encode() + b"\n")
