"""A script as dialects see it: what its top level defines and imports. Nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, whole
from runner.core.types import Parameter
from runner.inputs.evaluators.entrypoint import naming
from runner.inputs.evaluators.python.classes import is_base
from runner.inputs.evaluators.python.entries import callers_of, entries_of, refuse_unmade
from runner.inputs.evaluators.python.signature import (
    CallableNode,
    FunctionNode,
    definitions,
    names_of,
    parameters,
    parse,
)
from sandboxes.base import Language

if TYPE_CHECKING:
    from tree_sitter import Node

PATTERN = "{…}"
"""As a parameter's name in JavaScript: an object that is taken apart."""
_T = TypeVar("_T")
_BASES = 20


class SeveralError(EvaluatorError):
    """Several functions of a script are of one dialect, and none was named."""

    sure = False
    """True where they have the marks of a tool's package, which counts more than what looks alike."""


class ModuleFunction(NamedTuple):
    """One function of a script, or a method of a class."""

    name: str
    """`score`, or `Class.method`."""
    parameters: tuple[Parameter, ...]
    """A method's without `self` or `cls`."""
    accepts_any: bool
    """It takes any keyword."""
    line: int
    decorators: tuple[str, ...] = ()
    """As written, without their arguments: `scorer`, `mlflow.genai.scorer`."""
    docstring: str = ""
    parts: tuple[str, ...] = ()
    """The keys of its first parameter in JavaScript, where that is taken apart."""
    optional_parts: tuple[str, ...] = ()
    """Those of them that have a default."""
    node: Node | None = None
    """Where it stands, in JavaScript."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of those that have no default."""
        return tuple(parameter.name for parameter in self.parameters if parameter.required)

    @property
    def words(self) -> str:
        """As people write it: `get_assert(output, context)`."""
        return f"{self.name}({', '.join([*self.names, *(['**…'] if self.accepts_any else [])])})"


class Class(NamedTuple):
    """One class of a script."""

    name: str
    bases: tuple[str, ...]
    """Whole names, as far as imports tell them: `deepeval.metrics.BaseMetric`."""
    methods: dict[str, ModuleFunction]
    line: int


