"""Append the exit code to a command's output, for providers where it would take another request."""

from __future__ import annotations

import re
import secrets

_LONGEST = 1 + 32 + 1 + 3 + 1


class ExitCodeFilter:
    """Remove the code from the end of a command's stdout, holding back no more than what may be the code."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._held = b""
        self.code: int | None = None
        """Known after `rest`. None: the command did not get so far."""

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The arguments that run the command, print its exit code, and exit with it."""
        telling = r'"$@"; code=$?; printf "\036%s %d\n" "$0" "$code"; exit "$code"'
        return ("/bin/sh", "-c", telling, self._mark, *argv)

    def without(self, piece: bytes) -> bytes:
        """The output that is certainly the command's own."""
        held = self._held + piece
        at = held.rfind(b"\x1e", max(0, len(held) - _LONGEST))
        own, self._held = (held, b"") if at < 0 else (held[:at], held[at:])
        return own

    def rest(self) -> bytes:
        """At the end: what was held back, unless it is the code."""
        found = re.fullmatch(rb"\x1e%s (\d{1,3})\n" % self._mark.encode(), self._held)
        held, self._held = self._held, b""
        if not found:
            return held
        self.code = int(found[1])
        return b""
