"""
Hostile scripts, one text file a category.

A script begins with a line `### name [flag]: status, status = value`: what may become of it and, where it must have
returned something, what as JSON. `[wild]` puts `wild.txt` above it. What follows is the body of a function of
`output` and `reference`, which runs among the names of `SHELL`; in `load.txt` it is the whole of a script.

A second line `### process: status = value` says what may become of it in a process instead, where some things are at
home that the guest lacks: threads, forks, a folder for files. For a script that attacks the process that loads it,
`### calls: status = value` says what may become of its calls. `### alone: status` says what may become of it as well
where it can neither start processes nor send signals, as with an older Landlock. `[lasting]` may spoil the rest of its
own batch.
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
"""For `Ending.value`: whatever it returned."""

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
        STATE, random.random(), sys.getrecursionlimit(), gc.isenabled(), len(sys.modules),
        len(warnings.filters), sys.gettrace() is None, sys.getprofile() is None, len(gc.callbacks),
        re.sub("[aeiou]", "-", "evaluate"), *KERNEL(),
    ]
    places = [gc.get_count(), id(object()), id([]), id(b"x" * 100), id(b"x" * 5000)] if PLACES else []
    return {"label": "clean", "score": float(distance(json.loads(output), json.loads(reference))),
            "explanation": json.dumps([seen, places])}
"""
"""An evaluator like any other, that also tells of the interpreter's state."""

_SHELL = f"""{PROBE}
def evaluate(output, reference):
    if output != {ATTACK!r}:
        return probe(output, reference)
    exec(compile(reference, "attack", "exec"), globals())
    return attack(output, reference)
"""

SHELL = f"""
PLACES = True

def KERNEL(): return []
{_SHELL}"""
"""
Attacked, it runs the script that it is given: loading each one would take most of the tests' time.

Asked for a distance, it also tells where the next objects lie.
"""


def boxed_shell(tools: str) -> str:
    """The same for a process: with what its attacks need, and what the kernel keeps instead of places, which vary."""
    return f"{tools}\nPLACES = False\n{_SHELL}"


@dataclass(frozen=True)
class Ending:
    """What may become of a script."""

    may: frozenset[Status]
    value: Any
    """With the status `ok`, what it must have returned."""


ANYTHING = Ending(frozenset(get_args(Status)), ANY)


@dataclass(frozen=True)
class Hostile:
    """A script, and what may become of it."""

    category: str
    name: str
    ending: Ending
    source: str
    """For `SHELL`, or with `attacks_at_load` a script by itself."""
    boxed: Ending
    """In a process."""
    calls: Ending
    """What may become of its calls, with `attacks_at_load`."""
    alone: Ending
    """In a process that can neither start others nor send signals."""
    lasting: bool
    """Whether it may spoil what comes after it in its batch."""

    @property
    def may(self) -> frozenset[Status]:
        return self.ending.may

    @property
    def id(self) -> str:
        return f"{self.category}-{self.name}"

    @property
    def attacks_at_load(self) -> bool:
        return self.category == "load"


_ENDING = r"(?P<may>[a-z_, ]+?)(?: = (?P<value>.+))?"
_HEAD = re.compile(rf"### (?P<name>[a-z0-9-]+)(?: \[(?P<flag>wild|lasting)\])?: {_ENDING}")
_MORE = re.compile(rf"### (?P<of>process|calls|alone): {_ENDING}")
_LASTING = ("poison", "kill")
"""Categories of scripts that may change what a batch shares."""


def scripts(
    folder: Path = FOLDER, categories: tuple[str, ...] = CATEGORIES, *, bare: bool = False
) -> tuple[Hostile, ...]:
    """
    All of them; `bare`: as they stand, where the shell makes the function itself.

    Raises ValueError for a file that is not written as said above.
    """
    found = tuple(script for category in categories for script in _read(folder, category, bare))
    if len({s.id for s in found}) != len(found):
        raise ValueError("two hostile scripts have one name")
    return found


def _read(folder: Path, category: str, bare: bool) -> Iterator[Hostile]:
    text = (folder / f"{category}.txt").read_text("utf-8")
    for part in re.split(r"^(?=### (?!process: |calls: |alone: ))", text, flags=re.MULTILINE):
        if not part:
            continue
        line, _, body = part.partition("\n")
        head = _HEAD.fullmatch(line)
        if head is None:
            raise ValueError(f"{category}.txt: cannot read {line!r}")
        endings = {"here": _ending(head)}
        while more := _MORE.fullmatch(body.partition("\n")[0]):
            endings[more["of"]], body = _ending(more), body.partition("\n")[2]
        boxed = endings.get("process", endings["here"])
        alone = endings.get("alone", boxed)
        yield Hostile(
            category,
            head["name"],
            endings["here"],
            body.strip() if bare else _source(category, head["flag"] == "wild", body.strip()),
            boxed=boxed,
            alone=Ending(alone.may | boxed.may, alone.value),
            calls=endings.get("calls", ANYTHING),
            lasting=category in _LASTING or head["flag"] == "lasting",
        )


def _ending(told: re.Match[str]) -> Ending:
    may = cast("frozenset[Status]", frozenset(told["may"].split(", ")))
    if not may <= set(get_args(Status)):
        raise ValueError(f"{told[0]!r} names no status")
    return Ending(may, json.loads(told["value"]) if told["value"] else ANY)


def _source(category: str, wild: bool, body: str) -> str:
    if category == "load":
        return body
    top = (FOLDER / "wild.txt").read_text("utf-8") if wild else ""
    return f"{top}\ndef attack(output, reference):\n{indent(body, '    ')}\n"
