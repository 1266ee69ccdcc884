"""
Find the instructions that a module's functions use.

The walker knows the instructions of the WebAssembly that this guest is compiled to (1.0 with sign extension, saturating
conversion, bulk memory, reference types and tail calls). Anything else stops it, so that nothing is missed.
"""

from enum import Enum, auto

from ..encode import PREAMBLE
from .binary import Reader, sections
from .errors import WasmFormatError
from .module import TYPED_REFERENCES, SectionId, value_type

PREFIX = 0xFC
TABLE_INSTRUCTIONS = {
    0x25: "table.get",
    0x26: "table.set",
    0xFC0C: "table.init",
    0xFC0D: "elem.drop",
    0xFC0E: "table.copy",
    0xFC0F: "table.grow",
    0xFC11: "table.fill",
}
"""Every instruction that can change a table, and table.get, which could leak what is in one."""


class _Operands(Enum):
    """What follows an opcode; LEB128 integers unless said otherwise."""

    UNKNOWN = auto()
    NONE = auto()
    BLOCK_TYPE = auto()
    ONE = auto()
    TWO = auto()
    BYTES_4 = auto()
    BYTES_8 = auto()
    MEMORY = auto()
    TYPES = auto()
    LABELS = auto()
    PREFIXED = auto()


def _operand_table() -> list[_Operands]:
    kinds: list[tuple[_Operands, list[int]]] = [
        # unreachable, nop, else, end, return, drop, select, ref.is_null; 0x45-0xC4: all arithmetic
        (_Operands.NONE, [0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B, 0xD1, *range(0x45, 0xC5)]),
        (_Operands.BLOCK_TYPE, [0x02, 0x03, 0x04]),  # block, loop, if
        # br, br_if, call, return_call; locals, globals, table.get and .set; memory.size and .grow; constants
        (_Operands.ONE, [0x0C, 0x0D, 0x10, 0x12, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42]),
        (_Operands.ONE, [0xD0, 0xD2]),  # ref.null, ref.func
        (_Operands.TWO, [0x11, 0x13]),  # call_indirect, return_call_indirect
        (_Operands.BYTES_4, [0x43]),
        (_Operands.BYTES_8, [0x44]),
        (_Operands.MEMORY, list(range(0x28, 0x3F))),  # loads and stores
        (_Operands.TYPES, [0x1C]),  # select with types
        (_Operands.LABELS, [0x0E]),  # br_table
        (_Operands.PREFIXED, [PREFIX]),
    ]
    table = [_Operands.UNKNOWN] * 256
    for kind, opcodes in kinds:
        for opcode in opcodes:
            table[opcode] = kind
    return table


_OPERANDS = _operand_table()
# After the prefix: 0-7 saturating conversions, 8 memory.init, 9 data.drop, 10 memory.copy, 11 memory.fill,
# 12 table.init, 13 elem.drop, 14 table.copy, 15 table.grow, 16 table.size, 17 table.fill
_PREFIXED_OPERAND_COUNTS = (0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1)
_MULTI_MEMORY = 0x40
_END = 0x0B


def opcodes_used(data: bytes) -> set[int]:
    """
    Return the opcodes in a module's code section, those behind the prefix as 0xFC00 plus their number.

    Raises:
        WasmFormatError: At the first instruction it doesn't know, or where a body's last is not its end.
    """
    used: set[int] = set()
    for part in sections(data, PREAMBLE):
        if part.id != SectionId.CODE:
            continue
        reader = Reader(data, part.start, part.end)
        for _ in range(reader.unsigned()):
            size = reader.unsigned()
            body = reader.skip(size)
            try:
                _walk(data, _after_locals(data, body, body + size), body + size, used)
            except IndexError:
                raise WasmFormatError(f"the function body at byte {body} runs past the file's end") from None
    return used


def _after_locals(data: bytes, start: int, end: int) -> int:
    reader = Reader(data, start, end)
    for _ in range(reader.unsigned()):
        reader.unsigned()
        value_type(reader)
    return reader.position


def _walk(data: bytes, position: int, end: int, used: set[int]) -> None:
    """Collect a body's opcodes. Millions of instructions pass here, so the loop reads bytes without a Reader."""
    opcode = -1
    while position < end:
        opcode = data[position]
        position += 1
        operands = _OPERANDS[opcode]
        if operands is _Operands.ONE:
            position = _skip(data, position, 1)
        elif operands is _Operands.MEMORY:
            # A set bit 6 of the alignment announces the index of a second memory.
            position = _skip(data, position, 3 if data[position] & _MULTI_MEMORY else 2)
        elif operands is _Operands.TWO:
            position = _skip(data, position, 2)
        elif operands is _Operands.BYTES_4:
            position += 4
        elif operands is _Operands.BYTES_8:
            position += 8
        elif operands is not _Operands.NONE:
            opcode, position = _rare(opcode, operands, Reader(data, position, end))
        used.add(opcode)
    if position != end or opcode != _END:
        raise WasmFormatError(f"the function body before byte {end} doesn't end where it should")


def _rare(opcode: int, operands: _Operands, reader: Reader) -> tuple[int, int]:
    """For operands of varying length: the opcode, prefix included, and where the next instruction starts."""
    start = reader.position - 1
    match operands:
        case _Operands.BLOCK_TYPE:
            if reader.data[reader.position] in TYPED_REFERENCES:
                value_type(reader)
            else:
                reader.signed()
        case _Operands.TYPES:
            for _ in range(reader.unsigned()):
                value_type(reader)
        case _Operands.LABELS:
            for _ in range(reader.unsigned() + 1):
                reader.unsigned()
        case _Operands.PREFIXED if (number := reader.unsigned()) < len(_PREFIXED_OPERAND_COUNTS):
            for _ in range(_PREFIXED_OPERAND_COUNTS[number]):
                reader.unsigned()
            opcode = PREFIX << 8 | number
        case _:
            seen = reader.data[start : start + 2].hex()
            raise WasmFormatError(f"unknown instruction 0x{seen} at byte {start}")
    return opcode, reader.position


def _skip(data: bytes, position: int, integers: int) -> int:
    for _ in range(integers):
        while data[position] > 0x7F:
            position += 1
        position += 1
    return position
