"""An evaluator as a zip file: the folder of its script, packed."""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Unpack

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable
from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import MAX_BYTES, MAX_FILES, refuse_name
from runner.inputs.evaluators.load import MAX_SOURCE, SCRIPTS, HowRead, read_evaluator

MAX_ZIP = MAX_BYTES + MAX_SOURCE
"""Bytes of it, and of all that is in it."""
_ENTRIES = 10 * MAX_FILES
_WHERE = "the zip"
_EVALUATE = re.compile(rb"\b(?:def|function|const|let) +evaluate\b")


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
    return read_folder(_unpacked(data), name, _WHERE, **how)


def read_folder(files: Mapping[str, bytes], name: str | None, where: str, **how: Unpack[HowRead]) -> Evaluator:
    """
    Read the evaluator of a folder that was sent as its files, by their paths.

    Args:
        files: They may be below one folder, whose name is the evaluator's if there is no other.
        name: The evaluator's. None: the folder's, or the script's.
        where: What was sent, for messages.
        **how: As in `read_evaluator`.

    Raises:
        EvaluatorError: It is none, or too much is in it.
    """
    if len(files) > _ENTRIES or sum(map(len, files.values())) > MAX_ZIP:
        raise EvaluatorError(f"{where} has more than {_ENTRIES} files, or more than {MAX_ZIP:,} bytes in them")
    for file in files:
        refuse_name(file, where)
    tops = {file.partition("/")[0] for file in files}
    top = next(iter(tops)) if len(tops) == 1 and all("/" in file for file in files) else ""
    inner = {file.removeprefix(f"{top}/" if top else ""): content for file, content in files.items()}
    script = _script(inner, where)
    with TemporaryDirectory(prefix="evalcell-zip-") as scratch:
        folder = Path(scratch) / "evaluator"
        folder.mkdir()
        try:
            for file, content in inner.items():
                path = folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            found = read_evaluator(folder / script, **how)
        except EvaluatorError as error:
            raise EvaluatorError(str(error).replace(str(folder), where)) from None
        except OSError as error:
            raise EvaluatorError(f"{where} cannot be unpacked: {error.strerror}") from None
    return found.model_copy(update={"name": name or top or (found.name if script else "evaluator")})


def _script(files: Mapping[str, bytes], where: str) -> str:
    """The one script at the top that defines `evaluate`; empty where there is an `evaluator.py`, which is it."""
    scripts = [name for name in files if "/" not in name and PurePath(name).suffix in SCRIPTS]
    if any(PurePath(name).stem == "evaluator" for name in scripts):
        return ""
    scripts = [name for name in scripts if _EVALUATE.search(files[name])]
    if len(scripts) != 1:
        several = f", and {list_names(scripts)} all define `evaluate`" if scripts else ""
        raise EvaluatorError(
            f"{where} is a folder without an evaluator.py or evaluator.ts{several}; give the script this name"
        )
    return scripts[0]


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
