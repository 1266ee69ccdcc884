"""The program that a sandbox loads for a Python script of a dialect: a part of ours, with the script in it as data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_FOLDER = files("sandboxes.guest") / "foreign"
HIDDEN = "<evalcell>"
"""The file of our part's frames, which tracebacks leave out."""


def python_program(part: str, entry: str, source: str, **options: object) -> str:
    """
    A program that defines the function `entry`, by what `wrap` of a guest part makes of the script.

    `options` are plain values; `wrap` gets them by name. The script's text is data in it, and is compiled apart.
    """
    given = {"source": source, "entry": entry, **options}
    return (
        f"_part = {{'__name__': 'evalcell'}}\n"
        f"exec(compile({python_part(part)!r}, {HIDDEN!r}, 'exec', dont_inherit=True), _part)\n"
        f"globals()[{entry!r}] = _part['wrap'](**{given!r})\n"
    )


@cache
def python_part(name: str) -> str:
    """The text of a guest part, after that of `frame.py`, which it imports."""
    parts = ((_FOLDER / f"{part}.py").read_text("utf-8") for part in ("frame", name))
    lines = [line for text in parts for line in text.splitlines() if not line.startswith(("from __future", "from ."))]
    return "\n".join(["from __future__ import annotations", *lines, ""])
