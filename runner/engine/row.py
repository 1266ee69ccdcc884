"""A row on its way through a sandbox."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Protocol

from runner.core.types import Result
from sandboxes.base import Call, Sandbox


class Row:
    """
    A case on its way, or one of its repeats, which count from 1.

    `call` is let go of once it has run: a result that waits holds no arguments. `known` is a result that needs no run.
    """

    # Most rows have these values, which would take as long to set as the call takes to make.
    call: Call | None = None
    given: str | None = None
    result: Result | None = None
    known: Result | None = None
    stored = False
    """`known` stands, even if the row is run again because others that share its state are not known."""
    key: bytes | None = None
    """The row's key in the score cache."""
    chars = 0
    taken = False
    kept: dict[str, Any] | None = None
    kept_size = 0

    def __init__(self, id: str, number: int, repeat: int = 1) -> None:
        self.id = id
        self.number = number
        self.repeat = repeat


class ResultSource(Protocol):
    """Results that are there before the run: those of a run that goes on, those of the score cache."""

    @property
    def identity(self) -> str | None:
        """The sandbox of these results. None: there are none."""

    def find(self, row: Row) -> Result | None:
        """The row's result, if it is known. Called in the dataset's order, for broken rows too, in a thread."""

    def check(self, sandbox: Sandbox) -> None:
        """Raise if the sandbox, which was opened for the first row that is not known, is not the one of `identity`."""

    def refuse_more(self) -> None:
        """A row is not known. Raise if that cannot be."""

    def learn(self, row: Row) -> None:
        """Take the result of a row that was run."""

    def end(self) -> None:
        """All rows were read. Raise if there are more results than rows."""


def seed_of(seed: int, number: int, repeat: int = 1) -> int:
    """
    The seed of one case: 63 bits that depend on nothing but the run's seed and the case's number.

    Repeats differ; the first is that of a run that repeats nothing.
    """
    place = f"{seed}:{number}" if repeat == 1 else f"{seed}:{number}:{repeat}"
    return int.from_bytes(blake2b(place.encode(), digest_size=8).digest(), "big") >> 1
