"""Run a program, and what its tests ask of it. It has no tests here, and nothing that it says is believed."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from io import StringIO
from types import ModuleType
from typing import Any

from templates.parts.plain_data import decode_plain, encode_plain

PRINTED_CHARACTERS = 100_000
"""Characters of what one call prints that are passed on."""


class Program:
    """A program, and the objects of its own classes that its tests hold."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._module = ModuleType(name)
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._classes: dict[str, Any] = {}

    def answers(self, asked: list[dict[str, Any]]) -> dict[str, Any]:
        """What came of each thing that is asked, in this order; or how the program failed to load."""
        if any("run" not in one for one in asked):
            sys.modules[self._name] = self._module
            sys.stdin = StringIO()
            loading = self._caught(lambda: exec(compile(self._text, f"{self._name}.py", "exec"), vars(self._module)))
            if "raised" in loading:
                return {"unloaded": loading}
        return {"answers": [self._answer(one) for one in asked], "classes": self._classes}

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "run" in asked:
            return self._caught(lambda: self._main(asked["run"]))
        before = asked.get("args", ())
        given = [self._decoded(one) for one in before]
        named = {name: self._decoded(one) for name, one in asked.get("named", {}).items()}
        found = self._caught(lambda: self._reached(asked)(*given, **named))
        changed = {}
        for place, value in enumerate(given):
            if isinstance(value, list | dict | set | bytearray) and (now := self._encoded(value)) != before[place]:
                changed[str(place)] = now
        return {**found, "changed": changed} if changed else found

    def _reached(self, asked: dict[str, Any]) -> Callable[..., Any]:
        if "apply" in asked:
            return _APPLIED[asked["apply"]]
        place: Any = self._module if asked["of"] is None else self._decoded(asked["of"])
        for name in asked["name"].split("."):
            place = getattr(place, name)
        if asked.get("get"):
            return lambda: place
        found: Callable[..., Any] = place
        return found

    def _main(self, text: str) -> None:
        sys.stdin = StringIO(text)
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        try:
            exec(compile(self._text, f"{self._name}.py", "exec"), vars(module))
        except SystemExit as e:
            if e.code not in (None, 0):
                raise

    def _caught(self, step: Callable[[], Any]) -> dict[str, Any]:
        out, sys.stdout = sys.stdout, StringIO()
        said = sys.stdout
        try:
            found = {"value": self._encoded(step())}
        except BaseException as error:
            found = {"raised": self._error(error)}
        finally:
            sys.stdout = out
        text = said.getvalue()[:PRINTED_CHARACTERS]
        return {**found, "printed": text} if text else found

    def _error(self, error: BaseException) -> dict[str, Any]:
        line, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == f"{self._name}.py":
                line = trace.tb_lineno
            trace = trace.tb_next
        if line is None and isinstance(error, SyntaxError):
            line = error.lineno
        return {"classes": [one.__name__ for one in type(error).__mro__], "text": str(error)[:1000], "line": line}

    def _encoded(self, value: Any) -> Any:
        return encode_plain(value, self._own)

    def _own(self, value: Any) -> Any:
        kind = type(value)
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name not in self._classes:
            methods = [one for one in dir(kind) if callable(getattr(kind, one, None)) and not one.startswith("__")]
            self._classes[name] = {"bases": [base.__name__ for base in kind.__mro__], "methods": methods}
        return {"own": self._numbers[id(value)], "class": name}

    def _decoded(self, value: Any) -> Any:
        return decode_plain(value, self._held)

    def _held(self, value: dict[str, Any]) -> Any:
        if value["own"] == "builtin":
            return getattr(builtins, value["name"])
        if value["own"] == "program":
            return getattr(self._module, value["name"])
        return self._objects[value["own"]]


_APPLIED: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv")},
    **{name: getattr(operator, name) for name in ("floordiv", "mod", "and_", "or_", "xor", "neg", "getitem")},
    **{name: getattr(operator, name) for name in ("setitem", "delitem")},
    **{name: getattr(builtins, name) for name in ("len", "str", "repr", "bool", "list", "next", "abs", "int", "float")},
    "setattr": setattr,
    "enter": lambda value: value.__enter__(),
    "exit": lambda value: value.__exit__(None, None, None),
    "call": lambda value, *given, **named: value(*given, **named),
}
