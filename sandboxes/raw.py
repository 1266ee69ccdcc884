"""What became of a request. Here, where a worker process can have it without all that reads a reply."""

from __future__ import annotations

from typing import NamedTuple


class Raw(NamedTuple):
    """What became of one request, as the host saw it."""

    call: int
    how: str
    """`reply`, `timeout`, or one of the backend's deaths."""
    payload: bytes
    """The reply; with any other `how` a few words of the host's that say why."""
    duration: float
    """Seconds."""
    output: bytes | None = None
    """What the host caught of what was printed, the tail. None: only the reply tells of it."""
    said: int = 0
    """How many bytes were printed in all; counts where `output` is set."""
    loading: bool = False
    """Whether this is how loading the script went, for a call before which it was loaded anew."""
