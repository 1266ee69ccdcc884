"""What tests take from pytest, where there is no pytest: raises, approx, parametrize, fixtures."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any


class Raises:
    """Expects an exception, as `pytest.raises` does."""

    def __init__(self, expected: Any, match: str | None = None) -> None:
        self._expected, self._match = expected, match
        self.value: Any = None

    def __enter__(self) -> Raises:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if error is None:
            raise AssertionError(f"did not raise {self._expected!r}")
        if not isinstance(error, self._expected):
            return False
        if self._match is not None and not re.search(self._match, str(error)):
            raise AssertionError(f"{str(error)!r} does not match {self._match!r}")
        self.value = error
        return True


class Approx:
    """A number, or a list, tuple or dict of them, equal to what is close, as `pytest.approx` is."""

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None) -> None:
        self._expected = expected
        self._rel = rel if rel is not None else 0.0 if abs is not None else 1e-6
        self._abs = 1e-12 if abs is None else abs

    def __eq__(self, other: object) -> bool:
        return self._close(self._expected, other)

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def _close(self, a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(self._close(a[key], b[key]) for key in a)
        if isinstance(a, list | tuple):
            return isinstance(b, list | tuple) and len(a) == len(b) and all(map(self._close, a, b))
        if isinstance(a, int | float) and isinstance(b, int | float):
            return math.isclose(a, b, rel_tol=self._rel, abs_tol=self._abs)
        return bool(a == b)


class SkippedError(Exception):
    """A test that is skipped counts for nothing."""


class Marks:
    """`pytest.mark`: parametrize counts, and skip; others say nothing."""

    def parametrize(self, names: Any, values: Any, **_: Any) -> Callable[[Any], Any]:
        """A decorator that has a test run for each of the values."""
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = [getattr(row, "values", (row,) if len(listed) == 1 else row) for row in values]
        rows = [row if not callable(row) else (row,) for row in rows]

        def marked(test: Any) -> Any:
            test.parameters = [*getattr(test, "parameters", ()), [dict(zip(listed, row, strict=True)) for row in rows]]
            return test

        return marked

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def marked(*given: Any, **_: Any) -> Any:
            mark = _skipped if name == "skip" else _unmarked
            return mark(given[0]) if given and callable(given[0]) else mark

        return marked


def _unmarked(test: Any) -> Any:
    return test


def _skipped(test: Any) -> Any:
    test.skipped = True
    return test


def pytest_part() -> ModuleType:
    """A module for `import pytest`."""
    module = ModuleType("pytest")
    vars(module).update(raises=Raises, approx=Approx, mark=Marks(), fixture=_fixture, fail=_fail, skip=_skip)
    vars(module)["param"] = lambda *values, **_: SimpleNamespace(values=values)
    return module


def _fixture(*given: Any, **_: Any) -> Any:
    def marked(function: Any) -> Any:
        function.fixture = True
        return function

    return marked(given[0]) if given else marked


def _fail(reason: str = "", **_: Any) -> None:
    raise AssertionError(reason)


def _skip(reason: str = "", **_: Any) -> None:
    raise SkippedError(reason)


def found_tests(names: dict[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each test of a module, with its name: functions, methods of classes, and those of `unittest`."""
    for name, one in list(names.items()):
        if inspect.isclass(one) and (name.startswith("Test") or hasattr(one, "assertEqual")):
            methods = [method for method in vars(one) if method.startswith("test")]
            yield from ((f"{name}.{method}", _method(names, one, method)) for method in methods)
        elif name.startswith("test") and inspect.isfunction(one) and not hasattr(one, "fixture"):
            yield from _each(names, name, one)


def _each(names: dict[str, Any], name: str, test: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    if hasattr(test, "skipped"):
        return
    rows = list(product(*getattr(test, "parameters", ())))
    for row in rows:
        given = {key: value for part in row for key, value in part.items()}
        shown = f"{name}[{', '.join(map(repr, given.values()))}]" if given else name
        yield shown, partial(_called, names, test, given)


def _method(names: dict[str, Any], kind: Any, method: str) -> Callable[[], object]:
    def run() -> None:
        unit = hasattr(kind, "assertEqual")
        test = kind(method) if unit else kind()
        getattr(test, "setUp" if unit else "setup_method", lambda: None)()
        finish_test(getattr(test, "asyncSetUp", lambda: None)())
        try:
            bound = getattr(test, method)
            for row in product(*getattr(bound, "parameters", ())):
                _called(names, bound, {key: value for part in row for key, value in part.items()})
        finally:
            finish_test(getattr(test, "asyncTearDown", lambda: None)())
            getattr(test, "tearDown" if unit else "teardown_method", lambda: None)()

    return run


def _called(names: dict[str, Any], test: Any, given: dict[str, Any]) -> None:
    """Call a test, or a fixture, with the fixtures that it names."""
    ends: list[Any] = []
    try:
        finish_test(test(**{**_fixtures(names, test, given, ends), **given}))
    finally:
        for generator in reversed(ends):
            next(generator, None)


def finish_test(value: Any) -> None:
    """Do what a test that is `async`, or that yields, has only begun."""
    if inspect.iscoroutine(value):
        import asyncio  # here: few tests need it, and its import is long

        asyncio.run(value)
    elif inspect.isgenerator(value):
        for _ in value:
            pass


def _fixtures(names: dict[str, Any], function: Any, given: dict[str, Any], ends: list[Any]) -> dict[str, Any]:
    found = {}
    for name in inspect.signature(function).parameters:
        if name in given or not hasattr(names.get(name), "fixture"):
            continue
        value = names[name](**_fixtures(names, names[name], given, ends))
        if inspect.isgenerator(value):
            ends.append(value)
            value = next(value)
        found[name] = value
    return found
