"""An evaluator as a zip file: the folder of its script, packed."""

from __future__ import annotations

import stat
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import MAX_BYTES, MAX_FILES, refuse_name
from runner.inputs.evaluators.load import MAX_SOURCE, HowRead, read_evaluator

MAX_ZIP = MAX_BYTES + MAX_SOURCE
"""Bytes of it, and of all that is in it."""
_ENTRIES = 10 * MAX_FILES
_WHERE = "the zip"


def read_zip(data: bytes, name: str | None = None, **how: Unpack[HowRead]) -> Evaluator:
    """
    Read the evaluator that a zip file holds, as its folder is read: `evaluator.py` or `evaluator.ts`, at its top or in
    its one folder, with what that imports. What else is in it is left out.

    Args:
        data: The file.
        name: The evaluator's. None: the folder's in it.
        **how: As in `read_evaluator`.

    Raises:
        EvaluatorError: It is none, or too much is in it.
    """
    files = _unpacked(data)
    tops = {file.partition("/")[0] for file in files}
    top = next(iter(tops)) if len(tops) == 1 and all("/" in file for file in files) else ""
    with TemporaryDirectory(prefix="evalcell-zip-") as scratch:
        folder = Path(scratch) / "evaluator"
        folder.mkdir()
        try:
            for file, content in files.items():
                path = folder / file.removeprefix(f"{top}/" if top else "")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            found = read_evaluator(folder, **how)
        except EvaluatorError as error:
            raise EvaluatorError(str(error).replace(str(folder), _WHERE)) from None
        except OSError as error:
            raise EvaluatorError(f"{_WHERE} cannot be unpacked: {error.strerror}") from None
    return found.model_copy(update={"name": name or top or "evaluator"})


def _unpacked(data: bytes) -> dict[str, bytes]:
    """What is in it, by name. Its size is bounded before anything is decoded, and again while it is."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as packed:
            entries = [one for one in packed.infolist() if not one.is_dir() and not _is_of_system(one.filename)]
            if len(entries) > _ENTRIES or sum(one.file_size for one in entries) > MAX_ZIP:
                raise EvaluatorError(f"{_WHERE} has more than {_ENTRIES} files, or more than {MAX_ZIP:,} bytes in them")
            found: dict[str, bytes] = {}
            for entry in entries:
                refuse_name(entry.orig_filename, _WHERE)
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if kind not in (0, stat.S_IFREG) or entry.flag_bits & 1 or entry.compress_type not in (0, 8):
                    raise EvaluatorError(
                        f"{_WHERE}: {printable(entry.filename, 80)} is no plain file: it is a link, encrypted, or "
                        "packed in another way than zip's usual one"
                    )
                if entry.filename in found:
                    raise EvaluatorError(f"{_WHERE} has {printable(entry.filename, 80)} twice")
                with packed.open(entry) as file:
                    found[entry.filename] = file.read(entry.file_size + 1)
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, EvaluatorError):
            raise
        raise EvaluatorError(f"{_WHERE} cannot be read: {printable(str(error), 100)}") from None


def _is_of_system(name: str) -> bool:
    """What macOS and version control put beside the files."""
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/")) or name.startswith(
        "__MACOSX/"
    )
