"""The files in a script's folder that a TypeScript script imports, and where they are found when it runs."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.inputs.evaluators.evaluator_files import ScriptFolder
from runner.inputs.evaluators.typescript.packages import Places, bare, codes
from runner.inputs.evaluators.typescript.parse import TangledError, TypeScriptModule
from sandboxes.models import PackageImport

if TYPE_CHECKING:
    from tree_sitter import Node

CODE = (".ts", ".js", ".mjs")
_ENDINGS = ("", ".ts", ".js", ".mjs", ".json", "/index.ts", "/index.js")
_DYNAMIC = re.compile(r"""\bimport\s*\(\s*(["'])(\.\.?/[^"'\\\n]{1,200})\1(?=\s*[,)])""")
_RELATIVE = re.compile(r"""["']\.\.?/""")
_PLACE = "evalcell-file:"
"""What stands in place of a file's name until the sandbox knows its address."""


class FileImport(NamedTuple):
    """An import of a file, as it is written."""

    specifier: str
    line: int
    start: int
    end: int
    """The bytes of the specifier, without its quotes."""
    attributes: tuple[int, int] | None = None
    """The bytes of `with { … }`."""


def file_imports(source: str, where: str) -> list[FileImport]:
    """Return the imports of files by a relative name. Raises EvaluatorError."""
    if not _RELATIVE.search(source):
        return []
    try:
        script = TypeScriptModule(source)
    except TangledError as error:
        raise EvaluatorError(f"{where}: {error}") from None
    found = [_static(script, node) for node, _ in script.brought if script.text(node)[1:2] == "."]
    for match in _DYNAMIC.finditer(source):
        start = len(source[: match.start(2)].encode())
        line = source.count("\n", 0, match.start()) + 1
        found.append(FileImport(match[2], line, start, start + len(match[2].encode())))
    return found


def _static(script: TypeScriptModule, node: Node) -> FileImport:
    statement = node.parent
    attributes = (
        next((one for one in statement.named_children if one.type == "import_attribute"), None) if statement else None
    )
    span = None if attributes is None else (attributes.start_byte, attributes.end_byte)
    return FileImport(script.text(node)[1:-1], node.start_point.row + 1, node.start_byte + 1, node.end_byte - 1, span)


def _candidates(specifier: str, importer: str) -> Iterator[str]:
    """The names that an import may mean, from the script's folder; none for what is outside of it."""
    plain = posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))
    if plain.startswith("..") or plain == ".":
        return
    yield from (f"{plain}{ending}" for ending in _ENDINGS)
    stem, suffix = posixpath.splitext(plain)
    if suffix in (".js", ".mjs"):  # as TypeScript names what a .ts file becomes
        yield f"{stem}.ts"


def follow_imports(folder: ScriptFolder, source: str, where: str) -> None:
    """Take what a script imports from its folder, what that imports, and so on. Raises EvaluatorError."""
    waiting = [(name, text) for name, text in folder.files.items() if name.endswith(CODE)]
    waiting.append(("", source))
    while waiting:
        importer, text = waiting.pop()
        for found in file_imports(text, importer or where):
            for name in _candidates(found.specifier, importer):
                known = name in folder.files
                taken = folder.take(name)
                if taken is not None:
                    if not known and name.endswith(CODE):
                        waiting.append((name, taken))
                    break


def refuse_lacking(source: str, files: Mapping[str, str], where: str) -> None:
    """Raise EvaluatorError for an import of what is not there, and for files that import each other in a loop."""
    _ordered(source, files, where)


def _ordered(source: str, files: Mapping[str, str], where: str) -> dict[str, None]:
    """The files that are imported, each after those that it imports itself."""
    done: dict[str, None] = {}

    def visit(importer: str, text: str, above: tuple[str, ...]) -> None:
        shown = importer or where
        for found in file_imports(text, shown):
            name = next((one for one in _candidates(found.specifier, importer) if one in files), None)
            if name is None:
                raise EvaluatorError(f"{shown}:{found.line}: {_lacking(found.specifier, importer)}")
            if name in above:
                loop = " -> ".join([*above[above.index(name) :], name])
                raise EvaluatorError(
                    f"{shown}:{found.line}: files import each other in a loop ({printable(loop, 200)}), which is not "
                    "possible here; put what they share into a file that imports neither"
                )
            if name not in done:
                if name.endswith(CODE):
                    visit(name, files[name], (*above, name))
                done[name] = None

    visit("", source, ())
    return done


def _lacking(specifier: str, importer: str) -> str:
    name = printable(specifier, 80)
    if not list(_candidates(specifier, importer)):
        return f"{name!r} is outside of the script's folder; put the file into it"
    return (
        f"there is no file {name!r} in the script's folder; put it there, or copy what is needed of it into the script"
    )


class _Rewriter:
    """Sets other specifiers in place of the imports of files."""

    def __init__(
        self, files: Mapping[str, str], where: str, target: Callable[[str, str], str], places: Places | None = None
    ) -> None:
        self._files, self._where, self._target, self._places = files, where, target, places

    def text(self, source: str, importer: str) -> str:
        data = source.encode()
        edits = self._places.edits(source) if self._places is not None else []
        for found in file_imports(source, importer or self._where):
            name = next((one for one in _candidates(found.specifier, importer) if one in self._files), None)
            if name is None:
                continue
            edits.append((found.start, found.end, self._target(name, importer).encode()))
            if found.attributes is not None:
                start, end = found.attributes
                edits.append((start, end, b" " * (end - start)))
        for start, end, new in sorted(edits, reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()


def with_addresses(
    source: str, files: Mapping[str, str], where: str
) -> tuple[str, tuple[tuple[str, str], ...], tuple[PackageImport, ...]]:
    """
    Return a program, its files as Deno's sandbox loads them, each after those that it imports, and its packages.

    Each import is of `evalcell-file:NUMBER`, where the number is a file's place, or of `evalcell-package:NUMBER`. Data
    are modules, too.
    """
    order = [*_ordered(source, files, where)]
    places = Places(codes(source, {name: files[name] for name in order}, where))
    rewriter = _Rewriter(files, where, lambda name, _: f"{_PLACE}{order.index(name)}", places)
    made = [
        (name, rewriter.text(files[name], name) if name.endswith(CODE) else _data(name, files[name])) for name in order
    ]
    return rewriter.text(source, ""), tuple(made), places.imports


def checkable(source: str, files: Mapping[str, str], where: str) -> tuple[str, dict[str, str]]:
    """Return a script and its files as a compiler reads them from a folder."""
    order = [*_ordered(source, files, where)]

    def target(name: str, importer: str) -> str:
        way = posixpath.relpath(name, posixpath.dirname(importer) or ".")
        return (way if way.startswith(".") else f"./{way}") + ("" if name.endswith(CODE) else ".ts")

    rewriter = _Rewriter(files, where, target)
    made = {}
    for name in order:
        if name.endswith(CODE):
            made[name] = bare(rewriter.text(files[name], name))
        else:
            made[f"{name}.ts"] = _data(name, files[name]).replace("export default ", "export default <any>", 1)
    return bare(rewriter.text(source, "")), made


def _data(name: str, text: str) -> str:
    """The module that a file of data is imported as."""
    quoted = json.dumps(text)
    return f"export default JSON.parse({quoted});\n" if name.endswith(".json") else f"export default {quoted};\n"