@dataclass
class ScriptModule:
    """The top level of a script."""

    source: str
    where: str
    """Its file, for messages."""
    functions: dict[str, ModuleFunction] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    """By the name in the script, what it stands for: `autoevals.Score`."""
    values: dict[str, ast.AST] = field(default_factory=dict)
    """By name, what else is assigned."""
    body: list[ast.stmt] = field(default_factory=list)
    """The statements of a script in Python."""
    names: dict[str, ast.AST] = field(default_factory=dict)
    """By name, what it stands for in the end, in Python."""
    docstring: str = ""
    language: Language = "python"
    is_common: bool = False
    """True for a CommonJS module."""

    def called(self, entry: str) -> ModuleFunction | None:
        """Return the function of a name, the method of `Class.method`, or what a class without arguments does."""
        name, dot, method = entry.partition(".")
        found = self.classes.get(name)
        if found is None:
            return None if dot else self.functions.get(entry)
        own = found.methods.get(method or "__call__")
        if dot or own is None:
            return own
        return None if arguments_of(self, name) else own._replace(name=name)

    def definition(self, entry: str) -> CallableNode | None:
        """Return the function of a name, the method of `Class.method`, or what an instance does, as it is written."""
        first, _, method = entry.partition(".")
        found = self.names.get(first)
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name):
            found = self.names.get(found.func.id)
        if method or isinstance(found, ast.ClassDef):
            method = method or "__call__"
            found = names_of(found.body).get(method) if isinstance(found, ast.ClassDef) else None
        return found if isinstance(found, CallableNode) else None

    def uses(self, entry: str, *packages: str) -> bool:
        """Say whether a function of the script names anything that the script imports from one of these packages."""
        names = {name for name, what in self.imports.items() if what.partition(".")[0] in packages}
        node = self.names.get(entry.partition(".")[0])
        return node is not None and any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))

    @cached_property
    def imports_inside(self) -> dict[str, str]:
        """What functions import, by the name in them, with what the top level does."""
        found: dict[str, str] = {}
        for node in self.nodes():
            match node:
                case ast.Import(names=names):
                    found |= {one.asname or one.name.partition(".")[0]: one.name for one in names}
                case ast.ImportFrom(module=str(package), names=names, level=0):
                    found |= {one.asname or one.name: f"{package}.{one.name}" for one in names}
        return found

    @cached_property
    def callers(self) -> dict[str, set[str]]:
        """By name, the other functions and classes of the script that call it, or hand it on."""
        return callers_of(self.names)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield all that is in a script in Python."""
        for statement in self.body:
            yield from ast.walk(statement)

    def whole_name(self, text: str) -> str:
        """Return a dotted name with what its first part was imported as."""
        first, dot, rest = text.partition(".")
        brought = self.imports.get(first, first)
        # `import braintrust.framework` is `braintrust` in the script, and is written as it is.
        return text if f"{text}.".startswith(f"{brought}.") else f"{brought}{dot}{rest}"


def read_python(source: str, where: str) -> ScriptModule:
    """Parse a script. Raises EvaluatorError for wrong syntax."""
    tree = parse(source, where)
    docstring = whole(ast.get_docstring(tree) or "")
    module = ScriptModule(source, where, body=tree.body, names=names_of(tree.body), docstring=docstring)
    for name, node in definitions(tree.body):
        for kind in (module.functions, module.classes, module.values):
            kind.pop(name, None)  # what is defined last is what there is
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                module.functions[name] = function_of(node, name)
            case ast.Lambda():
                module.functions[name] = ModuleFunction(name, parameters(node.args), False, node.lineno)
            case ast.ClassDef():
                module.classes[name] = _class(module, node)
            case ast.Import(names=names):
                module.imports |= {a.asname or a.name.partition(".")[0]: a.name for a in names}
            case ast.ImportFrom(module=package, names=names):
                module.imports |= {a.asname or a.name: f"{package}.{a.name}" for a in names}
            case ast.Name(id=other) if other in module.functions:
                module.functions[name] = module.functions[other]._replace(name=name)
            case _:
                module.values[name] = node
    for name, entry in entries_of(source, where).items() if module.values else ():
        if name in module.values:  # what a call makes is called as functions are
            made = ModuleFunction(name, entry.parameters, entry.accepts_any, entry.line, docstring=entry.docstring)
            module.functions[name] = made
    return module


def required_packages(module: ScriptModule, stubs: set[str], packages: Mapping[str, str]) -> tuple[str, ...]:
    """Return the vendor's packages that the script needs: those of which it uses more than there are stubs for."""
    known = {**module.imports, **module.imports_inside}
    if not any(what.partition(".")[0] in packages for what in known.values()):
        return ()  # as of most
    used = {name for node in module.nodes() if (name := dotted_name(node)) and "." in name}
    wholes = [*known.values(), *(module.whole_name(name) for name in used if name.partition(".")[0] in known)]
    # What is looked up in a stub's own members is its part: `braintrust.Score.from_dict`.
    members = tuple(f"{one}." for one in stubs if not any(other.startswith(f"{one}.") for other in stubs))
    more = [name for name in wholes if name not in stubs and not name.startswith(members)]
    found = [packages[top] for name in more if (top := name.partition(".")[0]) in packages]
    return tuple(dict.fromkeys(found))


def only(
    module: ScriptModule, named: Mapping[str, _T], entry: str | None, title: str, *, private: bool = True
) -> tuple[str, _T] | None:
    """
    Return what is found by the name that was asked for, or by any. Raises EvaluatorError for several.

    `private`: a function of a private name that is not decorated may be it, too. Else it helps what scores.
    """
    if entry is not None:
        return (entry, named[entry]) if entry in named else None
    made = [(name, module.values[name]) for name in named if name in module.values]
    # What another is made of is not meant by itself.
    inside = {one.id for name, value in made for one in ast.walk(value) if isinstance(one, ast.Name) and one.id != name}
    named = {name: one for name, one in named.items() if name not in inside}
    named = {name: one for name, one in named.items() if not is_base(module.names.get(name.partition(".")[0]))} or named
    public = {name: one for name, one in named.items() if not name.startswith("_")}
    named = public or {name: one for name, one in named.items() if private or not _is_plain(module.names.get(name))}
    if len(named) > 1:
        last = module.callers
        named = dict(sorted(named.items(), key=lambda one: one[0] in last))
        first = next(iter(named))
        raise SeveralError(
            f"{module.where} has {list_names(named, 6)}, and each is {title}; say which: "
            f'{naming(module.where, first)}, or in its header, [tool.evalcell], entry = "{first}"'
        )
    return next(iter(named.items()), None)


def _is_plain(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, FunctionNode) and not node.decorator_list)


