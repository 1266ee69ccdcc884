"""The user's own files that a script imports: what stays behind is told, and no package is meant by its name."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable
from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import own_modules
from runner.inputs.evaluators.header import read_header
from runner.inputs.evaluators.python.signature import expression, parse
from runner.inputs.evaluators.requirements import package_name
from sandboxes.base import ScriptError
from sandboxes.words.hints import PY_ROUGE, declare, one_file, unknown

_MOST = 200
"""Imports that are looked at."""
_ENTRIES = 1000
"""Of a folder, to see whether there is a module in it."""
_ROOT = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_ABOVE = 12
"""Folders above the script's that are looked at."""
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<whole>\w+)|import[ \t]+(?P<names>[\w., \t]+))"
    r"|(?:import_module|__import__)\(\s*[\"'](?P<call>\w+)",
    re.MULTILINE,
)
_EVALUATOR = re.compile(r"^(async[ \t]+)?def[ \t]+(evaluate|aggregate)\b", re.MULTILINE)
_OF_VERL = re.compile(
    r"(?:from|import)[ \t]+verl\.utils\.reward_score(?:\.(\w+)|[ \t]+import[ \t]+(?:\(([\w, \t\n]+)|([\w, \t]+)))"
)
_IN_VERL = {"default_compute_score", "geo3k", "gsm8k", "prime_code", "prime_math", "rlla", "sandbox_fusion"}
_IN_VERL |= {
    "_default_compute_score",
    "math",
    "math_batch",
    "math_dapo",
    "math_reward",
    "math_verify",
    "search_r1_like_qa_em",
}
"""What verl's package brings of rewards; forks have more."""
NEVER = re.compile(r"TYPE_CHECKING$|^__name__ == '__main__'$|^'__main__' == __name__$")
"""Conditions that do not hold in a sandbox."""
_MISSING = re.compile(r"No module named '(\w+)([\w.]*)")
_BEFORE = re.compile(
    r"^(?:\w+\.)*(?:ModuleNotFoundError|ImportError): (No module named '[\w.]+'.*)\n\n"
    r"(?:During handling of the above exception|The above exception was the direct cause)",
    re.MULTILINE,
)
"""In a traceback: what the error was raised after."""
_FRAME = re.compile(r'File "[^"\n]*\bevaluator\b[^"\n]*", line (\d+)')
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_SECRET = re.compile(r"_(KEY|TOKEN|SECRET|PASSWORD)$")
_NO_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def files_beside(script: Path, source: str, modules: Iterable[str] = ()) -> dict[str, str]:
    """
    Return the user's files and folders of modules that a Python script imports, by the name of the module.

    `modules` are the texts of those that go with it.

    They lie beside the script, or above it in the same project: then the path begins with `..`.
    """
    found: dict[str, str] = {}
    folders: list[Path] = []
    named = (name for text in (source, *modules) for name in _imported(text))
    for name in islice(dict.fromkeys(named), _MOST):
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
    modules = {package_name(name): name for name in beside}
    for line in packages:
        name = modules.get(package_name(line))
        if (
            name is None
            or ";" in line
            or beside[name].startswith("..")
            or (folder is not None and is_evaluator(folder / beside[name]))
        ):
            continue
        raise EvaluatorError(
            f"{where}: `{printable(line, 60)}` is asked for as a package, but {printable(beside[name])} lies beside "
            "the script, and a registry's package of that name is a stranger's; take it out there, as the file goes "
            "with the script, or rename the file if the package is meant"
        )


_PY_ROUGE = re.compile(
    r"\bRouge\([^)]*\b(max_n|limit_length|length_limit|apply_avg|apply_best|weight_factor)=|rouge-n\b"
)
"""How a script makes py-rouge's `Rouge`, whose module has the name of another package's."""


def is_beside(where: str, specifier: str) -> bool:
    """Say whether a bare import of a TypeScript script means a file: one beside the script, or by its name."""
    from sandboxes.packages import is_own_file

    suffixes = ("", ".ts", ".js", ".mjs", ".cjs", ".mts", ".tsx")
    try:
        return is_own_file(specifier) or any((Path(where).parent / f"{specifier}{one}").exists() for one in suffixes)
    except (OSError, ValueError):
        return False


def local_hint(message: str, beside: Mapping[str, str]) -> str | None:
    """Return the next step for an error that a file beside the script is not there."""
    missing = _MISSING.search(message)
    if missing is None or missing[1] not in beside:
        return None
    return left_behind(beside[missing[1]])


def left_behind(file: str) -> str:
    """Return why a file does not go with the script that imports it, and the next step."""
    if file.startswith(".."):
        return f"{file} is not taken along, as it is outside of the script's folder: put a copy beside the script"
    if file.endswith((".so", ".pyd", ".pyc")):
        return (
            f"{file} beside the script is not taken along, as it is compiled: put its Python source there, or install "
            "it as a package"
        )
    if file.removesuffix(".py") in sys.stdlib_module_names:
        return (
            f"{file} beside the script is not taken along, as `import {file.removesuffix('.py')}` is Python's own "
            "module: give the file another name if it is meant"
        )
    return f"{file} beside the script is not taken along: copy what the script needs of it into a file of another name"


