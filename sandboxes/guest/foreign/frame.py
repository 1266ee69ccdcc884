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
    from typing import Any, NoReturn

SCRIPT = "evaluator.py"
ROW = ("output", "reference", "input", "metadata")
"""What a row has for each dialect."""
_STAND_IN = "__evalcell__"
_COROUTINE = 0x80  # inspect.CO_COROUTINE


def show(source: str) -> None:
    """Have tracebacks show the lines of this text."""
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)


def load(source: str, **names: Any) -> ModuleType:
    """Execute a script as the module `evaluator`, with these names in it. Raises what it raises."""
    outer = globals().get("main")
    name = "evaluator" if outer is None else outer.__name__
    module = ModuleType(name)
    module.__package__ = getattr(outer, "__package__", None)  # with files it is their folder
    module.__file__ = SCRIPT
    module.__dict__["__builtins__"] = vars(builtins)
    module.__dict__.update(names)
    sys.modules[name] = module
    show(source)
    exec(compile(source, SCRIPT, "exec", dont_inherit=True), module.__dict__)
    return module


def find_function(module: ModuleType, entry: str) -> Callable[..., Any]:
    """Return the function of a name, or the method of `Class.method`. Raises NameError."""
    first, dot, method = entry.partition(".")
    found: Any = getattr(module, first, None)
    if dot and found is not None:
        own = next((vars(kind)[method] for kind in getattr(found, "__mro__", ()) if method in vars(kind)), None)
        alone = not isinstance(found, type) or isinstance(own, staticmethod | classmethod)
        found = getattr(found if alone or own is None else found(), method, None)
    if not callable(found):
        raise NameError(f"the script defines no function named {entry}")
    called: Callable[..., Any] = found
    return called


def made_or_class(module: ModuleType, entry: str) -> tuple[Any, bool]:
    """Return what has the name, and whether it is a class. Raises NameError."""
    found: Any = getattr(module, entry, None)
    if found is None:
        raise NameError(f"the script defines nothing named {entry}")
    return found, isinstance(found, type)


def finish_result(value: Any, result: Callable[[Any], Any]) -> Any:
    """Return `result` of what a script returned, at once or once it is awaited."""
    return _later(value, result) if hasattr(type(value), "__await__") else result(value)


async def _later(value: Awaitable[Any], result: Callable[[Any], Any]) -> Any:
    return result(await value)


