"""Programs of regular expressions, run over a text in all ways at once: in time linear in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from unicodedata import category

_MAX_KEPT = 50_000
"""Instructions and transitions that one automaton keeps of what it has seen; then it forgets them all."""
_CHARACTERS, _INSTRUCTIONS = 32, 8
"""How many of each take about as long as a place that a path visits."""


class CharSet(NamedTuple):
    """Characters by ranges and by Unicode's categories, each category with whether it is wanted."""

    ranges: tuple[tuple[str, str], ...] = ()
    categories: tuple[tuple[str, bool], ...] = ()
    negated: bool = False

    def has(self, character: str) -> bool:
        """Say whether the character is one of these."""
        found = any(low <= character <= high for low, high in self.ranges)
        if not found and self.categories:
            own = category(character)
            found = any(own.startswith(name) is wanted for name, wanted in self.categories)
        return found is not self.negated


class Split(NamedTuple):
    """Goes on at any of these instructions, counted from here."""

    to: tuple[int, ...]


class Anchor(NamedTuple):
    """Goes on where the text begins, or where it ends."""

    end: bool


Instruction: TypeAlias = CharSet | Split | Anchor
Spend: TypeAlias = Callable[[int], None]
"""Is told the work, in places that a path visits; raises if it is too much."""


@dataclass(slots=True, eq=False)
class _State:
    """All instructions where a match can be after some text."""

    steps: list[tuple[CharSet, int]]
    """What the next character may be, each with the instruction after it."""
    decided: bool | None
    """The answer, if no further text can change it."""
    at_end: bool
    """The answer if the text ends here."""
    then: dict[str, _State] = field(default_factory=dict)


class Automaton:
    """One program for one way to match: the whole text, or a part of it. Its states are made as texts need them."""

    def __init__(self, program: tuple[Instruction, ...], spend: Spend, *, whole: bool) -> None:
        self._program = program
        self._spend = spend
        self._whole = whole
        self._states: dict[frozenset[int], _State] = {}
        self._kept = 0
        self._first = self._state((0,), begin=True)

    def matches(self, text: str) -> bool:
        """Say whether the text matches."""
        self._spend(1 + len(text) // _CHARACTERS)
        state = self._first
        for character in text:
            if state.decided is not None:
                return state.decided
            state = state.then.get(character) or self._step(state, character)
        return state.at_end

    def _step(self, state: _State, character: str) -> _State:
        fits: dict[int, bool] = {}  # a repeated part has the same set many times
        work = len(state.steps)
        after = set() if self._whole else {0}
        for chars, then in state.steps:
            if id(chars) not in fits:
                fits[id(chars)] = chars.has(character)
                work += len(chars.ranges) + len(chars.categories)
            if fits[id(chars)]:
                after.add(then)
        self._spend(1 + work // _INSTRUCTIONS)
        if self._kept > _MAX_KEPT:
            self._forget()
        key = frozenset(after)
        made = self._states.get(key)
        if made is None:
            made = self._states[key] = self._state(key)
            self._kept += len(key) + len(made.steps)
        state.then[character] = made
        self._kept += 1
        return made

    def _forget(self) -> None:
        for state in (self._first, *self._states.values()):
            state.then.clear()
        self._states.clear()
        self._kept = 0

    def _state(self, entries: Iterable[int], *, begin: bool = False) -> _State:
        inside = self._reached(entries, begin=begin, end=False)
        at_end = len(self._program) in self._reached(inside, begin=begin, end=True)
        steps = [
            (one, at + 1) for at in inside if at < len(self._program) and isinstance(one := self._program[at], CharSet)
        ]
        decided = None
        if self._whole:
            decided = None if steps else False
        elif len(self._program) in inside:
            decided = True
        return _State(steps, decided, at_end)

    def _reached(self, entries: Iterable[int], *, begin: bool, end: bool) -> set[int]:
        """The instructions that follow without a character, the entries with them."""
        reached = set(entries)
        waiting = list(reached)
        while waiting:
            at = waiting.pop()
            one = self._program[at] if at < len(self._program) else None
            if isinstance(one, Split):
                after = [at + step for step in one.to]
            elif isinstance(one, Anchor) and (end if one.end else begin):
                after = [at + 1]
            else:
                continue
            waiting.extend(new for new in after if new not in reached)
            reached.update(after)
        self._spend(1 + len(reached) // _INSTRUCTIONS)
        return reached
