"""
Load a script, call it, and encode the result as JSON, in whatever Python the script runs in.

It is part of the wasm sandbox's image too, so it imports nothing of its package. Nothing that it says is trusted: a
script shares this interpreter and may change any of it, but that spoils only its own replies, which the host checks.
Its import is a part of every sandbox's start, so it imports little.
"""

from __future__ import annotations

import builtins
import gc
import sys
from _json import encode_basestring, encode_basestring_ascii, make_encoder
from types import GeneratorType, ModuleType

TYPE_CHECKING = False  # typing's, whose import is slower than all of these
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

globals()["__builtins__"] = dict(
    vars(builtins)
)  # our own, as a script may change those that it shares with its packages

SCRIPT = "evaluator.py"
NAME = 200  # characters kept of an exception's class, and of a module's name
MESSAGE = 4000  # characters kept of an exception's text, and of its traceback: what a person reads

hidden_files = {__file__, "<evalcell>"}
"""
Files whose frames tracebacks leave out; modules that call these functions add their own.

The second is what a caller puts around a script.
"""

_NOT_FINITE = "a number that is NaN or infinite: return a finite one, or the score None with a label or an explanation"
_UNSAYABLE = '{"type":"Exception","message":"its text cannot be shown","traceback":""}'
_ITERABLE_COROUTINE = 0x100  # inspect.CO_ITERABLE_COROUTINE


_NO_RESULTS = (tuple, set, frozenset, bytes)  # made once: `tuple | set` makes an object each time


class _InvalidResult(Exception):
    """A returned value that is not a result; args are the status and the message."""


class Function:
    """The function that calls go to, and its name for messages."""

    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Callable[..., Any]) -> None:
        self.name, self.body = name, body


def load(source: str, entrypoint: str) -> Function:
    """
    Execute a script as the module `evaluator` and return its function of that name.

    Raises:
        NameError: If it defines none.
        Exception: Whatever the script raises.
    """
    import linecache

    traceback_class()  # bound before the script can patch it, and so that no call pays for the import
    module = ModuleType("evaluator")
    module.__file__ = SCRIPT
    module.__dict__["__builtins__"] = vars(builtins)  # otherwise it would have ours
    sys.modules["evaluator"] = module  # dataclasses and typing look a class's module up here
    sys.argv[:] = [SCRIPT]
    linecache.cache[SCRIPT] = (len(source), None, source.splitlines(keepends=True), SCRIPT)
    exec(compile(source, SCRIPT, "exec", dont_inherit=True), module.__dict__)
    found: Callable[..., Any] | None = module.__dict__.get(entrypoint)
    if not callable(found):
        raise NameError(f"the script defines no function named {entrypoint}")
    gc.collect()
    gc.freeze()
    return Function(entrypoint, found)


def call(
    function: Function,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
    limit: int,
    wait: Callable[[Any], Any],
) -> str:
    """
    Call the function and return its result as JSON text; `limit` bounds it, in bytes of UTF-8 without escapes.

    `wait` returns the result of an awaitable. Raises whatever the script raises, and what only `reply_of` understands.
    """
    value = function.body(*positional, **arguments)
    if _is_awaitable(value):
        value = wait(value)
    return _as_json(value, limit, function.name)


def reply_of(step: Callable[[], str], flood: type[BaseException] | None = None) -> str:
    """
    Run the step; the JSON text that it returns, or how it failed.

    Either `"status":"ok","value":…` or `"status":…,"error":{"type","message","traceback"}`, the inside of a JSON
    object; the error of a module that was not found has its name as `missing`. `flood` is raised when too much is
    printed. Raises nothing, whatever the script does, unless it has damaged the interpreter itself.
    """
    try:
        return '"status":"ok","value":' + step()
    except BaseException as error:
        try:
            return _failure(error, flood)
        except BaseException as e:
            kind = "memory" if _out_of_memory(e) else "error"
            return '"status":"' + kind + '","error":' + _UNSAYABLE


def _is_awaitable(value: Any) -> bool:
    """What inspect.isawaitable says, without that module, whose import is slow."""
    if isinstance(value, GeneratorType):
        return bool(value.gi_code.co_flags & _ITERABLE_COROUTINE)
    return getattr(type(value), "__await__", None) is not None


def _as_json(value: Any, limit: int, name: str) -> str:
    try:
        text = encode(_plain(value))
        # Escapes only lengthen: text that is short enough with them is short enough without.
        size = (
            len(text) if len(text) <= limit else len(encode(value, encode_basestring).encode("utf-8", "surrogatepass"))
        )
    except (TypeError, ValueError, RecursionError) as e:
        why = _NOT_FINITE if str(e).startswith("Out of range float") else str(e)
        what = f"{name} returned what JSON cannot hold ({type(value).__name__})"
        raise _InvalidResult("no_result", f"{what}: {why}") from None
    if size > limit:
        raise _InvalidResult("output", f"{name} returned {size} bytes of JSON; the limit is {limit}")
    return text


