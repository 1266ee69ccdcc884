"""A command's exit code at the end of what it says, for providers where asking for it is a request of its own."""

from __future__ import annotations

import re
import secrets

_LONGEST = 1 + 32 + 1 + 3 + 1


class Trailer:
    """Takes the code off the end of a command's stdout, and holds back no more than what may be that."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._held = b""
        self.code: int | None = None
        """Known after `rest`. None: the command did not come to telling it."""

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The words that run the command, have it end as it does, and tell its code."""
        telling = r'"$@"; code=$?; printf "\036%s %d\n" "$0" "$code"; exit "$code"'
        return ("/bin/sh", "-c", telling, self._mark, *argv)

    def without(self, piece: bytes) -> bytes:
        """What is certainly the command's own."""
        held = self._held + piece
        at = held.rfind(b"\x1e", max(0, len(held) - _LONGEST))
        own, self._held = (held, b"") if at < 0 else (held[:at], held[at:])
        return own

    def rest(self) -> bytes:
        """At the end: what was held back and is not the code."""
        found = re.fullmatch(rb"\x1e%s (\d{1,3})\n" % self._mark.encode(), self._held)
        held, self._held = self._held, b""
        if not found:
            return held
        self.code = int(found[1])
        return b""
