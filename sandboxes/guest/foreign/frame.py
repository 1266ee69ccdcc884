"""
Load a script unchanged, and say what its results are in evalcell's words.

The part of a dialect follows this text in the same module, and defines `wrap`. It shares the interpreter with the
script: nothing that it says is trusted, and the host checks each result.
"""

from __future__ import annotations

import builtins
import linecache
import sys
from types import ModuleType

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

SCRIPT = "evaluator.py"
_COROUTINE = 0x80  # inspect.CO_COROUTINE


def load(source: str, **names: Any) -> ModuleType:
    """Execute a script as the module `evaluator`, with these names in it. Raises what it raises."""
    module = ModuleType("evaluator")
    module.__file__ = SCRIPT
    module.__dict__["__builtins__"] = vars(builtins)
    module.__dict__.update(names)
    sys.modules["evaluator"] = module
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)
    exec(compile(source, SCRIPT, "exec", dont_inherit=True), module.__dict__)
    return module


def named(module: ModuleType, entry: str) -> Callable[..., Any]:
    """The function of a name, or the method of `Class.method`. Raises NameError."""
    first, dot, method = entry.partition(".")
    found: Any = getattr(module, first, None)
    if dot and found is not None:
        found = getattr(found, method, None)
    if not callable(found):
        raise NameError(f"the script defines no function named {entry}")
    called: Callable[..., Any] = found
    return called


def finished(value: Any, result: Callable[[Any], Any]) -> Any:
    """`result` of what a script returned, at once or once it is awaited."""
    return _later(value, result) if hasattr(type(value), "__await__") else result(value)


async def _later(value: Awaitable[Any], result: Callable[[Any], Any]) -> Any:
    return result(await value)


def is_async(function: Any) -> bool:
    """True for an `async def`."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _COROUTINE)


def invalid(message: str) -> dict[str, str]:
    """A result that its own tool refuses."""
    return {"invalid": message}


def words(value: Any, limit: int = 120) -> str:
    """A value, in short, for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def mapped(row: Mapping[str, Any], prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was mapped under the prefix, by the rest of its name, and what else was given beside a row's own words."""
    inside: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name in row:
        if name.startswith(prefix):
            inside[name[len(prefix) :]] = row[name]
        elif name not in _WORDS:
            others[name] = row[name]
    return inside, others


_WORDS = ("output", "reference", "input", "metadata")