def _plain(value: Any) -> Any:
    """The value; refuses dict keys that JSON would silently turn into text."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError("its keys must be text")
    if isinstance(value, _NO_RESULTS):
        raise TypeError("return a label, a score or a dict")
    return value


def _unwrap(value: Any) -> Any:
    """
    The one element of a numpy scalar or array, as a value that JSON can hold.

    numpy is recognised by name, since it need not be installed. Raises TypeError, which says what to return instead.
    """
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(kind, "dtype"):
        if value.size == 1 and value.dtype.kind in "biufUO":
            return float(value.item()) if value.dtype.kind == "f" else value.item()
        _refuse_numpy(value)
    package = kind.__module__.partition(".")[0]
    name = kind.__name__ if package in ("builtins", "evaluator") else f"{package}.{kind.__name__}"
    instead = "text, a number, or a dict or list of these"
    if hasattr(kind, "tolist"):
        instead = _PART
    elif hasattr(kind, "__float__"):
        instead = "float(x)"
    raise TypeError(f"a value of the type {name}: return {instead}")


_PART = "a number of it, such as float(x.mean()), or x.tolist()"


def _refuse_numpy(value: Any) -> NoReturn:
    kind = value.dtype.kind
    if value.shape:
        texts = "x.astype(str).tolist()"
        instead = {"c": "a real number of it, such as float(abs(x).mean())", "M": texts, "m": texts}
        raise TypeError(f"a numpy array of shape {value.shape}: return {instead.get(kind, _PART)}")
    instead = {"c": "a real number of it, such as float(x.real) or float(abs(x))"}
    raise TypeError(f"a numpy {value.dtype.name}: return {instead.get(kind, 'a number, or text such as str(x)')}")


# Whatever a script makes of `json`, what it returns is put into JSON as it is: none of that module is asked, nor its
# classes, only the C function below it. A method that is bound here would not do, for it looks up others when called.
def encode(value: Any, text: Callable[[str], str] = encode_basestring_ascii) -> str:
    """Return the value as json.dumps encodes it, refusing NaN and infinity; `text` quotes a string."""
    return "".join(make_encoder({}, _unwrap, text, None, ": ", ", ", False, False, False)(value, 0))


def _failure(error: BaseException, flood: type[BaseException] | None) -> str:
    if _out_of_memory(error):
        error.__traceback__ = None  # it refers to what filled the memory
    status: str
    if isinstance(error, _InvalidResult):
        status, message = error.args
        report: dict[str, str] = {"type": "Result", "message": message, "traceback": ""}
    else:
        status = _status_of(error, flood)
        report = {
            "type": _truncate(type(error).__name__, NAME),
            "message": _text_of(error),
            "traceback": _traceback_of(error),
        }
    if isinstance(error, ModuleNotFoundError):
        report["missing"] = _truncate(str(error.name), NAME)
    return '"status":"' + status + '","error":' + encode(report)


def _out_of_memory(error: BaseException) -> bool:
    """
    Whether memory ran out. CPython's parser raises MemoryError for source that is nested too deeply, but then says so.

    numpy's error says how much it wanted, and has a class of its own.
    """
    return isinstance(error, MemoryError) and (not error.args or type(error) is not MemoryError)


def _status_of(error: BaseException, flood: type[BaseException] | None) -> str:
    if _out_of_memory(error):
        return "memory"
    return "output" if flood is not None and isinstance(error, flood) else "error"


def _truncate(text: str, most: int) -> str:
    """The text cut by str itself: a subclass may return something else, and more of it."""
    cut: str = str.__getitem__(text, slice(most))
    return cut


def _text_of(error: BaseException) -> str:
    try:
        return _truncate(str(error), MESSAGE)
    except Exception as e:
        return f"its text cannot be shown: str() raised {type(e).__name__}"


_formatter: Any = None


def traceback_class() -> Any:
    global _formatter
    if _formatter is None:
        from traceback import TracebackException

        _formatter = TracebackException
    return _formatter


def _traceback_of(error: BaseException) -> str:
    try:
        shown = traceback_class()(type(error), error, error.__traceback__, limit=-20, compact=True)
        shown.stack[:] = [f for f in shown.stack if f.filename not in hidden_files]
        return "".join(shown.format())[-MESSAGE:]
    except Exception:
        return ""
