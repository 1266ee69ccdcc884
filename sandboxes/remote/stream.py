"""Read an agent's answer without trusting it: line by line, each bounded, each with the mark."""

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
from sandboxes.boxes.tiers import DEATHS_HERE, LEFTOVERS
from sandboxes.errors import SandboxLostError
from sandboxes.protocol import Raw
from sandboxes.words.hints import BOX, Place
from sandboxes.words.text import clean

_START = 30.0
"""Seconds for a machine to start Python and read what it was sent."""

_SLACK = 15.0
"""Seconds for a busy machine to do what usually takes milliseconds."""

_LONGEST = 86_400.0
_HEAD = 4096  # bytes of a frame besides its row's output and result
_WORDS = 1024
_VERSION = re.compile(r"\d{1,3}(\.\d{1,4}){1,2}[-+.\w]{0,30}")


class UnclearError(SandboxLostError):
    """The answer is not one of the agent; nothing is known about what runs there, and nothing more is believed."""


class Greeting(Model):
    """Who answers, and what protects the machine from scripts."""

    python: str
    """The version, such as `3.11.7`."""
    deno: str | None = None
    """The version of Deno, if it was started."""
    machine: str
    """The kind of processor, as `uname -m` prints it."""
    system: str
    """The kernel and its release."""
    hash_seed: Literal["0", "other"] = "other"
    """Of its Python: unless it is 0, the order of sets differs from machine to machine."""
    protects: tuple[str, ...]
    """Words; `guest.machine.namespaces` explains all of them."""

    @property
    def is_settled(self) -> bool:
        """Whether results do not depend on the chance of a hash seed; with Deno they never do."""
        return self.hash_seed == "0" or self.deno is not None


