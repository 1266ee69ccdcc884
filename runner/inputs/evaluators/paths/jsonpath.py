"""RFC 9535 queries over a case, the leading `$.` optional."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jsonpath import JSONPath
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import (
    BaseExpression,
    FilterQuery,
    FunctionExtension,
    RelativeFilterQuery,
)
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import (
    Filter,
    FilterContext,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from runner.core.errors import PathError
from runner.core.text import list_names, printable
from runner.inputs.evaluators.paths.rfc9535 import ENVIRONMENT, MATCHING, FilterWork, check_filters, count_work

MAX_PATH = 1000
"""Characters of a path."""


class NoMatchError(PathError):
    """A path that can match once has no match; the message says where it ended."""


class Path:
    """One query, ready for any number of documents."""

    def __init__(self, text: str, query: JSONPath) -> None:
        self.text = text
        self._query = query
        self.keys = _keys(query)
        """The names and indexes of one that can match once; None for one that can match many."""

    @property
    def singular(self) -> bool:
        """True if it can match at most once."""
        return self.keys is not None

    @property
    def first(self) -> str | None:
        """The column that it looks into, where it can match once."""
        return self.keys[0] if self.keys and isinstance(self.keys[0], str) else None

    @property
    def column(self) -> str | None:
        """The one column that it looks into, one in `metadata` by its own name; None where it may be several."""
        below = self.keys[1] if self.first == "metadata" and self.keys and len(self.keys) > 1 else None
        return below if isinstance(below, str) else self.first

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that it may look into, those in `metadata` by their own names; None where that may be all."""
        if "$" in self.text[1:]:
            return None
        first, *rest = [_names(segment) for segment in self._query.segments[:2]] or [None]
        if first is None or "metadata" not in first:
            return first
        inner = rest[0] if rest else None
        return None if inner is None else first | inner

    @property
    def steps(self) -> tuple[str | int | None, ...] | None:
        """The names and indexes, None for all that is there; None if it has anything else."""
        found: list[str | int | None] = []
        for segment in self._query.segments:
            (selector, *more), deep = segment.selectors, isinstance(segment, JSONPathRecursiveDescentSegment)
            if isinstance(selector, NameSelector):
                found.append(selector.name)
            elif isinstance(selector, IndexSelector) and selector.index >= 0:
                found.append(selector.index)
            elif isinstance(selector, WildcardSelector):
                found.append(None)
            else:
                return None
            if more or deep:
                return None
        return tuple(found)

    def value(self, document: Any, work: FilterWork | None = None) -> Any:
        """
        Return the match of a singular path, or the list of every match. Raises NoMatchError, PathError.

        `work` is that of all paths of a row; None: a path that may match many has some of its own.
        """
        if self.keys is None:
            work = work or FilterWork()
            work.path = self.text
            with count_work(work):
                every = list(self._matches(document, work))
            return work.take(every)
        value = document
        for at, key in enumerate(self.keys):
            if isinstance(key, str):
                if not isinstance(value, dict) or key not in value:
                    raise NoMatchError(self._ended(at, value))
            elif not isinstance(value, list) or not -len(value) <= key < len(value):
                raise NoMatchError(self._ended(at, value))
            value = value[key]
        if work is not None:
            work.path = self.text
            work.take(value)
        return value

    def _matches(self, document: Any, work: FilterWork) -> Sequence[Any]:
        values = [document]
        for segment in self._query.segments:
            found: list[Any] = []
            deep = isinstance(segment, JSONPathRecursiveDescentSegment)
            selectors = [(selector, 1 + len(str(selector)) // 16) for selector in segment.selectors]
            for value in _descendants(values) if deep else values:
                for selector, each in selectors:
                    work.spend(_effort(selector, value, each))
                    found.extend(_selected(selector, value, document))
            values = found
        return values

    def _ended(self, at: int, value: Any) -> str:
        keys = (self.keys or ())[:at]
        place = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{printable(key, 60)}" for key in keys)
        if isinstance(value, dict):
            what = f"has the keys {list_names(value)}" if value else "is an empty object"
        elif isinstance(value, list):
            what = f"is a list of {len(value):,}"
        elif isinstance(value, str):
            what = "is text, which paths do not look into"
        else:
            what = "is null" if value is None else f"is a {type(value).__name__}"
        return f"{self.text} matches nothing: {place} {what}"


def parse_path(text: str, *, trusted: bool = False) -> Path:
    """
    Return a query ready for use.

    One that is not `trusted`, out of a script's header, may filter only by what a fixed path from `@` gives:
    its work then grows with the row and no faster. Raises PathError.
    """
    if len(text) > MAX_PATH:
        raise PathError(f"the path has {len(text):,} characters, over {MAX_PATH:,}")
    full = _rooted(text)
    short = printable(full, 100)
    try:
        query = ENVIRONMENT.compile(full)
        if not isinstance(query, JSONPath):
            raise ValueError("it has an operator that is none of the standard")
        check_filters(query)
        costly = None if trusted else _costly(query)
    except RecursionError:
        raise PathError(f"the path {short} is nested too deeply") from None
    except PathError:
        raise
    except (JSONPathError, ValueError, OverflowError) as error:
        raise PathError(f"{short} is not an RFC 9535 path: {_reason(error)}{_hint(full)}") from None
    if costly:
        raise PathError(f"the path {short} {costly}, which a header must not; give it on the command line")
    return Path(short, query)


def _rooted(text: str) -> str:
    if text.startswith("$"):
        return text
    return f"${text}" if text.startswith(("[", ".")) else f"$.{text}"


def _reason(error: Exception) -> str:
    said = str(error.args[0] if error.args else error)
    return printable(re.sub(r"'?TOKEN_(\w+)'?", lambda found: found[1].lower().replace("_", " "), said))


def _hint(text: str) -> str:
    if "-" in text or " " in text:
        return "; a name with other characters than letters, digits and _ is written ['a name']"
    return ""


def _keys(query: JSONPath) -> tuple[str | int, ...] | None:
    """The names and indexes of a query that can match once; None for one that can match many."""
    if not query.singular_query():
        return None
    keys: list[str | int] = []
    for segment in query.segments:
        selector = segment.selectors[0]
        if isinstance(selector, NameSelector):
            keys.append(selector.name)
        elif isinstance(selector, IndexSelector):
            keys.append(selector.index)
    return tuple(keys)


def _names(segment: JSONPathSegment) -> frozenset[str] | None:
    """The names that a segment selects; None if it selects by anything else."""
    names = [selector.name for selector in segment.selectors if isinstance(selector, NameSelector)]
    by_names = len(names) == len(segment.selectors) and not isinstance(segment, JSONPathRecursiveDescentSegment)
    return frozenset(names) if by_names else None


def _descendants(values: Sequence[Any]) -> Iterator[Any]:
    """Each value and all below it, in the order of the document. Counting is left to the selectors."""
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        yield value
        if isinstance(value, dict):
            stack.extend(reversed([inner for inner in value.values() if isinstance(inner, dict | list)]))
        elif isinstance(value, list):
            stack.extend(reversed([inner for inner in value if isinstance(inner, dict | list)]))


def _selected(selector: JSONPathSelector, value: Any, root: Any) -> Iterable[Any]:
    """What it selects of a value. The library tells the place of each match too, which takes three times as long."""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        if isinstance(selector, NameSelector):
            return [value[selector.name]] if selector.name in value else []
        inner = value.values()
    elif isinstance(value, list):
        if isinstance(selector, IndexSelector):
            return [value[selector.index]] if -len(value) <= selector.index < len(value) else []
        if isinstance(selector, SliceSelector):
            return [] if selector.slice.step == 0 else value[selector.slice]
        inner = value
    if isinstance(selector, Filter):
        wanted = selector.expression.cache_tree() if selector.cacheable_nodes else selector.expression
        return [one for one in inner if wanted.evaluate(FilterContext(env=ENVIRONMENT, current=one, root=root))]
    return inner if isinstance(selector, WildcardSelector) else ()


def _effort(selector: JSONPathSelector, value: Any, each: int) -> int:
    if isinstance(selector, NameSelector | IndexSelector) or not isinstance(value, dict | list):
        return 1
    return 1 + len(value) * each


def _costly(query: JSONPath) -> str | None:
    for segment in query.segments:
        for selector in segment.selectors:
            if isinstance(selector, Filter) and (why := _costly_filter(selector.expression)):
                return why
    return None


def _costly_filter(expression: BaseExpression) -> str | None:
    if isinstance(expression, FunctionExtension) and expression.name in MATCHING:
        return "searches with a regular expression"
    if isinstance(expression, RelativeFilterQuery):
        return None if expression.path.singular_query() else "looks at many places from a filter"
    if isinstance(expression, FilterQuery):
        return "looks from a filter to `$`"
    return next((why for part in expression.children() if (why := _costly_filter(part))), None)
