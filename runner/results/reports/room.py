"""Text that fits: parts are added while there is room for them."""

from __future__ import annotations

from collections.abc import Iterable

END = 300
"""Characters for what closes a part."""


def size(text: str) -> int:
    """Count characters as sites do: some take one outside of Unicode's first plane for two."""
    return len(text) + sum(character > "\uffff" for character in text)


class Room:
    """Text that stays below a number of characters."""

    def __init__(self, limit: int) -> None:
        self.half = limit // 2
        """Half of it, to be left for others."""
        self._left = limit
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """What was added."""
        return "".join(self._parts)

    def add(self, text: str, reserve: int = 0) -> bool:
        """Add it all, if as much is left for others; else nothing."""
        length = size(text)
        if length + reserve > self._left:
            return False
        self._left -= length
        self._parts.append(text)
        return True

    def lines(self, lines: Iterable[str], reserve: int = 0) -> int:
        """Add the lines as far as there is room; return the number of those that had none."""
        every = list(lines)
        for number, line in enumerate(every):
            if not self.add(line, reserve):
                return len(every) - number
        return 0
