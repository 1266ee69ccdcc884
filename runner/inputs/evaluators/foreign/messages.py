"""Whether a function over lists reads each completion, or prompt, as a conversation: `completion[0]["content"]`."""

from __future__ import annotations

import ast
import re

from runner.inputs.evaluators.foreign.module import ScriptModule
from runner.inputs.evaluators.python.signature import CallableNode, annotations_of

_MESSAGE = 2
"""How deep a message is: a list has conversations, and a conversation messages."""
_MOST = 50
_KEYS = ("content", "role")
_DECLARED = re.compile(r"(?i)(?:\w+\.)?(?:list|sequence)\[(?:\w+\.)?(?:list|sequence)\[(?:\w+\.)?(?:dict|mapping)\b.*")
_SAME = ("list", "tuple", "reversed", "sorted", "iter", "tqdm", "deepcopy", "copy")


def reads_messages(module: ScriptModule, entry: str, name: str) -> bool:
    """
    Say whether a function reads a message of each of a parameter's values, itself or by functions that it hands it to.

    Not one that asks what it got: it may take texts as well.
    """
    left, seen = [(entry, name, 0)], set[tuple[str, str, int]]()
    reads = _DECLARED.fullmatch(annotations_of(module.definition(entry)).get(name, "")) is not None
    while left and len(seen) < _MOST:
        one = left.pop()
        node = module.definition(one[0])
        if one in seen or node is None:
            continue
        seen.add(one)
        use = _Use(module, one[0], node, {one[1]: one[2]})
        for _ in range(2):  # a name may be used above the line that gives it
            use.visit(node)
        if use.asks:
            return False
        reads |= use.reads
        left += use.handed
    return reads


class _Use(ast.NodeVisitor):
    """What a function does with names whose depth is known."""

    def __init__(self, module: ScriptModule, entry: str, node: CallableNode, depths: dict[str, int]) -> None:
        self._module, self._owner, self._depths = module, entry.rpartition(".")[0] or entry, depths
        self._inside: dict[str, CallableNode] = {}
        for one in ast.walk(node):
            match one:
                case ast.FunctionDef(name=name) if one is not node:
                    self._inside[name] = one
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as value):
                    self._inside[name] = value
        self.reads = self.asks = False
        self.handed: list[tuple[str, str, int]] = []

    def _depth(self, node: ast.expr) -> int | None:
        match node:
            case ast.Name(id=name):
                return self._depths.get(name)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self._depth(value)
            case ast.Subscript(value=value, slice=key):
                depth = self._depth(value)
                is_key = isinstance(key, ast.Constant) and isinstance(key.value, str)
                return None if depth is None or is_key else depth + 1
            case ast.BoolOp(values=[first, *_]):
                return self._depth(first)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if name in _SAME:
                return self._depth(first)
        return None

    def _give(self, target: ast.expr, value: ast.expr, deeper: int) -> None:
        """Give a target the depth of what it is, or goes through."""
        pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
        if isinstance(target, ast.Tuple):
            parts: list[ast.expr] = value.elts if isinstance(value, ast.Tuple) else []
            if deeper and isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                if value.func.id == "enumerate" and len(target.elts) == 2 and value.args:
                    return self._give(target.elts[1], value.args[0], deeper)
                parts = value.args if value.func.id in ("zip", "zip_longest") else []
            pairs = list(zip(target.elts, parts, strict=False))
        for one, of in pairs:
            if isinstance(one, ast.Name) and (depth := self._depth(of)) is not None:
                self._depths[one.id] = depth + deeper
        return None

    def visit_For(self, node: ast.For) -> None:
        self._give(node.target, node.iter, 1)
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for one in node.generators:  # before the element, which stands first
            self._give(one.target, one.iter, 1)
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._give(target, node.value, 0)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._give(node.target, node.value, 0)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Constant) and node.slice.value in _KEYS:
            self.reads |= self._depth(node.value) == _MESSAGE
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "type" | "hasattr"), args=[one, *_]):
                self.asks |= self._depth(one) is not None
            case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=key), *_]):
                self.reads |= key in _KEYS and self._depth(value) == _MESSAGE
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[call, over]):
                depth = self._depth(over)
                if isinstance(call, ast.Lambda) and call.args.args and depth is not None:
                    self._depths[call.args.args[0].arg] = depth + 1
                elif isinstance(call, ast.Name) and depth is not None:
                    self._hand(call.id, [depth + 1], {})
            case ast.Call(func=ast.Name(id=name)):
                self._hand_all(name, node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                self._hand_all(f"{self._owner}.{name}", node)
        self.generic_visit(node)

    def _hand_all(self, name: str, node: ast.Call) -> None:
        self._hand(name, [*map(self._depth, node.args)], {k.arg: self._depth(k.value) for k in node.keywords if k.arg})

    def _hand(self, name: str, places: list[int | None], names: dict[str, int | None]) -> None:
        function = self._inside.get(name) or self._module.definition(name)
        if not isinstance(function, CallableNode) or all(one is None for one in (*places, *names.values())):
            return
        own = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        given = {**dict(zip(own[own[:1] in (["self"], ["cls"]) :], places, strict=False)), **names}
        known = {one: depth for one, depth in given.items() if depth is not None}
        if name in self._inside:
            self._depths |= known
        else:
            self.handed += [(name, one, depth) for one, depth in known.items()]
