"""What the dialects that run with their vendor's package share: objects of a script's classes, and plain values."""

from __future__ import annotations

import contextlib
import os

from .frame import ROW, TYPE_CHECKING, load, parameters, words

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine, Mapping
    from types import ModuleType
    from typing import Any


def open_script(source: str, **variables: str) -> ModuleType:
    """
    Return the script, loaded where its vendor's package finds what it looks for.

    A sandbox has neither variables nor a home; packages ask for these when they are imported.
    """
    os.environ.update(variables)
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")  # a process with a thread is not forked
    if "HOME" not in os.environ:
        import tempfile

        with contextlib.suppress(FileNotFoundError):  # WebAssembly has no folder
            os.environ["HOME"] = tempfile.gettempdir()
    return load(source)


def row_arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was set or mapped beside a row's own words: the arguments of a class, or columns by other names."""
    return {name: row[name] for name in row if name not in ROW}


def case_words(row: Mapping[str, Any], **own: str) -> dict[str, Any]:
    """
    Return what a class that needs it is made with: a row's columns, and its words, also by the tool's `own` for them.
    """
    known = {**{name: name for name in ROW[:3]}, **own}
    return {**(row.get("metadata") or {}), **{name: row[word] for name, word in known.items() if word in row}}


_KEPT = 100


class FactoryCache:
    """
    What a factory of the script makes, kept for each set of arguments.

    It is made without arguments at once, where that works, so that each fork has it already.
    """

    def __init__(self, make: Callable[..., Any], at_once: bool = True) -> None:
        self._make = make
        self._plain: Any = None
        if at_once:
            with contextlib.suppress(Exception):  # it needs arguments, or raises for each row
                self._plain = make()
        self._others: list[tuple[dict[str, Any], Any]] = []
        self._needs: list[str] | None = None

    def __call__(self, arguments: dict[str, Any], words: Mapping[str, Any] | None = None) -> Any:
        """Return what is made with these; what it needs besides, it gets of a row's `words`."""
        if not arguments and self._plain is not None:
            return self._plain
        if self._needs is None:
            self._needs = required_arguments(self._make)
        arguments = {**{name: words[name] for name in self._needs if words and name in words}, **arguments}
        for known, made in self._others:
            if known == arguments:
                return made
        made = making(self._make, arguments)
        self._others.append((dict(arguments), made))
        del self._others[:-_KEPT]
        return made


def required_arguments(make: Callable[..., Any]) -> list[str]:
    """Return the arguments without which nothing is made, as far as its signature tells them."""
    try:
        return [name for name, has_default in parameters(make)[0].items() if not has_default]
    except (TypeError, ValueError):
        return []


def making(make: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return what a class or a factory makes. Raises TypeError, with the ways to give what it lacks."""
    try:
        return make(**arguments)
    except TypeError:
        lacking = [name for name in required_arguments(make) if name not in arguments]
        if not lacking:
            raise
        name, given_so = make.__name__, ", ".join(f"{one}=…" for one in lacking)
        raise TypeError(
            f"{name} needs {', '.join(lacking)} to be made; add `metric = {name}({given_so})` to the end of the "
            f"script, and name `metric`, or map {lacking[0]} to a column, or set it to a value for all rows"
        ) from None


def waiting(call: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """
    Return the same without `await`: rows of one process share an event loop, as in the vendors' own runners.

    A loop for each row takes longer than most scripts do. One on which a row has left anything ends with that row.
    """
    import asyncio

    runners: list[asyncio.Runner] = []  # made by the first row, as forks cannot share one

    def called(**row: Any) -> Any:
        if not runners:
            runners.append(asyncio.Runner())
        loop = runners[0].get_loop()
        clean = False
        try:
            found = loop.run_until_complete(call(**row))
            clean = not _has_left(loop)
            return found
        finally:
            if not clean:
                runners.pop().close()

    return called


def _has_left(loop: AbstractEventLoop) -> bool:
    """Whether a later row would meet anything of this one, as far as CPython's own loops show it; else it would."""
    import asyncio

    inside = getattr(loop, "__dict__", {})
    return bool(
        asyncio.all_tasks(loop)
        or any(inside.get(name, True) for name in ("_ready", "_default_executor"))
        or len(inside.get("_asyncgens", "?"))
        or not all(timer.cancelled() for timer in inside.get("_scheduled", ()))
        or loop.get_task_factory()
        or loop.get_exception_handler()
        or loop.get_debug()
        or loop.is_closed()
    )


def text(value: Any) -> str:
    """Return text as it is, anything else as JSON text: for vendors whose fields hold text alone."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def text_or_none(row: Mapping[str, Any], name: str) -> str | None:
    """Return a row's word as text; nothing stays nothing, and is not the text `null`."""
    return None if row.get(name) is None else text(row[name])


def plain(value: Any, explanation: str | None = None) -> dict[str, Any] | None:
    """Return a number as score, text as label, a bool as both, numpy's too; None for anything else."""
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        value = bool(value)
    if isinstance(value, bool):
        return {"label": str(value), "score": 1.0 if value else 0.0, "explanation": explanation}
    if isinstance(value, str):
        return {"label": value, "explanation": explanation}
    if isinstance(value, int | float) or type(value).__module__ == "numpy":
        return {"score": value, "explanation": explanation}
    return None


def result_dict(label: str | None, score: Any, explanation: str | None) -> dict[str, Any]:
    """Return a result of three parts; without a score it is its label, and without that it says that there is none."""
    if score is None and label is not None:
        return {"label": label, "explanation": explanation}
    return {"label": label, "score": score, "explanation": explanation}


def by_name(found: list[tuple[str, dict[str, Any]]], one: bool = True) -> dict[str, Any]:
    """Return several results by their names; a single one as it is, unless its name says something (not `one`)."""
    if one and len(found) == 1:
        return found[0][1]
    outputs: dict[str, Any] = {}
    for name, result in found:
        if name in outputs:
            return {"invalid": f"two results have the name {words(name)}"}
        outputs[name] = result
    return {"outputs": outputs}
