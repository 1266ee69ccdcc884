"""The text of a function's script, with definitions on the lines that they have in their file."""

from __future__ import annotations

from collections.abc import Sequence

from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.functions.carry import Carrier, SourcePiece
from runner.inputs.evaluators.header import header_lines

MAX_LINE = 10_000
"""The line of a file up to which the script's lines are the file's."""


def layout(carried: Carrier) -> str:
    """
    Return one function's script; `evaluate` is the function.

    Lines keep their numbers where there is room for the imports above the first of them, so that an error in a row
    names the line of the file.
    """
    home = carried.home
    own = [piece for piece in carried.pieces if piece.file == home.file]
    # Definitions in one file stand in an order that works; those of other cells are in the order of their use.
    own.sort(key=lambda piece: piece.line)
    others = [piece for piece in carried.pieces if piece.file != home.file]
    source = "".join(home.lines)
    header = _header(source, carried)
    first = [*carried.imports, *(f"{name} = {text}" for name, text in carried.constants.items())]
    top = ["; ".join(["from __future__ import annotations", *first]), *_lines(others)]
    body = _in_place(own, header, top) or [*header.values(), *top, *_lines(own)]
    end = [f"{name} = {target}" for name, target in carried.aliases.items()]
    if carried.name != NAME:
        end.append(f"{NAME} = {carried.name}")
    if carried.packages and not header:
        names = ", ".join(f'"{name}"' for name in carried.packages)
        end += ["", "# /// script", f"# dependencies = [{names}]", "# ///"]
    return "\n".join([*body, *end]) + "\n"


def _header(source: str, carried: Carrier) -> dict[int, str]:
    """The file's own header by line, if it has settings for evalcell, and describes no other function."""
    found = header_lines(source)
    if found is None:
        return {}
    first, last = found
    lines = source.split("\n")[first - 1 : last]
    ours = any(line.startswith(("# [tool.evalcell", "# tool.evalcell")) for line in lines)
    defined = any(line.startswith((f"def {NAME}(", f"async def {NAME}(")) for line in source.split("\n"))
    if not ours or (defined and carried.name != NAME):
        return {}
    return dict(enumerate(lines, first))


def _in_place(pieces: Sequence[SourcePiece], header: dict[int, str], top: Sequence[str]) -> list[str] | None:
    """Each piece at its own line; None where they do not fit so."""
    placed = dict(header)
    for piece in pieces:
        for number, line in enumerate(_lines([piece]), piece.line):
            if placed.setdefault(number, line) is not line or number > MAX_LINE:
                return None
    start = pieces[0].line
    after = max((number for number in header if number < start), default=0)
    if start - after <= len(top):
        return None
    placed |= dict(enumerate(top, after + 1))
    return [placed.get(number, "") for number in range(1, max(placed) + 1)]


def _lines(pieces: Sequence[SourcePiece]) -> list[str]:
    return [line for piece in pieces for line in piece.text.rstrip("\n").split("\n")]
