"""The raw result of a request, apart from `protocol`, so that a worker process need not import that."""

from __future__ import annotations

from typing import NamedTuple


class Raw(NamedTuple):
    """The result of one request, as the host saw it."""

    call: int
    how: str
    """`reply`, `timeout`, or one of the backend's deaths."""
    payload: bytes
    """The reply; with any other `how` a few words of the host about the reason."""
    duration: float
    """In seconds."""
    output: bytes | None = None
    """The end of the output, as the host caught it. None: only the reply has it."""
    printed_size: int = 0
    """The number of bytes printed; used if `output` is set."""
    loading: bool = False
    """Whether this is the result of loading the script again before the call."""