class Listener:
    """Read the answer to one command."""

    def __init__(
        self,
        ids: Sequence[int],
        refused: Sequence[Execution],
        limits: Limits | None,
        entrypoint: str = "",
        machine: str | None = None,
        loads_again: bool = False,
        place: Place = BOX,
    ) -> None:
        """
        Without limits no script is loaded, and no entry point called. `machine` is the expected kind. With
        `loads_again` the script is also loaded before each row, which the agent does not report.
        """
        self.mark = secrets.token_hex(16)
        self.refused = list(refused)
        """Results of the calls that were not sent because their arguments are not JSON."""
        self.greeting: Greeting | None = None
        self.loaded: Execution | None = None
        """The result of loading; if it failed, each call's execution repeats it."""
        self.lost = ""
        """Why one or more rows have no execution: the machine ran short of something. It goes on with the others."""
        self.left: frozenset[str] = frozenset()
        """What loading left that runs would share, so that each loads the script again; words of `LEFT`."""
        self.finished = False
        """Whether the answer is complete; every call that was sent has had its execution, unless `lost`."""
        self._ids = list(ids)
        self._limits = limits
        self._entrypoint = entrypoint
        self._machine = machine
        self._loads_again = loads_again
        self._place = place
        self._waiting = set(range(len(ids)))
        self._loading = True
        self._line = bytearray()
        self._longest_line = _HEAD if limits is None else _longest_line(limits)

    @property
    def longest(self) -> float:
        """Seconds that the whole answer can take on the slowest honest machine."""
        if self._limits is None:
            return _START + _SLACK
        one = 2 * self._limits.load_timeout + self._limits.timeout + _SLACK
        return min(_LONGEST, _START + one * (len(self._ids) + 1))

    def patience(self) -> float:
        """Return the seconds in which the next piece must arrive, counted from the one before, or from the start."""
        if self.greeting is None:
            return _START
        if self._limits is None or not (self._waiting or self._loading):
            return _SLACK
        # The first row also waits for the script's imports.
        loads = 2 if self.left else self._loading or self._loads_again
        return _SLACK + loads * self._limits.load_timeout + (not self._loading) * self._limits.timeout

    def feed(self, piece: bytes) -> list[Execution]:
        """
        Return the executions that this piece completes, with the ids of their calls.

        Raises:
            UnclearError: For what no honest agent sends.
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
            raise UnclearError("the machine sent something after its last message")
        if len(self._line) + len(part) > self._longest_line:
            raise UnclearError(f"the machine sent a line of more than {self._longest_line} bytes")
        self._line += part

    def _frame(self, line: bytes) -> list[Execution]:
        try:
            frame = json.loads(line.decode("ascii"))
            mark = frame.pop("mark")
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
            shown = clean(line[:80].decode("ascii", "backslashreplace"))
            raise UnclearError(f"the machine sent what is not a message of the agent: {shown!r}") from None
        if not isinstance(mark, str) or not secrets.compare_digest(mark.encode("utf-8", "replace"), self.mark.encode()):
            raise UnclearError("the machine sent a message without the mark of this run")
        try:
            if len(frame) == 2 and "row" in frame and "told" in frame and self.greeting and self._limits:  # nearly all
                return self._row(self._limits, frame["row"], frame["told"])
            return self._word(frame)
        except (ValueError, TypeError, KeyError, OverflowError) as e:
            raise UnclearError(f"the machine sent an invalid message ({type(e).__name__})") from None

    def _word(self, frame: dict[str, Any]) -> list[Execution]:
        match frame:
            case {"failed": str(why), **rest} if not rest:
                raise UnclearError(f"the agent on the machine failed: {clean(why, _WORDS)}")
            case {"hello": dict(report), **rest} if not rest and self.greeting is None:
                self.greeting = _greeting(report)
                if self._machine not in (None, self.greeting.machine):
                    raise UnclearError(f"the machine's processor is {self.greeting.machine}, not {self._machine}")
                if self._machine and not self.greeting.is_settled:
                    raise UnclearError("its Python's hash seed is not 0, so that results would differ")
            case _ if self.greeting is None:
                raise UnclearError("the machine did not send a greeting first")
            case {"loading": True, **rest} if not rest and self.loaded is not None and self._waiting:
                self._loading = True
            case {"loaded": dict(report), **rest} if (
                self._loading and self._limits is not None and not {*rest} - {"left"}
            ):
                return self._loads(self._limits, report, rest.get("left", []))
            case {"done": int(count), **rest} if not rest and not self._waiting and count == len(self._ids):
                self.finished = True
            case _:
                raise UnclearError("the machine sent a message out of order")
        return []

    def _loads(self, limits: Limits, report: dict[str, Any], left: list[str]) -> list[Execution]:
        if why := _lost(report):
            raise UnclearError(why)
        self.left = frozenset(left)
        if not self.left <= {*LEFTOVERS, "reach"}:
            raise ValueError("unknown words")
        raw = _raw(0, report, limits)
        found = protocol.execution(raw, limits, self._entrypoint, loading=True, deaths=DEATHS_HERE, place=self._place)
        self._loading = False
        if self.loaded is None:
            self.loaded = found
        if found.status == "ok":
            return []
        rest, self._waiting = sorted(self._waiting), set()
        return [found.model_copy(update={"call": self._ids[row]}) for row in rest]

    def _row(self, limits: Limits, row: int, report: dict[str, Any]) -> list[Execution]:
        if self._loading or type(row) is not int or row not in self._waiting:
            raise UnclearError("the machine reported a row that was not sent")
        self._waiting.remove(row)
        if why := _lost(report):
            self.lost = why
            return []
        raw = _raw(self._ids[row], report, limits)
        return [protocol.execution(raw, limits, self._entrypoint, deaths=DEATHS_HERE, place=self._place)]


def _longest_line(limits: Limits) -> int:
    return _HEAD + (protocol.longest(limits) + limits.output) * 4 // 3 + 8


def _greeting(report: dict[str, Any]) -> Greeting:
    """Parse a greeting. Raises ValueError, as pydantic's own error is one."""
    greeting = Greeting.model_validate(report)
    texts = (greeting.machine, greeting.system, *greeting.protects)
    honest = len(texts) < 30 and all(len(text) < 100 and text.isprintable() for text in texts)
    versions = (greeting.python, greeting.deno or greeting.python)
    if not (honest and all(map(_VERSION.fullmatch, versions))):
        raise ValueError("no greeting")
    return greeting


def _lost(report: dict[str, Any]) -> str:
    """The reason why the machine has lost a row, if it has. Raises ValueError or TypeError."""
    return clean(_bytes(report["payload"])[:_WORDS].decode("utf-8", "replace")) if report["how"] == "lost" else ""


def _raw(call: int, report: dict[str, Any], limits: Limits) -> Raw:
    """Parse what the agent says of a call. Raises ValueError or TypeError."""
    how, took, said = report["how"], report["took"], report["said"]
    payload, output = _bytes(report["payload"]), _bytes(report["output"])
    known = how == "reply" or how == "timeout" or how in DEATHS_HERE
    sizes = len(payload) <= (protocol.longest(limits) if how == "reply" else _WORDS) and len(output) <= limits.output
    times = isinstance(took, float) and math.isfinite(took) and 0 <= took <= _LONGEST * 2
    if not (known and sizes and times and type(said) is int and len(output) <= said):
        raise ValueError("no row")
    return Raw(call, how, payload, took, output, said, report.get("loading") is True)


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("no text")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError("no base64") from e
