"""What an agent answered, read as a stranger's: line by line, each bounded, each with the mark."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import secrets
from collections.abc import Sequence
from typing import Any, Literal

from sandboxes import protocol
from sandboxes.base import Execution, Limits, Model
from sandboxes.boxes.tiers import DEATHS_HERE, LEFT
from sandboxes.errors import SandboxLostError
from sandboxes.protocol import Raw
from sandboxes.text import clean

_START = 30.0
"""Seconds in which a machine has started a Python and read what it was sent."""

_SLACK = 15.0
"""Seconds that a busy machine may take for what takes it milliseconds."""

_LONGEST = 86_400.0
_HEAD = 4096  # bytes of a frame besides what its row says and returns
_WORDS = 1024
_VERSION = re.compile(r"\d{1,3}(\.\d{1,4}){1,2}[-+.\w]{0,30}")


class UnclearError(SandboxLostError):
    """What came is not what the agent says; what runs there now is not known, and nothing more to be believed."""


class Greeting(Model):
    """Who answers, and what is closed to scripts there."""

    python: str
    """Its version, such as `3.11.7`."""
    deno: str | None = None
    """The version of Deno, where that was started."""
    machine: str
    """Its kind of processor, as `uname -m` says."""
    system: str
    """The kernel and its release."""
    hash_seed: Literal["0", "other"] = "other"
    """Of its Python: with another than 0 the order of sets, and what follows, differs from machine to machine."""
    protects: tuple[str, ...]
    """In words; see `guest.machine.namespaces` for all of them."""

    @property
    def is_settled(self) -> bool:
        """Whether results depend on no chance of the machine's Python; where Deno runs scripts they never do."""
        return self.hash_seed == "0" or self.deno is not None


