"""
Hostile scripts, one text file a category.

A script begins with a line `### name [flag]: status, status = value`: what may become of it and, where it must have
returned something, what as JSON. `[wild]` puts `wild.txt` above it. What follows is the body of a function of
`output` and `reference`, which runs among the names of `SHELL`; in `load.txt` it is the whole of a script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, cast, get_args

from sandboxes import Status

FOLDER = Path(__file__).parent
CATEGORIES = (
    "endless", "errors", "forge", "host", "kill", "load", "memory", "output", "poison", "recursion", "results"
)  # fmt: skip

ATTACK = "attack"
CLEAN = ('{"a": 1, "b": [1, 2, {"c": null}], "d": "x"}', '{"a": 2, "b": [1, 3], "e": true}')
DISTANCE = 5.0
"""Between the two: a, b[1], b[2], d and e differ."""

ANY: Any = object()
"""For `Hostile.value`: whatever it returned."""

PROBE = """
STATE = []

def probe(output, reference):
    import gc, json, random, re, sys, warnings
    def distance(a, b):
        if isinstance(a, dict) and isinstance(b, dict):
            return sum(distance(a.get(k), b.get(k)) for k in sorted(set(a) | set(b)))
        if isinstance(a, list) and isinstance(b, list):
            common = sum(distance(x, y) for x, y in zip(a, b))
            return common + abs(len(a) - len(b))
        return 0 if a == b else 1
    print("probe")
    seen = [
        STATE, random.random(), sys.getrecursionlimit(), gc.isenabled(), gc.get_count(), len(sys.modules),
        len(warnings.filters), sys.gettrace() is None, sys.getprofile() is None, len(gc.callbacks),
        re.sub("[aeiou]", "-", "evaluate"), id(object()), id([]), id(b"x" * 100), id(b"x" * 5000),
    ]
    return {"label": "clean", "score": float(distance(json.loads(output), json.loads(reference))),
            "explanation": json.dumps(seen)}
"""
"""An evaluator like any other, that also tells of the interpreter's state, down to where the next objects lie."""

SHELL = f"""{PROBE}
def evaluate(output, reference):
    if output != {ATTACK!r}:
        return probe(output, reference)
    exec(compile(reference, "attack", "exec"), globals())
    return attack(output, reference)
"""
"""Attacked, it runs the script that it is given: loading each one would take most of the tests' time."""


@dataclass(frozen=True)
class Hostile:
    """A script, and what may become of it."""

    category: str
    name: str
    may: frozenset[Status]
    value: Any
    source: str
    """For `SHELL`, or with `attacks_at_load` a script by itself."""

    @property
    def id(self) -> str:
        return f"{self.category}-{self.name}"

    @property
    def attacks_at_load(self) -> bool:
        return self.category == "load"


_HEAD = re.compile(r"### (?P<name>[a-z0-9-]+)(?: \[(?P<flag>wild)\])?: (?P<may>[a-z_, ]+?)(?: = (?P<value>.+))?")


def scripts() -> tuple[Hostile, ...]:
    """All of them. Raises ValueError for a file that is not written as said above."""
    found = tuple(script for category in CATEGORIES for script in _read(category))
    if len({s.id for s in found}) != len(found):
        raise ValueError("two hostile scripts have one name")
    return found


def _read(category: str) -> Iterator[Hostile]:
    text = (FOLDER / f"{category}.txt").read_text("utf-8")
    for part in re.split(r"^(?=### )", text, flags=re.MULTILINE):
        if not part:
            continue
        line, _, body = part.partition("\n")
        head = _HEAD.fullmatch(line)
        if head is None:
            raise ValueError(f"{category}.txt: cannot read {line!r}")
        may = cast("frozenset[Status]", frozenset(head["may"].split(", ")))
        if not may <= set(get_args(Status)):
            raise ValueError(f"{category}.txt: {line!r} names no status")
        value = json.loads(head["value"]) if head["value"] else ANY
        yield Hostile(category, head["name"], may, value, _source(category, head["flag"], body.strip()))


def _source(category: str, flag: str | None, body: str) -> str:
    if category == "load":
        return body
    top = (FOLDER / f"{flag}.txt").read_text("utf-8") if flag else ""
    return f"{top}\ndef attack(output, reference):\n{indent(body, '    ')}\n"
