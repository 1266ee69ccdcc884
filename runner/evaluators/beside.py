"""The user's own files that a script imports: they stay behind when it runs, and no package of their names is meant."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from runner.errors import EvaluatorError
from runner.text import printable
from runner.types import Evaluator
from sandboxes.base import ScriptError

_MOST = 200
"""Imports that are looked at."""
_ENTRIES = 1000
"""Of a folder, to see whether there is a module in it."""
_ROOT = (".git", "pyproject.toml", "setup.py")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<whole>\w+)|import[ \t]+(?P<names>[\w., \t]+))"
    r"|(?:import_module|__import__)\(\s*[\"'](?P<call>\w+)",
    re.MULTILINE,
)
_EVALUATOR = re.compile(r"^(async[ \t]+)?def[ \t]+evaluate\b", re.MULTILINE)
_MISSING = re.compile(r"No module named '(\w+)")
_ADD = re.compile(r'dependencies = \["([^"]+)"\]')


def files_beside(script: Path, source: str) -> dict[str, str]:
    """
    The user's files and folders of modules that a Python script imports, by the name of the module.

    They lie beside the script, or above it in the same project: then the path begins with `..`.
    """
    found: dict[str, str] = {}
    folders: list[Path] = []
    for name in islice(dict.fromkeys(_imported(source)), _MOST):
        if name in sys.stdlib_module_names or name == script.stem:
            continue
        folders = folders or _folders(script)
        place = next(filter(None, (_place(folder, name) for folder in folders)), None)
        if place is None or (folders[0].is_relative_to(place) and not (place / "__init__.py").is_file()):
            continue  # or a folder of scripts with the name of what they use
        path = os.path.join(os.path.relpath(place.parent, folders[0]), place.name)
        found[name] = os.path.normpath(path) + "/" * place.is_dir()
    return found


def refuse_strangers(packages: Sequence[str], beside: Mapping[str, str], where: str, folder: Path | None) -> None:
    """
    Raise EvaluatorError for a package that has the name of an imported file beside the script.

    In `folder`, if it is known, files that are evaluators themselves are let be: they are called as what they use.
    """
    if not beside or not packages:
        return
    from packaging.utils import canonicalize_name  # here: most scripts import no file

    modules = {canonicalize_name(name): name for name in beside}
    for line in packages:
        name = modules.get(canonicalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]))
        if (
            name is None
            or ";" in line
            or beside[name].startswith("..")
            or (folder is not None and _is_evaluator(folder / beside[name]))
        ):
            continue
        raise EvaluatorError(
            f"{where}: `{printable(line, 60)}` is asked for as a package, but {printable(beside[name])} lies beside "
            "the script, and a registry's package of that name is a stranger's; a script is one file, so copy what it "
            "needs of the file into it, or rename the file if the package is meant"
        )


def is_beside(where: str, specifier: str) -> bool:
    """Whether a bare import of a TypeScript script means a file: one beside the script, or by its name."""
    from sandboxes.packages import is_own_file

    suffixes = ("", ".ts", ".js", ".mjs", ".cjs", ".mts", ".tsx")
    try:
        return is_own_file(specifier) or any((Path(where).parent / f"{specifier}{one}").exists() for one in suffixes)
    except (OSError, ValueError):
        return False


def local_hint(message: str, beside: Mapping[str, str]) -> str | None:
    """The next step for an error that a file beside the script is not there."""
    missing = _MISSING.search(message)
    if missing is None or missing[1] not in beside:
        return None
    file = beside[missing[1]] + ("" if beside[missing[1]].startswith("..") else " beside the script")
    return f"{file} is not taken along: copy what the script needs of it into the script"


def next_step(error: ScriptError, evaluator: Evaluator) -> str | None:
    """The next step for a script's error; for a package that is not there, with all that the script imports."""
    if local := local_hint(error.message, evaluator.beside):
        return local
    missing = _MISSING.search(error.message)
    found = _ADD.search(error.hint or "")
    if missing is None or error.hint is None or found is None:
        return error.hint
    wanted = _packages(evaluator.source, evaluator.beside)
    if not any(name.partition(".")[0] == missing[1] for name in _modules(evaluator.source)):
        wanted.append(found[1])
    packages: dict[str, str] = {}
    for line in (*evaluator.packages, *wanted):
        packages.setdefault(re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", line, maxsplit=1)[0]).lower(), line)
    names = json.dumps(list(packages.values()), ensure_ascii=False)
    return _ADD.sub(lambda _: f"dependencies = {names}", error.hint) if wanted else error.hint


def _packages(source: str, beside: Collection[str]) -> list[str]:
    """The packages of the modules that a script imports and can not do without."""
    from sandboxes.packages import which_package

    modules = [name for name in _modules(source) if name.partition(".")[0] not in beside]
    return [package for package in map(which_package, modules) if package]


@lru_cache(8)
def _modules(source: str) -> tuple[str, ...]:
    """The modules that a Python script imports, but those in a `try` that it can do without."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: dict[str, None] = {}
    waiting: deque[ast.AST] = deque([tree])
    while waiting and len(found) < _MOST:
        node = waiting.popleft()
        if isinstance(node, ast.Import):
            found |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            dotted = "." in node.module
            found |= dict.fromkeys(node.module if dotted else f"{node.module}.{alias.name}" for alias in node.names)
        waiting.extend(node.handlers if isinstance(node, ast.Try) else ast.iter_child_nodes(node))
    return tuple(found)


def _imported(source: str) -> Iterator[str]:
    for match in _IMPORT.finditer(source):
        for name in (match["whole"] or match["call"] or match["names"]).split(","):
            if top := name.strip().partition(" ")[0].partition(".")[0]:
                yield top


def _folders(script: Path) -> list[Path]:
    """The script's folder, and those above it up to that of the project or the current one, with its `src`."""
    own = Path(os.path.abspath(script)).parent
    here = Path.cwd()
    for number, folder in enumerate((own, *own.parents)):
        if folder == here or any((folder / one).exists() for one in _ROOT):
            above = list(own.parents)[:number]
            return [own, *above, folder / "src"]
    return [own]


def _place(folder: Path, name: str) -> Path | None:
    try:
        if (folder / f"{name}.py").is_file():
            return folder / f"{name}.py"
        if (folder / name).is_dir():
            with os.scandir(folder / name) as entries:
                if any(entry.name.endswith(".py") for entry in islice(entries, _ENTRIES)):
                    return folder / name
    except OSError:
        pass
    return None


def _is_evaluator(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return file.is_file() and _EVALUATOR.search(opened.read(1 << 18).decode(errors="replace")) is not None
    except OSError:
        return False