def next_step(
    error: ScriptError, evaluator: Evaluator, packages: Sequence[str] = (), *, hidden: bool = False
) -> str | None:
    """
    Return the next step for a script's error; for a module that is not there, with all that the script imports.

    `hidden`: the script raised another error after it, such as one of its own words.

    `packages` are the sandbox's. Files of the user's own are told first: without them, packages are installed in vain.
    """
    before = _BEFORE.search(error.traceback)
    if before is not None and error.hint is None and not _MISSING.search(error.message):  # it hides the true cause
        found = error.model_copy(update={"message": before[1], "traceback": "", "hint": None})
        step = next_step(found, evaluator, packages, hidden=True)
        return "; ".join(filter(None, (f"it hides another error: {before[1]}", step)))
    if variable := _own_variable(error, evaluator):
        return variable
    if local := local_hint(error.message, evaluator.beside):
        return local
    missing, no_name = _MISSING.search(error.message), _NO_NAME.search(error.message)
    module = f"{no_name[2]}.{no_name[1]}" if no_name else missing[1] + missing[2] if missing else ""
    top, declared = _top(module), packages or evaluator.packages
    if top in sys.stdlib_module_names or top == "evaluator_folder" or not module:
        return error.hint
    from sandboxes.packages import is_own_file, is_unknown, which_package

    if fork := fork_modules(evaluator.source) if top == "verl" else []:
        return one_file(f"verl's package brings no {list_names(fork, 4)}, which a copy of your own has")
    package = which_package(module)
    if package and package_name(package) in {package_name(line) for line in declared if ";" not in line}:
        return (
            f"{package} is installed, and this version of it brings no `{module}`: declare one that does, or, if "
            f"`{module}` is in a copy of your own, copy what the script needs of it into the script"
        )
    if missing is None:
        return error.hint
    modules = [text for name, text in evaluator.files.items() if name.endswith(".py")]
    there_too = own_modules(evaluator.files)
    at_load, anywhere = (
        tuple(name for name in names if _top(name.lstrip(".")) not in there_too)
        for names in _modules("\n".join((evaluator.source, *modules)), tries=hidden)
    )
    at_load = () if hidden else at_load  # it has been loaded
    beside = evaluator.beside.keys() - sys.stdlib_module_names
    own = [name for name in at_load if name[0] == "." or _top(name) in beside or is_own_file(name)]
    same = [name for name in anywhere if _top(name) == top] or [module]
    there = {package_name(line) for line in declared if ";" not in line}
    others = [name for name in (*at_load, *same) if name not in own and package_name(_top(name)) not in there]
    strangers = dict.fromkeys(_top(name) for name in others if is_unknown(name))
    if own == [module] or is_own_file(module):
        steps = [str(error.hint)]
    elif own:
        files = list_names(dict.fromkeys(name if name[0] == "." else _top(name) for name in own), 4)
        steps = [one_file(f"files of your own ({files}) are not there")]
    else:
        steps = []
    wanted = _packages(anywhere if same != [module] else (*anywhere, module), evaluator.beside)
    from runner.inputs.evaluators.python.guarded_imports import missing_guarded

    wanted += [one for _, one in missing_guarded(evaluator, [*declared, *wanted]) if one and one not in wanted]
    if "rouge" in wanted and _PY_ROUGE.search(evaluator.source):
        wanted = [line for one in wanted for line in (PY_ROUGE if one == "rouge" else (one,))]
    if not {*map(package_name, wanted)} <= there and not is_own_file(module):
        # Those of the header stand in the line that is written there, and what was given beside it is given again.
        header = read_header(evaluator.source, evaluator.name).packages
        every = (*header, *(line for line in wanted if package_name(line) not in there))
        lines = {package_name(line): line for line in reversed(every)}
        every = tuple(lines[name] for name in dict.fromkeys(map(package_name, every)))
        wasm = "; the process sandbox has packages" * (error.hint or "").endswith("the process sandbox has packages")
        steps.append(f"{'then ' * bool(steps)}{declare(every)}{wasm}")
    if strangers:
        steps.append(unknown([*strangers][:4]))
    return "; ".join(steps) or error.hint


