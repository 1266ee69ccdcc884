"""Find and read `evalcell.toml`, or `[tool.evalcell]` of `pyproject.toml`. Every complaint has file and line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from runner.core.errors import InputError
from runner.core.text import describe, printable, suggestion, whole
from runner.runs.project.types import Columns, NamedDataset, Project, Settings
from sandboxes.host.regular import read_regular

FILE = "evalcell.toml"
PYPROJECT = "pyproject.toml"
MOST = 256 << 10
"""Bytes."""

_TABLE = ("tool", "evalcell")
_STEP = "write one with `evalcell init`, or name it"
_KEYS = tuple(sorted(field.alias or name for name, field in Settings.model_fields.items()))


@dataclass(frozen=True)
class ProjectFile:
    """A project as it was read, and the folder that its paths are relative to."""

    path: Path
    project: Project

    @property
    def name(self) -> str:
        """The file for messages, as seen from the working directory."""
        return _name(self.path)

    def place(self, path: str) -> str:
        """
        Return a path of the file as seen from the working directory. What ends with a separator still does.

        Raises:
            InputError: For what no system takes for a path.
        """
        if "\0" in path:
            raise InputError(f"{self.name}: {describe(path, 60)} is no path: it has a NUL; take that out")
        if os.path.isabs(path):
            return path
        found = os.path.relpath(os.path.join(self.path.parent, path))
        return os.path.join(found, "") if path.endswith(("/", os.sep)) else found


def find_project(named: str | os.PathLike[str] | None = None) -> ProjectFile | None:
    """
    Return the project in a file or folder, or without a name in the nearest folder from here upwards that has one.

    None if there is none on the way up, which ends at the top of a git repository.

    Raises:
        InputError: For a file that cannot be used, and for one on the way that belongs to somebody else: it says what
            is run.
    """
    if named is not None:
        path = Path(named)
        if path.is_dir():
            found = next((one for one in _files(path)), None)
            if found is None:
                raise InputError(f"{printable(whole(str(path)))} has neither {FILE} nor a [tool.evalcell]; {_STEP}")
            return found
        return read_project(path)
    for folder in (here := Path.cwd(), *here.parents):
        for found in _files(folder, ours=True):
            return found
        if (folder / ".git").exists():
            return None
    return None


def _files(folder: Path, *, ours: bool = False) -> Sequence[ProjectFile]:
    if (folder / FILE).is_file():
        if ours:
            _refuse_strangers(folder / FILE)
        return [read_project(folder / FILE)]
    path = folder / PYPROJECT
    if path.is_file() and b"tool.evalcell" in _bytes(path):
        if ours:
            _refuse_strangers(path)
        data = _toml(path, _text(path))
        if isinstance(data.get("tool"), dict) and "evalcell" in data["tool"]:
            return [read_project(path)]
    return []


def read_project(path: Path) -> ProjectFile:
    """Read one file. Raises InputError."""
    text = _text(path)
    data: Any = _toml(path, text)
    table: tuple[str, ...] = ()
    if path.name == PYPROJECT:
        table = _TABLE
        for key in table:
            data = data.get(key) if isinstance(data, dict) else None
        if data is None:
            raise InputError(f"{_name(path)} has no table [tool.evalcell]; {_STEP}")
    try:
        return ProjectFile(path, Project.model_validate(data, strict=False))
    except ValidationError as error:
        _refuse(path, text, table, error)


def _refuse(path: Path, text: str, table: Sequence[str], error: ValidationError) -> NoReturn:
    # An unknown key first: what it should have been may be what is missing.
    every = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    first = every[0]
    place = [str(part) for part in first["loc"] if not str(part).startswith(("tuple[", "dict[", "function-"))]
    line = line_of(text, [*table, *place])
    where = f"{_name(path)}:{line}" if line else _name(path)
    key = ".".join(place)
    if first["type"] == "extra_forbidden":
        known: tuple[str, ...] = (*_KEYS, *(["run", "datasets"] if len(place) == 1 else []))
        if place[0] == "datasets" and len(place) > 2:
            known = (*(Columns.model_fields if len(place) > 3 else NamedDataset.model_fields),)
        last = place[-1] if place else ""
        hint = suggestion(last, known) or suggestion(last.replace("-", "_"), known)
        raise InputError(
            f"{where}: there is no key {describe(last, 60)}{hint}; `evalcell config --schema` has them all"
        )
    why = printable(str(first["msg"]).removeprefix("Value error, "), 300)
    named = f"`{printable(key, 100)}`: " if key else ""
    value = "" if first["type"] == "value_error" else f", not {describe(first['input'], 60)}"
    raise InputError(f"{where}: {named}{why}{value}")


def line_of(text: str, place: Sequence[str]) -> int | None:
    """Return the line of a key, counted from 1: below its table's header, or wherever it stands first."""
    lines = text.split("\n")
    for depth in range(len(place), 0, -1):
        inside, key = list(place[:depth]), place[depth - 1]
        pattern = re.compile(rf"""(?:^|[\s{{,.])["']?{re.escape(key)}["']?\s*(?:[.=])""")
        header: list[str] = []
        found: tuple[int, int] | None = None  # how deep its table is, and its line
        for number, line in enumerate(lines, 1):
            if heading := re.match(r"\s*\[+([^\]]*)\]", line):
                header = [part.strip().strip("\"'") for part in heading[1].split(".")]
                if header == inside:
                    return number
            elif pattern.search(line.split("#")[0]):
                nearness = len(header) if inside[: len(header)] == header and len(inside) > len(header) else -1
                if found is None or nearness > found[0]:
                    found = nearness, number
        if found is not None:
            return found[1]
    return None


def _refuse_strangers(path: Path) -> None:
    if hasattr(os, "getuid") and (owner := path.stat().st_uid) not in (os.getuid(), 0):
        raise InputError(
            f"{_name(path)} belongs to another user ({owner}) and says what is run; look at it, then name it"
        )


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise InputError(f"{_name(path)}:{line}: this is not TOML: {printable(str(error).split(' (at ')[0])}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_name(path)}: this cannot be read as TOML: {printable(str(error))}") from None


def _text(path: Path) -> str:
    data = _bytes(path)
    if len(data) > MOST:
        raise InputError(f"{_name(path)} is larger than {MOST >> 10} KB; is it the right file?")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{_name(path)} is not UTF-8 at byte {error.start + 1}; save it as UTF-8") from None


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise FileNotFoundError
        return read_regular(path, MOST + 1)
    except FileNotFoundError:
        raise InputError(f"there is no file {_name(path)}; {_STEP}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{_name(path)} cannot be read: {why}") from None


def _name(path: Path) -> str:
    return printable(whole(os.path.relpath(path) if path.is_absolute() else str(path)), 300)
