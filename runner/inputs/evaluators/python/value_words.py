"""What is said of a row's value that cannot do what a script asks of it: which it is, and of what kind."""

from __future__ import annotations

import re

from runner.core.types import Evaluator
from sandboxes.models import ScriptError

KINDS = {"str": "a text", "list": "a list", "dict": "an object", "int": "a number", "float": "a number"}
KINDS |= {"bool": "true or false", "NoneType": "None"}
_LACKS = re.compile(
    rf"'({'|'.join(KINDS)})' object (?:has no attribute '(\w+)'|is not (?:subscriptable|iterable|callable))"
)


def value_words(error: ScriptError, evaluator: Evaluator, hint: str | None) -> str | None:
    """Return the hint, after which parameter a script asked for what its value has not, and what that is."""
    told = _LACKS.search(error.message) if error.type in ("AttributeError", "TypeError") else None
    lines = [line for line in error.traceback.splitlines() if line[:1] == " " and 'File "' not in line]
    code = [line for line in lines if line.strip(" ^~")]
    if told is None or not code:
        return hint
    own = {one.name for one in evaluator.parameters}
    after = rf"\.{told[2]}\b" if told[2] else r"\["
    name = next((one for one in re.findall(rf"(?<![\w\])])([A-Za-z_]\w*){after}", code[-1]) if one in own), "")
    said = f"`{name}` is {KINDS[told[1]]}"
    if not name or (hint or "").startswith(said):
        return hint
    nothing = ", which has nothing for it: return None for a row that cannot be judged"
    said += " in this row" + nothing * (told[1] == "NoneType")
    return f"{said}; {hint}" if hint else said
