"""Keep the values of the caller's variables out of everything that a script returns or prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sandboxes.base import Execution
from sandboxes.errors import SandboxError
from sandboxes.protocol import TEXT

MASK = "***"

SHORTEST = 4
"""In characters. A shorter value is not masked: "1" or "yes" is no secret, and masking it would spoil every result."""


def maskable(value: str) -> bool:
    """Say whether `Masks` hides the value. Users must be warned about others."""
    return len(value) >= SHORTEST


class Masks:
    """
    Replaces each value by `***`, the longest first: as it is, and as `repr` and JSON write it.

    This prevents accidents (a key in an exception's text, a variable printed for debugging). A script that wants to
    give a value away can: it is not found if spelt backwards, or as a number.
    """

    def __init__(self, values: Iterable[str]) -> None:
        found = {form for value in values for form in _forms(value) if maskable(form)}
        self._texts = sorted(found, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, self._texts)))

    def text(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._texts else text

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Mask the values in sandbox errors that are raised inside."""
        try:
            yield
        except SandboxError as e:
            told = self.text(str(e))
            if told == str(e):
                raise
            e.args = (told,)
            raise e from None

    def execution(self, execution: Execution) -> Execution:
        """
        Return the execution with the values masked in the result, at any depth and in keys too, in the error and in the
        output.
        """
        if not self._texts:
            return execution
        masked: dict[str, Any] = {
            "value": self._value(execution.value),
            "output": self._end(execution.output, cut=execution.truncated),
        }
        if error := execution.error:
            texts = {
                "type": self.text(error.type),
                "message": self._begin(error.message, cut=len(error.message) >= TEXT),
                "traceback": self._end(error.traceback, cut=len(error.traceback) >= TEXT),
                "hint": error.hint and self.text(error.hint),
            }
            masked["error"] = error.model_copy(update=texts)
        return execution.model_copy(update=masked)

    def _end(self, text: str, cut: bool) -> str:
        left = _rest(text, self._texts) if cut else 0
        return (MASK if left else "") + self.text(text[left:])

    def _begin(self, text: str, cut: bool) -> str:
        left = _rest(text[::-1], [value[::-1] for value in self._texts]) if cut else 0
        return self.text(text[: len(text) - left]) + (MASK if left else "")

    def _value(self, value: Any) -> Any:
        """A copy with the values masked. Not recursive: a script may have nested it as deeply as JSON can be read."""
        whole = [value]
        todo: list[Any] = [whole]
        while todo:
            holder = todo.pop()
            for place, item in _items(holder):
                if isinstance(item, str):
                    holder[place] = self.text(item)
                elif isinstance(item, list):
                    holder[place] = item.copy()
                    todo.append(holder[place])
                elif isinstance(item, dict):
                    holder[place] = self._keys(item)
                    todo.append(holder[place])
        return whole[0]

    def _keys(self, found: dict[str, Any]) -> dict[str, Any]:
        masked: dict[str, Any] = {}
        for key, item in found.items():
            shown = self.text(key)
            while shown != key and (shown in masked or shown in found):  # two masked keys stay two keys
                shown += "*"
            masked[shown] = item
        return masked


def _forms(value: str) -> set[str]:
    written = repr(value), ascii(value), json.dumps(value), json.dumps(value, ensure_ascii=False)
    return {value, value.strip(), *(text[1:-1] for text in written)}


def _items(holder: Any) -> Iterator[tuple[Any, Any]]:
    return iter(list(holder.items())) if isinstance(holder, dict) else enumerate(holder)


def _rest(text: str, values: list[str]) -> int:
    """How much of the text's beginning is the end of a value whose beginning was cut off."""
    lengths = (
        length
        for value in values
        for length in range(min(len(value) - 1, len(text)), SHORTEST - 1, -1)
        if text.startswith(value[len(value) - length :])
    )
    return max(lengths, default=0)
