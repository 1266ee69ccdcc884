"""Server-sent events, from bytes."""

from __future__ import annotations

from typing import NamedTuple

from runner.core.errors import ServerError

_LONGEST = 1 << 20
"""Bytes of one event; ours have some hundred."""


class Event(NamedTuple):
    """One event, as it was sent."""

    name: str
    data: str
    id: str
    """The id that the server is told to go on after this event: the last one that it sent."""


class EventReader:
    """Reads a stream in pieces of any size. A piece of a stream that broke off is no event."""

    def __init__(self) -> None:
        self._rest = b""
        self._name, self._data, self._id = "", list[str](), ""
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that end in these bytes. Raises ServerError for an event that is too long."""
        found = []
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._size += len(line)
            if self._size > _LONGEST:
                break
            if event := self._line(line.rstrip(b"\r").decode("utf-8", "replace")):
                found.append(event)
        if self._size + len(self._rest) > _LONGEST:
            raise ServerError("the server sent an event of more than 1 MB; is this its address?")
        return found

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name or "message", "\n".join(self._data), self._id) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