def calling(
    function: Callable[..., Any],
    given: Callable[[dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    result: Callable[[Any], Any],
) -> Callable[..., Any]:
    """
    Return what takes a row's words: `result` of the function's value for the arguments that are `given` for the row.
    """

    def call(**row: Any) -> Any:
        positional, keywords = given(row)
        return finish_result(function(*positional, **keywords), result)

    async def call_async(**row: Any) -> Any:
        positional, keywords = given(row)
        return result(await function(*positional, **keywords))

    return call_async if is_async(function) else call


def is_async(function: Any) -> bool:
    """Return true for an `async def`."""
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _COROUTINE)


def invalid(message: str) -> dict[str, str]:
    """Return a result that its own tool refuses."""
    return {"invalid": message}


def words(value: Any, limit: int = 120) -> str:
    """Return a value, in short, for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def below(row: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return what was mapped under the prefix, by the rest of its name."""
    return {name[len(prefix) :]: row[name] for name in row if name.startswith(prefix)}


_refusals: list[Exception] = []


def refuse(error: Exception) -> NoReturn:
    """Raise an error for what no row has. The row fails of it even where the script catches it."""
    _refusals.append(error)
    raise error


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same, but it raises what was refused meanwhile: what a script makes of the lack is no score."""

    def call(*positional: Any, **row: Any) -> Any:
        _refusals.clear()
        return finish_result(function(*positional, **row), _unless_refused)

    return call


def _unless_refused(value: Any) -> Any:
    if _refusals:
        raise _refusals.pop(0)
    return value


class Record(dict[str, object]):
    """An object whose keys are attributes too."""

    refused: tuple[str, ...] = ()
    """What the tool's own has, and no row: reading one fails the row."""

    def __getattr__(self, name: str) -> Any:
        """Return the key's value. Raises AttributeError."""
        try:
            return self[name]
        except KeyError:
            error = AttributeError(f"no {name!r}: there are {', '.join(map(str, self)) or 'no keys'}"[:300])
        if name in self.refused:
            refuse(lacking(name, AttributeError))
        raise error


def with_attributes(value: Any) -> Any:
    """Return the same, with the keys of objects as attributes."""
    if isinstance(value, dict):
        return Record({name: with_attributes(value[name]) for name in value})
    return [with_attributes(one) for one in value] if isinstance(value, list) else value


def lacking(name: str, kind: type[Exception] = ValueError) -> Exception:
    """Return the error for what the tool measures, and only a column has here."""
    return kind(f"a row has no {name}, which the script reads; give the rows a column `{name}`")


class PlainValue(dict[str, object]):
    """A value that is no object, under the one key that it may be read by. Any other is refused, not None."""

    def __init__(self, held: dict[str, Any], name: str, prefix: str, keys: frozenset[str]) -> None:
        super().__init__(held)
        self._words = name, prefix, keys

    def __missing__(self, key: Any) -> Any:
        """Raise TypeError, or KeyError for a key that the script is known to read."""
        name, prefix, keys = self._words
        if key in keys:
            raise KeyError(key)
        refuse(TypeError(f"the row's {name} is no object, and the script reads {key} of it; map {prefix}{key}"))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of the key, or the default. Raises TypeError for a key that is not known to be read."""
        return super().get(key, default) if key in self or key in self._words[2] else self[key]


def parameters(function: Callable[..., Any]) -> tuple[dict[str, bool], bool]:
    """Return a function's parameters, with whether each has a default, and whether it takes any other by its name."""
    import inspect

    found = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    own = {one.name: one.default is not one.empty for one in found if one.kind not in kinds}
    return own, any(one.kind is kinds[0] for one in found)


def stub(name: str, **members: Any) -> None:
    """
    Make a module, and those above it, that a script may import where the vendor's package is not installed.

    The package itself is left as it is: a stand-in hides nothing of it.
    """
    top, *parts = name.split(".")
    if not _is_stand_in(top):
        if is_installed(top):
            return
        make_module(top)
    for part in parts:
        above, top = top, f"{top}.{part}"
        if top not in sys.modules:
            setattr(sys.modules[above], part, make_module(top))
    vars(sys.modules[name]).update(members)


def make_module(name: str) -> ModuleType:
    """Make one that a script may import, with others below it."""
    module = sys.modules[name] = ModuleType(name)
    module.__path__ = []
    module.__dict__[_STAND_IN] = True
    return module


def _is_stand_in(name: str) -> bool:
    return name in sys.modules and _STAND_IN in vars(sys.modules[name])


def is_installed(name: str) -> bool:
    """Say whether a module can be imported."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True


class Idle:
    """In place of what only talks to a tool's server: any part of it, called or not, is it again."""

    def __getattr__(self, name: str) -> Any:
        """Return itself. Raises AttributeError for what Python asks of all objects."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **_named: Any) -> Any:
        """Return itself."""
        return self


def score_of(value: Any, comment: Any = None) -> dict[str, Any] | None:
    """
    Return a vendor's value with its comment: a bool is label and score, a number the score, text the label.

    None for what is none of these.
    """
    text = None if comment is None else str(comment)
    if isinstance(value, bool):
        return {"label": str(value), "score": float(value), "explanation": text}
    if isinstance(value, int | float):
        return {"score": value, "explanation": text}
    if isinstance(value, str):
        return {"label": value, "explanation": text}
    return None


def abstention(why: str) -> dict[str, Any]:
    """Return a result of an evaluator that chose to give none."""
    return {"score": None, "explanation": why}


def several(found: dict[str, Any], why: str) -> Any:
    """Return named results; abstained for none of them, and one that is refused for all."""
    if not found:
        return abstention(why)
    for one in found.values():
        if "invalid" in one:
            return one
    return {"outputs": found}


def figures(found: dict[str, Any], name: str) -> dict[str, Any]:
    """
    Return the results of a function that judges all rows together, as numbers by their names; a text among them as it
    is.

    Raises ValueError where there is no number.
    """
    if "invalid" in found:
        raise ValueError(found["invalid"])
    named_results = found.get("outputs") or {name: found}
    silent = {key: one.get("label") for key, one in named_results.items() if one.get("score") is None}
    texts = {key: label for key, label in silent.items() if label is not None}
    if texts and len(texts) == len(named_results):
        key, text = next(iter(texts.items()))
        raise ValueError(f"{key} is the text {words(text)}: a figure of all rows is a number")
    return {key: one.get("score") for key, one in named_results.items()} | texts


def as_object(value: Any, key: str, *others: str) -> Any:
    """Return the object, also out of its JSON text, as CSV has it; or one that has what is no object under the key."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        import contextlib
        import json

        with contextlib.suppress(ValueError, RecursionError):
            if {key, *others} & (parsed := json.loads(value)).keys():
                return parsed
    return {} if value is None else {key: value}


def defaults(given: dict[str, Any], own: Mapping[str, bool], known: tuple[str, ...]) -> dict[str, Any]:
    """Return what was set for parameters of the function that its vendor does not fill, such as `threshold`."""
    return {name: given[name] for name in given if name in own and name not in known and name not in ROW}
