"""`--max-failed` and `--max-abstained`: how many rows may have an outcome."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import InputError
from runner.core.text import printable
from sandboxes.words.wording import Message, Setting

if TYPE_CHECKING:
    from fractions import Fraction

_MOST = re.compile(r"(\d{1,12})|(\d{1,3}(?:\.\d{1,9})?) ?%", re.ASCII)


class Most(NamedTuple):
    """The rows that may have an outcome: a number, or a share of all rows."""

    text: str
    number: Fraction
    is_share: bool

    def exceeded_by(self, count: int, rows: int) -> bool:
        """Return true if `count` of the rows are more than allowed."""
        return count > (self.number * rows if self.is_share else self.number)


def parse_most(text: str, field: str = "max_failed") -> Most:
    """Parse `10` or `5%`, the value of a field. Raises InputError."""
    from fractions import Fraction  # here: most runs allow what is the default

    found = _MOST.fullmatch(text.strip())
    is_share = bool(found and found[2])
    number = Fraction(found[1] or found[2]) / (100 if is_share else 1) if found else None
    if number is None or (is_share and number > 1):
        raise InputError(
            Message(
                Setting(field),
                f" {printable(text, 80)!r} is neither a number of rows nor a percentage of them; write for example ",
                *(Setting(field, "5%"), ", or ", Setting(field, 10)),
            )
        )
    return Most(text=text.strip(), number=number, is_share=is_share)


def parse_allowed(max_failed: int | str | None, max_abstained: int | str | None) -> tuple[Most | None, Most | None]:
    """Return the rows that may fail, and those that may abstain; None where nothing says so. Raises InputError."""
    failed = None if max_failed is None else parse_most(str(max_failed))
    return failed, None if max_abstained is None else parse_most(str(max_abstained), "max_abstained")
