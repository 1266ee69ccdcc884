"""What a Python script needs before it loads, all at once: packages, files of one's own, variables, a model."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable
from runner.inputs.evaluators.evaluator_files import own_modules
from runner.inputs.evaluators.python.beside import files_beside, fork_modules, loaded_modules, variable_read
from runner.inputs.evaluators.python.signature import CallableNode, expression, parse
from runner.inputs.evaluators.requirements import package_name
from sandboxes.words.hints import CLIENTS, declare, unknown
from sandboxes.words.wording import Setting

_MOST = 6
_CALLED = ("openai", "verl")
"""Dialects whose package a script calls for itself."""
_NEVER = re.compile(r"TYPE_CHECKING$|__main__")
_READS = re.compile(r"(^|\.)(open|read_csv|read_json|read_parquet|read_excel|loadtxt|read_table)$")
_PATH = re.compile(r"[\w.-][\w./ -]{0,200}\.\w{1,10}")


class Needs(NamedTuple):
    """What is not there."""

    packages: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Modules that may be packages or files."""
    own: tuple[str, ...] = ()
    """Files of modules."""
    data: tuple[str, ...] = ()
    """Files that it opens when it is loaded, by relative paths."""
    variables: tuple[str, ...] = ()
    calls: str = ""
    """The package by which it makes a model's client when it is loaded."""

    def words(self) -> str:
        """Return it as a sentence; nothing if there is nothing."""
        said = []
        if self.own:
            said.append(f"a file of your own beside it for {list_names(self.own, _MOST)}")
        if self.packages:
            said.append(f"packages: {declare(self.packages)}")
        if self.unknown:
            said.append(f"{list_names(self.unknown, _MOST)} ({unknown(self.unknown[:_MOST])})")
        if self.data:
            header = ", ".join(f'"{one}"' for one in self.data)
            said.append(
                f"the file {list_names(self.data, _MOST)}: beside the script, with `files = [{header}]` in its header"
            )
        if self.variables:
            said.append(
                f"the variable {list_names(self.variables, _MOST)}: {Setting('sandbox.env', [*self.variables])}"
            )
        if self.calls:
            said.append(f"a model, which it calls by `{self.calls}`: {Setting('sandbox.network', True)}")
        return f"To load, the script also needs {'; '.join(said)}" if said else ""


def needs_of(
    source: str,
    where: str,
    *,
    files: Mapping[str, str] | None = None,
    beside: Collection[str] | None = None,
    packages: Sequence[str] = (),
    env: Collection[str] = (),
    named: Collection[str] = (),
) -> Needs:
    """
    Return what a script needs that is not there when it is loaded. Nothing is run.

    Args:
        source: Its text.
        where: Its file.
        files: Those that go with it; None to look beside it.
        beside: Modules that are there as files; None to look for them.
        packages: Those that are declared or given.
        env: The variables that it is given.
        named: The files and folders that its header names.
    """
    from sandboxes.packages import is_own_file, is_unknown, which_package  # here: few ask

    try:
        tree = parse(source, where)
    except EvaluatorError:
        return Needs()
    there = {*own_modules(files or {})}
    if beside is None:
        beside = files_beside(Path(where), source)
    declared = {package_name(one) for one in packages}
    own, strangers, wanted = dict[str, None](), dict[str, None](), dict[str, None]()
    folder = Path(where).parent
    for module in loaded_modules(source):
        top = module.lstrip(".").partition(".")[0]
        is_file = any((folder / f"{top}{end}").exists() for end in (".py", "")) if files is None else False
        if top in there or top in beside or is_file or _is_tool(top):
            continue
        package = which_package(module)
        fork = fork_modules(source) if top == "verl" else []
        if fork or module[0] == "." or is_own_file(module):
            own |= dict.fromkeys(fork or [module])
        elif package:
            wanted |= {} if package_name(package) in declared else {package: None}
        elif is_unknown(module) and package_name(top) not in declared:
            strangers[top] = None
    nodes = [*_loading(tree.body)]
    data = [one for node in nodes if (one := _opened(node)) and not any(map(_within(one), named))]
    variables = [one for node in nodes if _is_read(node) and (one := variable_read(node))]
    calls = next((one for node in nodes if (one := _client(node))), "")
    given = [one for one in dict.fromkeys(variables) if one not in env]
    return Needs((*wanted,), (*strangers,), (*own,), (*dict.fromkeys(data),)[:_MOST], (*given,)[:_MOST], calls)


def _loading(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """What is run when a script is loaded: not the inside of functions, of what is caught, or of `__main__`."""
    left: deque[ast.AST] = deque(body)
    while left:
        node = left.popleft()
        yield node
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and _NEVER.search(expression(node.test))):
            continue
        if not isinstance(node, CallableNode):
            left += ast.iter_child_nodes(node)


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)


def _within(file: str) -> Callable[[str], bool]:
    """Whether a file is one that is named, or in a folder that is."""
    return lambda name: f"{file}/".startswith(f"{name.removeprefix('./').rstrip('/')}/")


def _is_tool(top: str) -> bool:
    """Whether it is the package of a tool: a dialect asks for it where it is needed."""
    from runner.inputs.evaluators.foreign.registry import names  # here, as above

    plain = top.replace("_", "-")
    return top == "autoevals" or any(f"{plain}-".startswith(f"{one}-") for one in names() if one not in _CALLED)


def _opened(node: ast.AST) -> str:
    """The relative path that a call reads."""
    match node:
        case ast.Call(func=func, args=[ast.Constant(value=str(path)), *more]) if _READS.search(expression(func)):
            mode = more[0].value if more and isinstance(more[0], ast.Constant) else "r"
            plain = path.removeprefix("./")
            return plain if "r" in str(mode) and _PATH.fullmatch(plain) and ".." not in plain else ""
    return ""


def _client(node: ast.AST) -> str:
    """How a call makes a client of a model, if it is one."""
    name = expression(node.func) if isinstance(node, ast.Call) else ""
    return printable(name, 60) if name.rpartition(".")[2] in CLIENTS else ""