def _own_variable(error: ScriptError, evaluator: Evaluator) -> str | None:
    """The next step with the variable that the script hands to what failed, where a package names another one."""
    lines = _FRAME.findall(error.traceback)
    name = next((one for one in _VARIABLE.findall(error.hint or "") if one in error.message), None)
    if evaluator.language != "python" or name is None or not lines or error.hint is None:
        return None
    tree, line = parse(evaluator.source, evaluator.name), int(lines[-1])
    nodes = [*ast.walk(tree)]
    around = [one for one in nodes if isinstance(one, ast.stmt) and one.lineno <= line <= (one.end_lineno or line)]
    failing: Sequence[ast.AST] = around[-1:]
    found: list[str] = []
    for _ in range(3):  # what it is given, and what that was assigned
        inside = [inner for one in failing for inner in ast.walk(one)]
        found += [one for one in map(variable_read, inside) if one]
        used = {
            one.id if isinstance(one, ast.Name) else one.attr
            for one in inside
            if isinstance(one, ast.Name | ast.Attribute)
        }
        failing = [
            one.value
            for one in nodes
            if isinstance(one, ast.Assign | ast.AnnAssign)
            and one.value is not None
            and used & {_last(target) for target in (one.targets if isinstance(one, ast.Assign) else [one.target])}
        ]
    if name in found or not (secrets := [one for one in found if _SECRET.search(one)]):
        return None
    return f"{error.hint.replace(name, secrets[0])} (the script gives that one in place of {name})"


def variable_read(node: ast.AST) -> str:
    """Return the variable of the environment that an expression reads; empty for any other."""
    match node:
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
            called = expression(func)
            return name if called.endswith(("environ.get", "getenv")) or called in ("get_env", "config", "env") else ""
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
            return name if expression(value).endswith("environ") else ""
    return ""


def _last(target: ast.AST) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def fork_modules(source: str) -> list[str]:
    """Return the modules of rewards that a script imports from a copy of verl, and that its package does not have."""
    found = ["".join(parts) for parts in _OF_VERL.findall(source)]
    names = [name.split()[0] for part in found for name in part.split(",") if name.strip()]
    return [f"verl.utils.reward_score.{name}" for name in dict.fromkeys(names) if name not in _IN_VERL]


def _top(module: str) -> str:
    return module.partition(".")[0]


def _packages(modules: Sequence[str], beside: Collection[str]) -> list[str]:
    """The packages of these modules, as far as they are known."""
    from sandboxes.packages import which_package

    return [package for name in modules if name.partition(".")[0] not in beside and (package := which_package(name))]


class _Imports(NamedTuple):
    at_load: tuple[str, ...]
    """Those of files by a relative import begin with a dot."""
    anywhere: tuple[str, ...]


@lru_cache(8)
def _modules(source: str, tries: bool = False) -> _Imports:
    """
    The modules that a Python script imports, but those for types alone.

    `tries`: also those in a `try`, which most can do without.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Imports((), ())
    at_load: dict[str, None] = {}
    anywhere: dict[str, None] = {}
    waiting: deque[tuple[ast.AST, bool]] = deque([(tree, True)])
    while waiting and len(anywhere) < _MOST:
        node, loading = waiting.popleft()
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            at_load |= dict.fromkeys(["." * node.level + (node.module or node.names[0].name)][: int(loading)])
        elif isinstance(node, ast.ImportFrom) and node.module:
            dotted = "." in node.module
            names = [node.module if dotted else f"{node.module}.{alias.name}" for alias in node.names]
        anywhere |= dict.fromkeys(names)
        at_load |= dict.fromkeys(names if loading else ())
        inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.Try) and not tries:
            inside = node.handlers
        if isinstance(node, ast.If) and NEVER.search(expression(node.test)):
            inside = node.orelse
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        waiting.extend((child, loading and not in_function) for child in inside)
    return _Imports(tuple(at_load), tuple(anywhere))


def loaded_modules(source: str) -> tuple[str, ...]:
    """Return the modules that a script imports when it is loaded; files by a relative import begin with a dot."""
    return _modules(source).at_load


def _imported(source: str) -> Iterator[str]:
    for match in _IMPORT.finditer(source):
        for name in (match["whole"] or match["call"] or match["names"]).split(","):
            if top := name.strip().partition(" ")[0].partition(".")[0]:
                yield top


def _folders(script: Path) -> list[Path]:
    """The script's folder, and those above it up to that of the project, or else the current one, with its `src`."""
    own = Path(os.path.abspath(script)).parent
    above = [own, *takewhile(lambda folder: os.access(folder, os.R_OK | os.X_OK), own.parents)][: _ABOVE + 1]
    roots = [number for number, one in enumerate(above) if any(os.path.exists(one / name) for name in _ROOT)]
    roots = roots or [number for number, one in enumerate(above) if one == Path.cwd()]
    return [*above[: roots[0] + 1], above[roots[0]] / "src"] if roots else [own]


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


def is_evaluator(file: Path) -> bool:
    """Say whether a file is an evaluator itself."""
    try:
        with open(file, "rb") as opened:
            return _EVALUATOR.search(opened.read(1 << 18).decode(errors="replace")) is not None
    except OSError:
        return False
