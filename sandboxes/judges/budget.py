"""What all exchanges of a run may use together: reserved before anything is sent, settled by what the reply says."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sandboxes.judges.grant import JudgeBudget, Price

REPLY_TOKENS = 1024
"""What is reserved for a reply whose request names no bound of its own."""

_MOST_TOKENS = 10**15
"""That are reckoned with: a script, and a judge, may say any number."""
_MODEL = 80
_BOUNDS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


class SpentError(Exception):
    """The budget does not allow another request; the message says which part of it."""


@dataclass
class Reservation:
    """What one request may use, until its reply says what it used."""

    tokens: int
    usd: float
    model: str


class TotalBudget:
    """
    What all runs may use together. From any thread; nobody waits for what others have reserved.

    Args:
        budget: The most.
        file: An empty file, as a descriptor, in which the processes that have it keep the sums together. None: this
            process keeps them.
    """

    def __init__(self, budget: JudgeBudget, file: int | None = None) -> None:
        self._budget = budget
        self._file = file
        self._lock = threading.Lock()
        self._sums: tuple[float, ...] = (0, 0, 0.0)

    def add(self, requests: int, tokens: int, usd: float, bounded: bool = False) -> None:
        """Count these, negative ones too. Raises SpentError if it is `bounded` and they are too much, or uncounted."""
        try:
            self._add(requests, tokens, usd, bounded)
        except OSError as e:
            if bounded:  # else more stays reserved
                why = f"the file of this server's budget for judges cannot be written ({e.strerror}); make room for it"
                raise SpentError(why) from None

    def _add(self, requests: int, tokens: int, usd: float, bounded: bool) -> None:
        with self._lock, self._locked():
            before = self._read()
            sums = (before[0] + requests, before[1] + tokens, before[2] + usd)
            for (name, most), value in zip(self._budget, sums, strict=True):
                if bounded and most is not None and value > most:
                    raise SpentError(
                        f"the budget of this server for judges is spent ({name}={most:g}, of all its runs); start it "
                        "anew, or with more"
                    )
            self._sums = sums
            if self._file is not None:
                os.pwrite(self._file, _SUMS.pack(*sums), 0)

    def _read(self) -> tuple[float, ...]:
        kept = b"" if self._file is None else os.pread(self._file, _SUMS.size, 0)
        return _SUMS.unpack(kept) if kept else self._sums

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None or sys.platform == "win32":
            yield
            return
        import fcntl  # not on Windows

        fcntl.lockf(self._file, fcntl.LOCK_EX)  # not `flock`, which processes with one descriptor would have together
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)


_SUMS = struct.Struct("3d")
_TOTALS: dict[JudgeBudget, TotalBudget] = {}
_file: int | None = None


def share_budget(file: int) -> None:
    """Keep the sums of what all runs use in a file, with all processes that do; before the first of them begins."""
    global _file
    _file = file


class Spending:
    """
    The budget and what of it is used. For the broker's event loop only, so that no lock is needed.

    Args:
        budget: The most.
        prices: By model.
        shared: It is of all runs that have the same budget: those of this process, or see `share_budget`.
        before: Requests, tokens and US dollars that the run used before it was interrupted.
    """

    def __init__(
        self,
        budget: JudgeBudget,
        prices: Mapping[str, Price],
        shared: bool = False,
        before: tuple[int, int, float] = (0, 0, 0.0),
    ) -> None:
        self._budget = budget
        self._total = _TOTALS.setdefault(budget, TotalBudget(budget, _file)) if shared else None
        self._prices = prices
        self._open: list[Reservation] = []
        self._settled = asyncio.Event()
        self.requests, self.tokens, self.usd = before
        self.estimated = 0
        """Requests whose replies did not say what they used."""

    async def reserve(self, body: bytes) -> Reservation:
        """
        Take one request out of the budget, with the most that it may use; wait if that is too much for open ones only.

        Raises SpentError.
        """
        asked = self._most(body)
        if self._total is not None:
            self._total.add(1, asked.tokens, asked.usd, bounded=True)
            self.requests += 1
            self._open.append(asked)
            return asked
        while True:
            self._refuse_spent()
            held_tokens = sum(one.tokens for one in self._open)
            held_usd = sum(one.usd for one in self._open)
            budget = self._budget
            tokens = budget.tokens is not None and self.tokens + held_tokens + asked.tokens > budget.tokens
            usd = budget.usd is not None and self.usd + held_usd + asked.usd > budget.usd
            if not (tokens or usd):
                self.requests += 1
                self._open.append(asked)
                return asked
            if not self._open:
                raise SpentError(self._rest(asked, "tokens" if tokens else "usd"))
            self._settled.clear()
            await self._settled.wait()

    def settle(self, reservation: Reservation, usage: Mapping[str, int] | None, sent: bool = True) -> tuple[int, float]:
        """Count what a request used, and return its tokens and US dollars; without a usage, those reserved for it."""
        self._open = [one for one in self._open if one is not reservation]
        self._settled.set()
        tokens, usd = reservation.tokens, reservation.usd
        if not sent:
            self.requests -= 1
            tokens, usd = 0, 0.0
        elif usage is None:
            self.estimated += 1
        else:
            asked, answered = usage.get("input", 0), usage.get("output", 0)
            tokens, usd = asked + answered, self._cost(reservation.model, asked, answered)
        self.tokens, self.usd = self.tokens + tokens, self.usd + usd
        if self._total is not None:
            self._total.add(sent - 1, tokens - reservation.tokens, usd - reservation.usd)
        return tokens, usd

    def _refuse_spent(self) -> None:
        if self._budget.requests is not None and self.requests >= self._budget.requests:
            raise SpentError(f"the budget of {self._budget.requests} requests to judges is spent; raise requests=")

    def _rest(self, asked: Reservation, part: str) -> str:
        if part == "tokens":
            left = max(0, (self._budget.tokens or 0) - self.tokens)
            need = f"{asked.tokens} tokens that a request may use, and {left} are left"
        else:
            left_usd = max(0.0, (self._budget.usd or 0.0) - self.usd)
            need = f"{asked.usd:.4f} US dollars that a request may cost, and {left_usd:.4f} are left"
        return f"the budget for judges does not have the {need}; raise {part}=, or have scripts set max_tokens"

    def _most(self, body: bytes) -> Reservation:
        if self._budget.tokens is None and self._budget.usd is None and not self._prices:
            return Reservation(0, 0.0, "")
        fields = _fields(body)
        bound = next((fields[name] for name in _BOUNDS if type(fields.get(name)) is int), REPLY_TOKENS)
        times = fields["n"] if type(fields.get("n")) is int else 1
        output = min(_MOST_TOKENS, max(0, bound) * max(1, times))
        asked = len(body) // 3 + 1
        model = str(fields.get("model", ""))
        return Reservation(asked + output, self._cost(model, asked, output), model)

    def _cost(self, model: str, asked: int, answered: int) -> float:
        price = self._prices.get(model)
        if price is None:
            if self._budget.usd is not None:
                raise SpentError(f"the budget has US dollars, and the model {model[:80]!r} has no price; give it one")
            return 0.0
        return (asked * price.input + answered * price.output) / 1_000_000


def usage_of(value: Any) -> dict[str, int] | None:
    """Return the tokens that a reply, or an event of a stream, says it used."""
    usage = value.get("usage") if isinstance(value, dict) else None
    if usage is None and isinstance(value, dict):
        inner = value.get("response") or value.get("message")
        usage = inner.get("usage") if isinstance(inner, dict) else None
    if not isinstance(usage, dict):
        return None
    names = {"input": ("prompt_tokens", "input_tokens"), "output": ("completion_tokens", "output_tokens")}
    found = {kind: usage[name] for kind, either in names.items() for name in either if type(usage.get(name)) is int}
    return {kind: min(_MOST_TOKENS, max(0, count)) for kind, count in found.items()} or None


def model_of(body: bytes) -> str:
    """Return the model that a request names, on one line; `no model` if it names none."""
    text = str(_fields(body).get("model") or "no model")
    return "".join(char if char.isprintable() else " " for char in text[:_MODEL])


def _fields(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class FlightRoom:
    """
    Exchanges at once: as many as are allowed, half as many after a judge's 429, and slowly more again.

    Args:
        most: The most that are ever allowed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = float(most)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved = 0
        self._entered = 0
        self.inside = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def allowed(self) -> int:
        return int(self._now)

    async def enter(self) -> int:
        """Wait for a place; return the number of the entry."""
        if self.inside >= self.allowed or self._waiting:
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except BaseException:
                if place.done() and not place.cancelled():  # it has the place that it no longer wants
                    self.inside -= 1
                    self._admit()
                elif place in self._waiting:
                    self._waiting.remove(place)
                raise
        else:
            self.inside += 1
        self._entered += 1
        return self._entered

    def leave(self) -> None:
        self.inside -= 1
        self._admit()

    def went_well(self) -> None:
        """Allow one more after as many good replies as are allowed at once."""
        self._now = min(self._most, self._now + 1 / self._now)
        self._admit()

    def was_too_much(self, entry: int) -> None:
        """Halve it, once for all that were inside together."""
        if entry > self._halved:
            self._now = max(1.0, self._now / 2)
            self._halved = self._entered

    def _admit(self) -> None:
        while self._waiting and self.inside < self.allowed:
            place = self._waiting.popleft()
            if not place.done():
                self.inside += 1
                place.set_result(None)
