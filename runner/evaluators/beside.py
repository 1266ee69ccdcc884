"""The files beside a script that it imports: they stay behind when it runs, and no package of their names is meant."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from runner.errors import EvaluatorError
from runner.text import printable

_MOST = 200
"""Imports that are looked at."""
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<whole>\w+)|import[ \t]+(?P<names>[\w., \t]+))"
    r"|(?:import_module|__import__)\(\s*[\"'](?P<call>\w+)",
    re.MULTILINE,
)
_EVALUATOR = re.compile(r"^(async[ \t]+)?def[ \t]+evaluate\b", re.MULTILINE)
_MISSING = re.compile(r"No module named '(\w+)")


def files_beside(script: Path, source: str) -> dict[str, str]:
    """The files and folders of modules beside a Python script that it imports, by the name of the module."""
    found: dict[str, str] = {}
    for name in islice(dict.fromkeys(_imported(source)), _MOST):
        if name not in sys.stdlib_module_names and name != script.stem and (place := _place(script.parent, name)):
            found[name] = place
    return found


def refuse_strangers(packages: Iterable[str], beside: Mapping[str, str], where: str, folder: Path | None) -> None:
    """
    Raise EvaluatorError for a package that has the name of an imported file beside the script.

    In `folder`, if it is known, files that are evaluators themselves are let be: they are called as what they use.
    """
    from packaging.utils import canonicalize_name

    modules = {canonicalize_name(name): name for name in beside}
    for line in packages if beside else ():
        name = modules.get(canonicalize_name(re.split(r"[^\w.-]", line, maxsplit=1)[0]))
        if name is None or ";" in line or (folder is not None and _is_evaluator(folder / beside[name])):
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
    return (
        f"{beside[missing[1]]} beside the script is not taken along: copy what the script needs of it into the script"
    )


def _imported(source: str) -> Iterator[str]:
    for match in _IMPORT.finditer(source):
        for name in (match["whole"] or match["call"] or match["names"]).split(","):
            if top := name.strip().partition(" ")[0].partition(".")[0]:
                yield top


def _place(folder: Path, name: str) -> str | None:
    try:
        if (folder / f"{name}.py").is_file():
            return f"{name}.py"
        inside = (folder / name).glob("*.py") if (folder / name).is_dir() else iter(())
        return f"{name}/" if next(inside, None) else None
    except OSError:
        return None


def _is_evaluator(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return file.is_file() and _EVALUATOR.search(opened.read(1 << 18).decode(errors="replace")) is not None
    except OSError:
        return False
