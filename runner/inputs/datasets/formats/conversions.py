"""The way to convert what is no dataset yet, as a command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from runner.core.text import printable, whole

_UNPACK = {".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zip": "unzip", ".7z": "7z x", ".lz4": "unlz4", ".br": "brotli -d"}
_EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
_PANDAS = {
    ".feather": "read_feather",
    ".orc": "read_orc",
    ".dta": "read_stata",
    ".sav": "read_spss",
    ".pkl": "read_pickle",
    ".pickle": "read_pickle",
}
_MARKS = ("dataset_dict.json", "state.json", "dataset_info.json")


def conversion(path: Path) -> str | None:
    """Return what a file or folder is, and the command that makes a dataset of it; None if that is not known."""
    suffix, name = path.suffix.lower(), whole(str(path))
    if suffix in _UNPACK:
        return f"is compressed; unpack it first: {_shown([*_UNPACK[suffix].split(), name])}"
    if suffix in _EXCEL:
        return spreadsheet(path)
    if suffix in _PANDAS:
        made = str(path.with_suffix(".parquet"))
        code = f"import pandas; pandas.{_PANDAS[suffix]}({_text(name)}).to_parquet({_text(made)})"
        return f"is no dataset that evalcell reads; convert it: {_shown(['python', '-c', code])}"
    return _hugging_face(path, name)


def spreadsheet(path: Path) -> str:
    """Return what a spreadsheet is, and the command that makes a dataset of it."""
    made = str(path.with_suffix(".csv"))
    if made == str(path):
        made = str(path.with_name(f"{path.stem}-text.csv"))
    code = f"import pandas; pandas.read_excel({_text(str(path))}).to_csv({_text(made)}, index=False)"
    return f"is a spreadsheet; save it as CSV in the program that made it, or run: {_shown(['python', '-c', code])}"


def _hugging_face(path: Path, name: str) -> str | None:
    found = next((mark for mark in _MARKS if (path / mark).is_file()), None)
    if found is None:
        return None
    split = '["train"]' if found == "dataset_dict.json" else ""
    made = f"{name.rstrip('/')}.jsonl"
    code = f"import datasets; datasets.load_from_disk({_text(name)}){split}.to_json({_text(made)})"
    return f"is a Hugging Face dataset; convert it: {_shown(['python', '-c', code])}"


def _text(name: str) -> str:
    # In double quotes, as the shell's are single.
    return json.dumps(whole(name))


def _shown(words: list[str]) -> str:
    return printable(shlex.join(words), 500)