class Listener:
    """Listens to the answer to one command."""

    def __init__(
        self,
        ids: Sequence[int],
        refused: Sequence[Execution],
        limits: Limits | None,
        entrypoint: str = "",
        machine: str | None = None,
        loads_again: bool = False,
    ) -> None:
        """
        Without limits nothing is loaded, and no entry point called; `machine`: the kind that is expected;
        `loads_again`: before a row too, of which the agent says nothing.
        """
        self.mark = secrets.token_hex(16)
        self.refused = list(refused)
        """The calls that were not sent, as their arguments are no JSON."""
        self.greeting: Greeting | None = None
        self.loaded: Execution | None = None
        """How loading went; where not well, each call's execution repeats it."""
        self.lost = ""
        """Why a row, or some, have no execution: the machine ran short of something. It goes on with the others."""
        self.left: frozenset[str] = frozenset()
        """What loading leaves that runs would share, so that each loads the script anew; by the words of `LEFT`."""
        self.finished = False
        """The agent has said all; every call that was sent has had its execution, but for what is `lost`."""
        self._ids = list(ids)
        self._limits = limits
        self._entrypoint = entrypoint
        self._machine = machine
        self._loads_again = loads_again
        self._waiting = set(range(len(ids)))
        self._loading = True
        self._line = bytearray()
        self._longest_line = _HEAD if limits is None else _longest_line(limits)

    @property
    def longest(self) -> float:
        """Seconds that all of it can take on the slowest honest machine."""
        if self._limits is None:
            return _START + _SLACK
        one = 2 * self._limits.load_timeout + self._limits.timeout + _SLACK
        return min(_LONGEST, _START + one * (len(self._ids) + 1))

    def patience(self) -> float:
        """Seconds in which the next piece must come, counted from the one before; the first from the start."""
        if self.greeting is None:
            return _START
        if self._limits is None or not (self._waiting or self._loading):
            return _SLACK
        # The first row also waits for what the script imports.
        loads = 2 if self.left else self._loading or self._loads_again
        return _SLACK + loads * self._limits.load_timeout + (not self._loading) * self._limits.timeout

    def feed(self, piece: bytes) -> list[Execution]:
        """
        The executions that this piece completed, with the ids of their calls.

        Raises UnclearError for what no honest agent says.
        """
        found: list[Execution] = []
        lines = piece.split(b"\n")
        for line in lines[:-1]:
            self._add(line)
            found += self._frame(bytes(self._line))
            self._line.clear()
        self._add(lines[-1])
        return found

    def _add(self, part: bytes) -> None:
        if self.finished and part:
            raise UnclearError("the machine said something after its last word")
        if len(self._line) + len(part) > self._longest_line:
            raise UnclearError(f"the machine said a line of more than {self._longest_line} bytes")
        self._line += part

    def _frame(self, line: bytes) -> list[Execution]:
        try:
            frame = json.loads(line.decode("ascii"))
            mark = frame.pop("mark")
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
            shown = clean(line[:80].decode("ascii", "backslashreplace"))
            raise UnclearError(f"the machine said what is no word of the agent: {shown!r}") from None
        if not isinstance(mark, str) or not secrets.compare_digest(mark.encode("utf-8", "replace"), self.mark.encode()):
            raise UnclearError("the machine said a word without the mark of this run")
        try:
            return self._word(frame)
        except (ValueError, TypeError, KeyError, OverflowError) as e:
            raise UnclearError(f"the machine said a word that is not understood ({type(e).__name__})") from None

    def _word(self, frame: dict[str, Any]) -> list[Execution]:
        match frame:
            case {"failed": str(why), **rest} if not rest:
                raise UnclearError(f"the agent on the machine failed: {clean(why, _WORDS)}")
            case {"hello": dict(told), **rest} if not rest and self.greeting is None:
                self.greeting = _greeting(told)
                if self._machine not in (None, self.greeting.machine):
                    raise UnclearError(f"it is a machine of the kind {self.greeting.machine}, not {self._machine}")
                if self._machine and not self.greeting.is_settled:
                    raise UnclearError("its Python's hash seed is not 0, so that results would differ")
            case _ if self.greeting is None:
                raise UnclearError("the machine did not say hello first")
            case {"loading": True, **rest} if not rest and self.loaded is not None and self._waiting:
                self._loading = True
            case {"loaded": dict(told), **rest} if (
                self._loading and self._limits is not None and not {*rest} - {"left"}
            ):
                return self._loads(self._limits, told, rest.get("left", []))
            case {"row": int(row), "told": dict(told), **rest} if not rest and self._limits is not None:
                return self._row(self._limits, row, told)
            case {"done": int(count), **rest} if not rest and not self._waiting and count == len(self._ids):
                self.finished = True
            case _:
                raise UnclearError("the machine said a word out of turn")
        return []

    def _loads(self, limits: Limits, told: dict[str, Any], left: list[str]) -> list[Execution]:
        if why := _lost(told):
            raise UnclearError(why)
        self.left = frozenset(left)
        if not self.left <= LEFT.keys():
            raise ValueError("words that are not known")
        found = protocol.execution(_raw(0, told, limits), limits, self._entrypoint, loading=True, deaths=DEATHS_HERE)
        self._loading = False
        if self.loaded is None:
            self.loaded = found
        if found.status == "ok":
            return []
        rest, self._waiting = sorted(self._waiting), set()
        return [found.model_copy(update={"call": self._ids[row]}) for row in rest]

    def _row(self, limits: Limits, row: int, told: dict[str, Any]) -> list[Execution]:
        if self._loading or row not in self._waiting or type(row) is not int:
            raise UnclearError("the machine told of a row that it was not asked for")
        self._waiting.remove(row)
        if why := _lost(told):
            self.lost = why
            return []
        raw = _raw(self._ids[row], told, limits)
        return [protocol.execution(raw, limits, self._entrypoint, deaths=DEATHS_HERE)]


def _longest_line(limits: Limits) -> int:
    return _HEAD + (protocol.longest(limits) + limits.output) * 4 // 3 + 8


def _greeting(told: dict[str, Any]) -> Greeting:
    """Raises ValueError, as pydantic's own error is one."""
    greeting = Greeting.model_validate(told)
    texts = (greeting.machine, greeting.system, *greeting.protects)
    honest = len(texts) < 30 and all(len(text) < 100 and text.isprintable() for text in texts)
    versions = (greeting.python, greeting.deno or greeting.python)
    if not (honest and all(map(_VERSION.fullmatch, versions))):
        raise ValueError("no greeting")
    return greeting


def _lost(told: dict[str, Any]) -> str:
    """Why it is the machine's doing, where that is what is told. Raises ValueError or TypeError."""
    return clean(_bytes(told["payload"])[:_WORDS].decode("utf-8", "replace")) if told["how"] == "lost" else ""


def _raw(call: int, told: dict[str, Any], limits: Limits) -> Raw:
    """Raises ValueError or TypeError."""
    how, took, said = told["how"], told["took"], told["said"]
    payload, output = _bytes(told["payload"]), _bytes(told["output"])
    known = how == "reply" or how == "timeout" or how in DEATHS_HERE
    sizes = len(payload) <= (protocol.longest(limits) if how == "reply" else _WORDS) and len(output) <= limits.output
    times = isinstance(took, float) and math.isfinite(took) and 0 <= took <= _LONGEST * 2
    if not (known and sizes and times and type(said) is int and len(output) <= said):
        raise ValueError("no row")
    return Raw(call, how, payload, took, output, said, told.get("loading") is True)


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("no text")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError("no base64") from e
