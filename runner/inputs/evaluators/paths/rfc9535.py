"""The library that reads paths, held to RFC 9535: names, literals, comparisons, and the work of its filters."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from jsonpath import JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathSyntaxError
from jsonpath.filter import FunctionExtension, InfixExpression, StringLiteral, walk
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.lex import Lexer
from jsonpath.parse import Parser
from jsonpath.selectors import Filter
from jsonpath.token import TOKEN_LBRACKET, TOKEN_SINGLE_QUOTE_STRING, Token

from runner.core.errors import WorkError
from runner.core.text import weight
from runner.inputs.evaluators.paths import iregexp
from runner.inputs.evaluators.paths.automaton import Automaton
from sandboxes.words.wording import Setting

_T = TypeVar("_T")
MATCHING = ("match", "search")
_OPERATORS = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||"))
_AUTOMATA = 16
"""Regular expressions of one row that are ready at a time."""

_FIRST = r"A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff"
_HEX = "[0-9A-Fa-f]"
_PAIR = rf"[Dd][89ABab]{_HEX}{{2}}\\u[Dd][C-Fc-f]{_HEX}{{2}}"
_ESCAPED = rf"\\(?:[bfnrt/\\]|u(?:[0-9A-CE-Fa-ce-f]{_HEX}{{3}}|[Dd][0-7]{_HEX}{{2}}|{_PAIR}))"
_QUOTED = {quote: re.compile(rf"(?:[^\x00-\x1f\\{quote}]|{_ESCAPED}|\\{quote})*") for quote in ("'", '"')}


PLACES = 200_000
"""Nodes that the paths of a mapping may visit in one row, about 0.3 s of work; more with a longer timeout."""
MAX_PLACES = 1_000_000
MIN_PLACES = 50_000
_SECOND = 20_000
"""Places for a second of a call's timeout, a small part of it: a count, so that no clock decides."""
_SIZE = 80
"""Characters, for each place that may be visited, of what is found; a value counts some, a text its own."""


@dataclass(slots=True)
class FilterWork:
    """What paths do in one row, and what they keep for that time."""

    most: int = PLACES
    step: str = "narrow it"
    """What to do if it is too much."""
    path: str = ""
    """The one that is looked at."""
    spent: int = 0
    size: int = 0
    automata: dict[tuple[str, bool], Automaton | None] = field(default_factory=dict)

    def spend(self, places: int) -> None:
        """Count work. Raises WorkError if it is too much."""
        self.spent += places
        if self.spent > self.most:
            raise WorkError(f"{self.path} looks at more than {self.most:,} places of the row; {self.step}")

    def take(self, value: _T) -> _T:
        """Count what was found, and give it back. Raises WorkError, with what was found before, if it is too much."""
        most = self.most * _SIZE
        self.size += weight(value, most - self.size)
        if self.size > most:
            raise WorkError(f"{self.path} gives more than {most // 1_000_000} MB of the row; {self.step}")
        return value

    def automaton(self, pattern: str, *, whole: bool) -> Automaton | None:
        """Return the pattern, ready; None if it is none. Raises PathError if it is too large."""
        key = (pattern, whole)
        if key not in self.automata:
            if len(self.automata) >= _AUTOMATA:
                self.automata.clear()
            program = iregexp.compile_pattern(pattern)
            self.spend(1 + len(pattern))
            self.automata[key] = None if program is None else Automaton(program, self.spend, whole=whole)
        return self.automata[key]


def work_of(timeout: float | None) -> FilterWork:
    """Return the work of a mapping, for a row whose call has this timeout."""
    if timeout is None:
        return FilterWork()
    most = int(min(max(timeout * _SECOND, MIN_PLACES), MAX_PLACES))
    return FilterWork(most, "narrow it" if most == MAX_PLACES else f"narrow it, or raise {Setting('limits.timeout')}")


_WORK: ContextVar[FilterWork] = ContextVar("work of a path")


@contextmanager
def count_work(work: FilterWork) -> Iterator[FilterWork]:
    """Count what filters do here. The library hands a function of a filter nothing but its arguments."""
    token = _WORK.set(work)
    try:
        yield work
    finally:
        _WORK.reset(token)


class _Matching(FilterFunction):
    """`match` and `search`: the same with and without the packages that the library would use for them."""

    arg_types: ClassVar = [ExpressionType.VALUE, ExpressionType.VALUE]
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        made = _WORK.get().automaton(pattern, whole=self._whole)
        return made is not None and made.matches(value)


class _Lexer(Lexer):
    key_pattern = rf"[{_FIRST}][0-9{_FIRST}]*"


class _Parser(Parser):
    def __init__(self, *, env: JSONPathEnvironment) -> None:
        super().__init__(env=env)
        del self.token_map[TOKEN_LBRACKET]  # a list

    def _decode_string_literal(self, token: Token) -> str:
        """Called by the library, whose own refuses control characters that are escaped."""
        quote = "'" if token.kind == TOKEN_SINGLE_QUOTE_STRING else '"'
        if not _QUOTED[quote].fullmatch(token.value):
            raise JSONPathSyntaxError(
                "a quoted text has a control character or an escape that JSON does not have", token=token
            )
        text = re.sub(r"\\.|\"", lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), token.value)
        return str(json.loads(f'"{text}"'))


class _Environment(JSONPathEnvironment):
    lexer_class = _Lexer
    parser_class = _Parser
    max_recursion_depth = sys.maxsize  # Python's own limit holds

    def setup_function_extensions(self) -> None:
        """Called by the library."""
        super().setup_function_extensions()
        self.function_extensions |= {name: _Matching(whole=name == "match") for name in MATCHING}

    def _eq(self, left: object, right: object) -> bool:
        """Called by the library. Python has True equal to 1, also within a list."""
        if type(left) is type(right) and type(left) in (list, dict):
            return _same(left, right)
        return super()._eq(left, right)

    def _lt(self, left: object, right: object) -> bool:
        """Called by the library, for which a truth value is a number."""
        return not isinstance(left, bool) and not isinstance(right, bool) and super()._lt(left, right)


ENVIRONMENT = _Environment(strict=True)


def check_filters(query: JSONPath) -> None:
    """
    Raise ValueError for an operator that the library knows beside the standard's, such as `<>`.

    And PathError for a regular expression that is too large.
    """
    filters = (selector for segment in query.segments for selector in segment.selectors if isinstance(selector, Filter))
    for part in (part for selector in filters for part in walk(selector.expression)):
        if isinstance(part, InfixExpression) and part.operator not in _OPERATORS:
            raise ValueError("it has an operator that is none of the standard")
        if isinstance(part, FunctionExtension) and part.name in MATCHING and isinstance(part.args[1], StringLiteral):
            iregexp.compile_pattern(part.args[1].value)


def _same(left: object, right: object) -> bool:
    """Whether two values of a row are the same JSON."""
    waiting = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            waiting.extend((inner, other[name]) for name, inner in one.items())
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            waiting.extend(zip(one, other, strict=True))
        elif isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True