def instances(
    module: ScriptModule, kinds: Mapping[str, ModuleFunction], functions: bool = False
) -> dict[str, ModuleFunction]:
    """
    Return the classes, and by their names what the script makes of them at its top level: `metric = Contains("a")`.

    `functions`: what a function makes is meant, too.
    """
    made = {name: maker_of(module, name) for name in module.values}
    return dict(kinds) | {
        name: kinds[maker] for name, maker in made.items() if maker in kinds and (maker in module.classes or functions)
    }


def maker_of(module: ScriptModule, name: str) -> str:
    """
    Return what is called where a name gets its value: `Contains` of `metric = Contains("a")`; else the name.

    `Judge.scorer` of `metric = Judge("a").scorer()`.
    """
    value = module.values.get(name)
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id=kind)), attr=method)) if (
            kind in module.classes
        ):
            return f"{kind}.{method}"
    return dotted_name(value.func) if isinstance(value, ast.Call) else name


def arguments_of(module: ScriptModule, name: str, depth: int = 0) -> tuple[str, ...]:
    """Return what a class of the script cannot be made without, as far as its text tells it."""
    kind, node = module.classes.get(name), module.names.get(name)
    if kind is None or not isinstance(node, ast.ClassDef) or depth > _BASES:
        return ()
    if "__init__" in kind.methods:
        return kind.methods["__init__"].required
    own: tuple[str, ...] = ()
    if any(one.rpartition(".")[2] == "dataclass" for one in _names(node.decorator_list)):
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and one.value is None]
        shared = [one for one in fields if "ClassVar" not in ast.unparse(one.annotation)]
        own = tuple(one.target.id for one in shared if isinstance(one.target, ast.Name))
    return tuple(
        dict.fromkeys((*(each for base in kind.bases for each in arguments_of(module, base, depth + 1)), *own))
    )


def refuse_arguments(module: ScriptModule, name: str) -> None:
    """Raise EvaluatorError for a class that needs arguments, with what to write."""
    if names := arguments_of(module, name):
        made = f"metric = {name}({', '.join(f'{one}=…' for one in names)})"
        raise EvaluatorError(
            f"{module.where}:{module.classes[name].line}: {name} needs {list_names(names)} to be made; add "
            f"`{made}`, with your values, to the end of the script, and name that: {naming(module.where, 'metric')}"
        )


def callable_methods(module: ScriptModule) -> Iterator[ModuleFunction]:
    """Return the methods that others may call: of a class that is made without arguments, or that need no instance."""
    for name, kind in module.classes.items():
        node = module.names.get(name)
        made = isinstance(node, ast.ClassDef) and not arguments_of(module, name)
        for method, one in kind.methods.items():
            alone = {"staticmethod", "classmethod"} & {*one.decorators}
            if (made or alone) and method[0] != "_" and "property" not in one.decorators:
                yield one


def refuse_unmade_methods(module: ScriptModule, is_ours: Callable[[ModuleFunction], bool]) -> None:
    """Raise EvaluatorError for a method of a tool's in a class that needs arguments, with what to write."""
    for name, kind in module.classes.items():
        for method, one in kind.methods.items():
            if arguments_of(module, name) and method[0] != "_" and is_ours(one):
                refuse_unmade(module.source, module.where, f"{name}.{method}")


def _class(module: ScriptModule, node: ast.ClassDef) -> Class:
    methods = {}
    for inner in node.body:
        if isinstance(inner, FunctionNode):
            found = function_of(inner, f"{node.name}.{inner.name}")
            bound = "staticmethod" not in found.decorators
            methods[inner.name] = found._replace(parameters=found.parameters[1:]) if bound else found
    bases = tuple(module.whole_name(text) for text in _names(node.bases))
    return Class(node.name, bases, methods, node.lineno)


def function_of(node: FunctionNode, name: str) -> ModuleFunction:
    return ModuleFunction(
        name,
        parameters(node.args),
        node.args.kwarg is not None,
        node.lineno,
        tuple(_names(node.decorator_list)),
        whole(ast.get_docstring(node) or ""),
    )


def dotted_name(node: ast.AST) -> str:
    """Return the name that stands there: `braintrust.Eval`; nothing for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _names(nodes: list[ast.expr]) -> Iterator[str]:
    """The names that stand there, without their calls and indexes; nothing for other expressions."""
    for node in nodes:
        while isinstance(node, ast.Call | ast.Subscript):
            node = node.func if isinstance(node, ast.Call) else node.value
        if name := dotted_name(node):
            yield name
