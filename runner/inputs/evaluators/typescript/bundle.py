"""
A TypeScript program and its files as one module, each file a function in it: a call that starts anew loads one text.

A file's own lines stay as they are, between a line before and one after them, so that a stack can name them.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.inputs.evaluators.evaluator_files import CODE
from runner.inputs.evaluators.typescript.imports import RELATIVE, data_of, file_imports, import_order, target_of
from runner.inputs.evaluators.typescript.parse import FUNCTIONS, TypeScriptModule
from runner.inputs.evaluators.typescript.signature import read_script

if TYPE_CHECKING:
    from tree_sitter import Node

_OWN = "evalcell$"
_GLUE = """\
function evalcell$common(file, run, known = {}) {
  if (!file.common) {
    const module = file.common = { exports: {} };
    const require = (name) => known[name.replace(/^node:/, "")];
    try {
      run.call(module.exports, module, module.exports, require);
    } catch (error) {
      file.common = undefined;
      throw error;
    }
  }
  const { exports } = file.common;
  const own = typeof exports === "object" || typeof exports === "function" ? exports : {};
  return { __proto__: null, ...own, default: exports?.__esModule ? exports.default : exports };
}
function evalcell$require(file) {
  const own = file();
  return file.common ? file.common.exports : own;
}
async function evalcell$import(file) {
  return await file();
}
async function evalcell$any(folder, name) {
  const place = /^\\.\\.?\\//.test(name) ? new URL(name, `file:///${folder}/`).pathname.slice(1) : "";
  const files = evalcell$files();
  const file = Object.hasOwn(files, place) ? files[place] : null;
  return file ? await file() : import(name);
}
"""
_WORD = re.compile(r"[\w$]+")
_SHARED = frozenset(("process",))
"""What the script may have of its tool, and its files, too."""
_ASSIGNED = {
    "assignment_expression": "left",
    "augmented_assignment_expression": "left",
    "update_expression": "argument",
}
_TYPES = ("interface_declaration", "type_alias_declaration", "ambient_declaration", "function_signature")


def bundle(source: str, files: Mapping[str, str], where: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """
    Return a program and what follows it in its module: texts, each with the name of the file that is in it.

    Raises:
        EvaluatorError: A file is imported in a way that is not possible here.
    """
    return _Bundle(source, files, where).texts()


def refuse_lacking(source: str, files: Mapping[str, str], where: str) -> None:
    """Raise EvaluatorError for an import of what is not there, and for files that cannot go with the script."""
    if files or RELATIVE.search(source):
        bundle(source, files, where)


class _Bundle:
    def __init__(self, source: str, files: Mapping[str, str], where: str) -> None:
        self.files, self.where = files, where
        self.main = _Module(self, "", source)
        every = {name: _Module(self, name, text) for name, text in files.items() if name.endswith(CODE)}
        names = dict.fromkeys(import_order(source, files, where))
        if any(each.computed for each in (self.main, *every.values())):
            names |= dict.fromkeys(files)
        self.numbers = {name: number for number, name in enumerate(names)}
        self.modules = {name: every[name] for name in names if name in every}
        self.awaits = any(module.awaits for module in self.modules.values())
        self.imports: list[str] = []
        """Those of what is no file: they stand at the top of the module."""

    def texts(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        made = [(name, self._function(name)) for name in self.numbers]
        table = ",".join(f"{json.dumps(name)}:{self.function(name)}" for name in self.numbers)
        program = self.main.program()
        glue = f"{_GLUE}function evalcell$files() {{\n  return {{{table}}};\n}}\n{''.join(self.imports)}"
        return program, (*made, ("", glue))

    def function(self, name: str) -> str:
        """Return the name of the function that a file is."""
        return f"{_OWN}{self.numbers[name]}"

    def call(self, name: str) -> str:
        """Return an expression for what a file exports."""
        return f"{'(await ' if self.awaits else ''}{self.function(name)}(){')' if self.awaits else ''}"

    def _function(self, name: str) -> str:
        own = self.function(name)
        if not name.endswith(CODE):
            value = data_of(name, self.files[name])
            return f"function {own}(){{return evalcell$common({own},function(module){{module.exports={value}}})}}"
        module = self.modules[name]
        words = {*_WORD.findall(self.files[name])} & {*self.main.script.bindings} - _SHARED
        start = f"function {own}(){{{_constants(sorted(words), 'globalThis')}return "
        if module.is_common:
            body, known = module.common()
            return f"{start}evalcell$common({own},function(module,exports,require){{\n{body}\n}},{known})}}"
        before, body, exports = module.function()
        word = "async" if self.awaits else ""
        return f"{start}{own}.own??=({word}()=>{{{before}\n{body}\n;return{{__proto__:null,{exports}}}}})()}}"


class _Module:
    """One file, or with the name `""` the program itself."""

    def __init__(self, bundle: _Bundle, name: str, source: str) -> None:
        self._bundle, self.name = bundle, name
        self.script = read_script(source, name) if name else TypeScriptModule(source)
        self._edits: list[tuple[int, int, str]] = []
        self._before: list[str] = []

    @cached_property
    def is_common(self) -> bool:
        """Whether it is a CommonJS module."""
        statements = {node.type for node in self.script.root.named_children}
        own = re.search(r"\bmodule\.exports\b|\bexports\.\w|\brequire\s*\(", self.script.source)
        return self.name.endswith(".cjs") or (not statements & {"import_statement", "export_statement"} and bool(own))

    @cached_property
    def computed(self) -> list[Node]:
        """Calls of `import` with a name that is not written there."""
        return [call for word, call, name in self.script.loads if word == "import" and name.type != "string"]

    @cached_property
    def awaits(self) -> bool:
        """Whether it waits for something while it is loaded."""
        found = "await" in self.script.source and any(
            node.type == "await_expression" or (node.type == "for_in_statement" and node.children[1].type == "await")
            for node in _outside_of_functions(self.script.root)
        )
        return found and not self.is_common

    def program(self) -> str:
        """Return the text of the program, which stays a module."""
        self._calls()
        for node in self._statements():
            source = node.child_by_field_name("source")
            target = self._target(source)
            if source is None or target is None:
                continue
            exports: dict[str, str] = {}
            if node.type == "import_statement":
                self._import(node, self._bundle.call(target), target)
            else:
                self._export_from(node, self._bundle.call(target), target, exports)
            again = [f"{_OWN}again{len(self._before)}_{number}" for number in range(len(exports))]
            self._before += [f"const {own}={value};" for own, value in zip(again, exports.values(), strict=True)]
            names = ",".join(f"{own} as {json.dumps(name)}" for own, name in zip(again, exports, strict=True))
            self._replace(node, f"export{{{names}}};" if names else "")
        first = next((node for node in self.script.root.named_children if node.type != "hash_bang_line"), None)
        if first is not None and self._before:
            self._edits.append((first.start_byte, first.start_byte, "".join(self._before)))
        return self._text()

    def common(self) -> tuple[str, str]:
        """Return the text of a CommonJS module, and an object with what it may require of Node."""
        from runner.inputs.evaluators.foreign.javascript import refuse_required

        refuse_required(self.script.source, self.name)
        self._calls()
        own = self._bundle.function(self.name)
        known = []
        for word, _, name in self.script.loads:
            plain = self.script.text(name)[1:-1].removeprefix("node:")
            if word == "require" and name.type == "string" and not plain.startswith("."):
                self._bundle.imports.append(f'import {own}_{plain} from "node:{plain}";')
                known.append(f"{plain}:{own}_{plain}")
        self._bundle.imports = list(dict.fromkeys(self._bundle.imports))
        return self._text(), f"{{{','.join(dict.fromkeys(known))}}}"

    def function(self) -> tuple[str, str, str]:
        """Return what stands before the text of a module, the text, and the fields of the object that it exports."""
        self._calls()
        exports: dict[str, str] = {}
        for node in self._statements():
            source = node.child_by_field_name("source")
            target = self._target(source)
            if node.type == "import_statement":
                if source is None or self._is_for_types(node, source):
                    pass
                elif target is None:
                    self._import_elsewhere(node, source)
                else:
                    self._import(node, self._bundle.call(target), target)
                self._replace(node, "")
            elif node.type == "export_statement" and source is not None:
                if not self._is_for_types(node, source):
                    value = self._elsewhere(node, source) if target is None else self._bundle.call(target)
                    self._export_from(node, value, target, exports)
                self._replace(node, "")
            elif node.type == "export_statement":
                self._export(node, exports)
            elif node.type == "ambient_declaration":
                self._replace(node, "")
            elif node.type == "internal_module" or (
                node.type == "expression_statement" and node.named_children[0].type == "internal_module"
            ):
                self._refuse(node, "a namespace is only possible in the script itself; make it an object or a file")
        self._refuse_live(exports)
        fields = [value if name.startswith("...") else f"{json.dumps(name)}:{value}" for name, value in exports.items()]
        stars = [each for each in fields if each.startswith("...")]
        return "".join(self._before), self._text(), ",".join([*stars, *(each for each in fields if each not in stars)])

    def names(self, above: tuple[str, ...] = ()) -> set[str] | None:
        """What it exports, by name; None where that is not known."""
        if self.is_common or self.name in above:
            return None
        found = {*self.script.exported}
        for node in self._statements():
            source = node.child_by_field_name("source")
            words = {child.type for child in node.children}
            if node.type != "export_statement" or source is None or not words & {"*", "namespace_export"}:
                continue
            if "namespace_export" in words:
                found.update(self.script.text(one) for one in _below(node, "identifier"))
                continue
            module = self._bundle.modules.get(self._target(source) or "")
            more = None if module is None else module.names((*above, self.name))
            if more is None:
                return None
            found |= more - {"default"}
        return found

    def _statements(self) -> list[Node]:
        return list(self.script.root.named_children)

    def _target(self, source: Node | None) -> str | None:
        """The file that is meant; None for what is no file."""
        return None if source is None else target_of(self.script.text(source)[1:-1], self.name, self._bundle.files)

    def _refuse(self, node: Node, why: str) -> None:
        where = self.name or self._bundle.where
        raise EvaluatorError(f"{where}:{node.start_point.row + 1}: {why}")

    def _is_for_types(self, node: Node, source: Node | None) -> bool:
        return any(child.type == "type" for child in node.children) or (
            source is not None
            and node.type == "import_statement"
            and any(one == source for one, _ in self.script.types_only)
        )

    def _calls(self) -> None:
        """Have `import(…)` and `require(…)` of files call their functions."""
        for node in self._statements():
            if clause := next((one for one in node.named_children if one.type == "import_require_clause"), None):
                source = clause.child_by_field_name("source")
                module = "…" if source is None else self.script.text(source, 100)
                self._refuse(node, f"write `import NAME from {module}` in place of `require`")
        for found in file_imports(self.script):
            name = target_of(found.specifier, self.name, self._bundle.files)
            if found.call is None or name is None:
                continue
            word = "require" if found.call.children[0].type != "import" else "import"
            if word == "require" and self._bundle.awaits and not self._is_required_at_once(name):
                self._refuse(found.call, f"{printable(name)} waits for something while it is loaded; import it")
            text = f"{_OWN}{word}({self._bundle.function(name)}"
            self._edits.append((found.call.start_byte, found.node.end_byte, text))
        for call in self.computed:
            opening = call.children[1].children[0]
            folder = json.dumps(posixpath.dirname(self.name))
            self._edits.append((call.start_byte, opening.end_byte, f"{_OWN}any({folder},"))

    def _is_required_at_once(self, name: str) -> bool:
        module = self._bundle.modules.get(name)
        return module is None or module.is_common

    def _bound(self, node: Node) -> tuple[str | None, str | None, list[tuple[str, str]]]:
        """What an import binds and the module uses: the default's name, the namespace's, and names with their own."""
        default = space = None
        named: list[tuple[str, str]] = []
        for clause in node.named_children:
            for child in clause.named_children if clause.type == "import_clause" else ():
                if child.type == "identifier":
                    default = self.script.text(child)
                elif child.type == "namespace_import":
                    space = self.script.text(child.named_children[-1])
                for one in child.named_children if child.type == "named_imports" else ():
                    name = one.child_by_field_name("name")
                    own = one.child_by_field_name("alias") or name
                    if name is not None and own is not None and self.script.text(own) in self.script.values:
                        named.append((self.script.text(name), self.script.text(own)))
        return default, space, named

    def _import(self, node: Node, value: str, target: str) -> None:
        default, space, named = self._bound(node)
        module = self._bundle.modules.get(target)
        there = None if module is None else module.names()
        wanted = [*([("default", default)] if default else []), *named]
        for name, _ in wanted:
            if module is not None and there is not None and name not in there and module.lacks(name):
                some = f"; it exports {', '.join(sorted(there)[:8])}" if there else "; write `export` before it"
                self._refuse(node, f"{printable(target)} exports no {printable(name, 60)}{some}")
        self._before.append(_constants([f"{_key(name)}:{own}" for name, own in wanted], value) or f"{value};")
        if space:
            self._before.append(f"const {space}={value};")

    def lacks(self, name: str) -> bool:
        """Whether it certainly has nothing of a name to export: a type's name is none of its values."""
        return name in self.script.bindings or name not in _WORD.findall(self.script.source)

    def _import_elsewhere(self, node: Node, source: Node) -> None:
        """Import what is no file at the top of the whole, by names of its own."""
        default, space, named = self._bound(node)
        own = f"{self._bundle.function(self.name)}_"
        names = ",".join(f"{name} as {own}{local}" for name, local in named)
        parts = [default and f"{own}{default}", space and f"* as {own}{space}", names and f"{{{names}}}"]
        clause = ",".join(part for part in parts if part)
        module = self.script.text(source)
        self._bundle.imports.append(f"import {clause} from {module};" if clause else f"import {module};")
        locals_ = [name for name in (default, space, *(local for _, local in named)) if name]
        self._before.extend(f"const {name}={own}{name};" for name in locals_)

    def _elsewhere(self, node: Node, source: Node) -> str:
        """Import what is no file for an export of it, by name where it is named: a package's other parts stay out."""
        own, place = f"{self._bundle.function(self.name)}_all{len(self._bundle.imports)}", self.script.text(source)
        names = dict.fromkeys(name for clause in node.named_children for name, _ in self._specifiers(clause))
        if not names:
            self._bundle.imports.append(f"import * as {own} from {place};")
            return own
        pairs = [(name, f"{own}_{number}") for number, name in enumerate(names)]
        words = ",".join(f"{name if _WORD.fullmatch(name) else json.dumps(name)} as {local}" for name, local in pairs)
        self._bundle.imports.append(f"import {{{words}}} from {place};")
        return f"({{{','.join(f'{json.dumps(name)}:{local}' for name, local in pairs)}}})"

    def _export_from(self, node: Node, value: str, target: str | None, exports: dict[str, str]) -> None:
        words = {child.type for child in node.children}
        if "*" in words:
            module = self._bundle.modules.get(target or "")
            if not self.name:
                there = (None if module is None else module.names()) or set()
                exports.update({name: f"{value}[{json.dumps(name)}]" for name in sorted(there - {"default"})})
            else:
                exports[f"...{value}"] = f"...(({{default:_,...own}})=>own)({value})"
        for clause in node.named_children:
            if clause.type == "namespace_export":
                exports[self.script.text(clause.named_children[-1]).strip("\"'")] = value
            exports.update({alias: f"{value}[{json.dumps(own)}]" for own, alias in self._specifiers(clause)})

    def _specifiers(self, clause: Node) -> Iterator[tuple[str, str]]:
        for one in clause.named_children if clause.type == "export_clause" else ():
            name = one.child_by_field_name("name")
            alias = one.child_by_field_name("alias") or name
            if name is not None and alias is not None and all(child.type != "type" for child in one.children):
                yield self.script.text(name).strip("\"'"), self.script.text(alias).strip("\"'")

    def _export(self, node: Node, exports: dict[str, str]) -> None:
        declared, value = node.child_by_field_name("declaration"), node.child_by_field_name("value")
        words = {child.type for child in node.children}
        if value is not None:
            self._edits.append((node.start_byte, value.start_byte, f"const {_OWN}default="))
            exports["default"] = f"{_OWN}default"
        elif declared is not None:
            if declared.type == "internal_module":
                self._refuse(node, "a namespace is only possible in the script itself; make it an object or a file")
            self._edits.append((node.start_byte, declared.start_byte, ""))
            name = declared.child_by_field_name("name")
            if declared.type in _TYPES:
                pass
            elif name is not None:
                exports["default" if "default" in words else self.script.text(name)] = self.script.text(name)
            for declarator in declared.named_children if name is None else ():
                exports.update({bound: bound for bound in self._names_in(declarator.child_by_field_name("name"))})
        else:
            every = [pair for clause in node.named_children for pair in self._specifiers(clause)]
            exports.update({alias: own for own, alias in every if own in self.script.bindings})
            self._replace(node, "")

    def _names_in(self, pattern: Node | None) -> Iterator[str]:
        """The names that a pattern binds."""
        if pattern is None:
            return
        if pattern.type in ("identifier", "shorthand_property_identifier_pattern"):
            yield self.script.text(pattern)
        inside = pattern.named_children
        if pattern.type in ("assignment_pattern", "object_assignment_pattern"):
            inside = inside[:1]
        elif pattern.type == "pair_pattern":
            inside = inside[-1:]
        for each in inside:
            yield from self._names_in(each)

    def _refuse_live(self, exports: Mapping[str, str]) -> None:
        """Refuse what changes after it was exported, which those that import it would not see."""
        names = {*exports.values()}
        if not names or not re.search(r"\b(?:let|var)\b", self.script.source):
            return
        for node in _below(self.script.root, *_ASSIGNED):
            target = node.child_by_field_name(_ASSIGNED[node.type])
            if target is not None and (name := self.script.text(target, 100)) in names and _is_in_function(node):
                self._refuse(node, f"`{name}` is exported and changes later; export a function that returns it")

    def _replace(self, node: Node, text: str) -> None:
        """Set a text for a statement, whose lines stay."""
        old = self.script.text(node)
        blank = "".join(char if char == "\n" else " " for char in old) if not text else text + "\n" * old.count("\n")
        self._edits = [edit for edit in self._edits if not node.start_byte <= edit[0] < node.end_byte]
        self._edits.append((node.start_byte, node.end_byte, blank))

    def _text(self) -> str:
        data = self.script.source.encode()
        for start, end, new in sorted(self._edits, reverse=True):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()


def _constants(names: list[str], value: str) -> str:
    return f"const{{{','.join(names)}}}={value};" if names else ""


def _key(name: str) -> str:
    return name if name[:1] in "\"'" else json.dumps(name)


def _below(node: Node, *types: str) -> Iterator[Node]:
    """What is in a node, of these types."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.type in types:
            yield each
        waiting.extend(reversed(each.named_children))


def _outside_of_functions(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type not in FUNCTIONS and node.type != "method_definition":
            waiting.extend(reversed(node.named_children))


def _is_in_function(node: Node) -> bool:
    above = node.parent
    while above is not None:
        if above.type in FUNCTIONS or above.type == "method_definition":
            return True
        above = above.parent
    return False
