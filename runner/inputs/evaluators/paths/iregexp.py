"""The regular expressions that filters of a path match by, those of RFC 9485, as programs of an automaton."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from runner.core.errors import PathError
from runner.core.text import printable
from runner.inputs.evaluators.paths.automaton import Anchor, CharSet, Instruction, Split

MAX_PATTERN = 10_000
"""Characters of a pattern."""
MAX_PROGRAM = 10_000
"""Instructions that a pattern may become: what is repeated by a count is there that many times."""

_ESCAPE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_SET_CHAR = rf"(?:[^\-\[\\\]\ud800-\udfff]|{_ESCAPE})"
_SET_PART = rf"(?:{_SET_CHAR}-{_SET_CHAR}|{_SET_CHAR}|{_CATEGORY})"
_TOKEN = re.compile(
    r"(?P<begin>\()|(?P<end>\))|(?P<branch>\|)|(?P<repeat>[*+?]|\{(?P<least>[0-9]+)(?P<range>,(?P<most>[0-9]*))?\})"
    rf"|(?P<any>\.)|(?P<set>\[(?P<but>\^?)(?P<parts>(?:-|{_SET_PART}){_SET_PART}*-?)\])"
    rf"|(?P<category>{_CATEGORY})|(?P<anchor>[$^])|(?P<char>{_ESCAPE}|[^()*+.?\[\\\]{{|}}\ud800-\udfff])"
)
_PARTS = re.compile(rf"(?P<category>{_CATEGORY})|(?P<low>{_SET_CHAR})-(?P<high>{_SET_CHAR})|(?P<char>{_SET_CHAR}|-)")
_CONTROLS = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
_ANY = CharSet((("\n", "\n"), ("\r", "\r")), negated=True)
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(slots=True)
class _Group:
    """What is read of a group, or of the whole pattern."""

    branches: list[list[Instruction]] = field(default_factory=list)
    branch: list[Instruction] = field(default_factory=list)
    last: int | None = None
    """Where the last part of the branch begins, if it can be repeated."""

    def add(self, part: list[Instruction], *, repeatable: bool = True) -> None:
        self.last = len(self.branch) if repeatable else None
        self.branch.extend(part)

    def size(self) -> int:
        return len(self.branch) + sum(map(len, self.branches))

    def end_branch(self) -> None:
        self.branches.append(self.branch)
        self.branch, self.last = [], None

    def made(self) -> list[Instruction]:
        self.end_branch()
        made = self.branches.pop()
        while self.branches:
            one = self.branches.pop()
            made = [Split((1, len(one) + 2)), *one, Split((len(made) + 1,)), *made]
        return made


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> tuple[Instruction, ...] | None:
    """Return the pattern as a program; None if it is none of RFC 9485. Raises PathError if it is too large."""
    if len(pattern) > MAX_PATTERN:
        raise PathError(f"a regular expression has {len(pattern):,} characters, over {MAX_PATTERN:,}; shorten it")
    groups = [_Group()]
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None or not _read(found, groups):
            return None
        at = found.end()
        if found["repeat"] and sum(group.size() for group in groups) > MAX_PROGRAM:
            raise _too_large(pattern)
    if len(groups) > 1:
        return None
    made = tuple(groups[0].made())
    if len(made) > MAX_PROGRAM:
        raise _too_large(pattern)
    return made


def _read(found: re.Match[str], groups: list[_Group]) -> bool:
    """Add one token; return False if it cannot stand here."""
    group = groups[-1]
    if found["begin"]:
        groups.append(_Group())
    elif found["end"]:
        if len(groups) == 1:
            return False
        groups.pop()
        groups[-1].add(group.made())
    elif found["branch"]:
        group.end_branch()
    elif found["repeat"]:
        return _repeat(found, group)
    elif found["anchor"]:
        # By the letter of the RFC these are characters; the compliance suite of RFC 9535 has them as anchors.
        group.add([Anchor(found["anchor"] == "$")], repeatable=False)
    elif found["set"]:
        chars = _set(found)
        if chars is None:
            return False
        group.add([chars])
    elif found["category"]:
        group.add([CharSet(categories=(_category(found["category"]),))])
    else:
        one = _char(found["char"] or "")
        group.add([_ANY if found["any"] else CharSet(((one, one),))])
    return True


def _repeat(found: re.Match[str], group: _Group) -> bool:
    """Repeats the last part of a group."""
    if group.last is None:
        return False
    part = group.branch[group.last :]
    del group.branch[group.last :]
    group.last = None
    least, most = _COUNTS.get(found["repeat"]) or _counts(found)
    if most is not None and most < least:
        return False
    if not part:
        return True  # nothing, however often
    if (len(part) + 1) * max(least, most or 1) > MAX_PROGRAM:
        raise _too_large(found.string)
    if most is None:
        again = (
            [*part, Split((-len(part), 1))] if least else [Split((1, len(part) + 2)), *part, Split((-len(part) - 1,))]
        )
        group.branch.extend(part * (least - 1) + again)
    else:
        group.branch.extend(part * least + [Split((1, len(part) + 1)), *part] * (most - least))
    return True


def _counts(found: re.Match[str]) -> tuple[int, int | None]:
    least = _count(found["least"])
    if not found["range"]:
        return least, least
    return least, _count(found["most"]) if found["most"] else None


def _count(digits: str) -> int:
    """The number, or one over the bound."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_PROGRAM)) else MAX_PROGRAM + 1


def _set(found: re.Match[str]) -> CharSet | None:
    ranges, categories = [], []
    for part in _PARTS.finditer(found["parts"]):
        if part["category"]:
            categories.append(_category(part["category"]))
            continue
        low, high = _char(part["low"] or part["char"]), _char(part["high"] or part["char"])
        if low > high:
            return None
        ranges.append((low, high))
    return CharSet(tuple(ranges), tuple(categories), bool(found["but"]))


def _category(text: str) -> tuple[str, bool]:
    r"""What `\p{Lu}` says: the name, and whether it is wanted."""
    return text[3:-1], text[1] == "p"


def _char(text: str) -> str:
    return _CONTROLS.get(text, text[-1:])


def _too_large(pattern: str) -> PathError:
    return PathError(
        f"the regular expression {printable(pattern, 100)} has more than {MAX_PROGRAM:,} parts, "
        "each counted as often as it is repeated; repeat less"
    )
