"""
Errors of the store. Each message is one line with the next step.

    InputError              exit 2
      NotStoredError        nothing has the name, version or id
      NameTakenError        the name stands for something else
      InUseError            what should be deleted is used
      VersionConflictError  somebody saved another version meanwhile
      SegmentError          a segment that does not follow the run's last row, or contradicts itself
    StoreError              exit 3: the database or its folder cannot be used
      StoreFullError        a limit of the store is reached
      StoreDamagedError     what is stored is damaged or gone: trying again mends nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.errors import InputError

if TYPE_CHECKING:  # the command line looks for these errors after every failure, and needs nothing of the store for it
    from runner.core.types import Evaluator
    from runner.results.store.types import EvaluatorVersion


class StoreError(Exception):
    """The store cannot be used: its folder, its database, or what is in them."""


class StoreFullError(StoreError):
    """A limit is reached, of one run or of the whole store."""


class StoreDamagedError(StoreError):
    """What is stored is damaged or gone. Trying again mends nothing."""


class NotStoredError(InputError):
    """The store has nothing of that name, version or id."""


class NameTakenError(InputError):
    """The name stands for something else already."""


class SegmentError(InputError):
    """A segment of results cannot be added to the run."""


class ClaimLostError(InputError):
    """Another server does the run by now."""


class InUseError(InputError):
    """What should be deleted is used. `runs` are the ids of those that use it, at most 100 of them."""

    def __init__(self, why: str, runs: tuple[str, ...]) -> None:
        self.runs = runs
        super().__init__(why)


class VersionConflictError(InputError):
    """Another version was saved since the one that was edited: `theirs`, the newest. `yours` was not saved."""

    def __init__(self, why: str, yours: Evaluator, theirs: EvaluatorVersion) -> None:
        self.yours = yours
        self.theirs = theirs
        super().__init__(why)
