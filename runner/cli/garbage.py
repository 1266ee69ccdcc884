"""Python's collector of cyclic garbage: it looks for some among modules, of which a start leaves none."""

from __future__ import annotations

import gc

_usual = gc.get_threshold()
_RARELY = 100_000
"""Objects between two collections: more than imports make. A command that leaves it so has bounded garbage, too."""


def collect_rarely() -> None:
    """For imports: each collection would look at nearly all that they have made, in sum for longer than a start."""
    gc.set_threshold(_RARELY, *_usual[1:])


def collect_as_usual() -> None:
    """For work that goes on. What was imported stays, and is not looked at again."""
    if gc.get_threshold() != _usual:
        gc.set_threshold(*_usual)
        gc.freeze()
