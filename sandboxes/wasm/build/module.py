"""The parts of a core module that the build rewrites or checks."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ..encode import PREAMBLE
from .binary import Reader, Section, sections
from .errors import WasmFormatError


class SectionId(IntEnum):
    CUSTOM = 0
    IMPORT = 2
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    START = 8
    CODE = 10
    DATA = 11
    DATA_COUNT = 12


class Kind(IntEnum):
    """What an import or export is."""

    FUNCTION = 0
    TABLE = 1
    MEMORY = 2
    GLOBAL = 3
    TAG = 4


TYPED_REFERENCES = (0x63, 0x64)
"""(ref …) and (ref null …): a heap type follows."""


class ValueType(IntEnum):
    I32 = 0x7F
    I64 = 0x7E


class TableLimits(NamedTuple):
    """The size of a memory or table; `flags` 0 and 1 are the plain kinds, others are shared or 64-bit."""

    flags: int
    minimum: int
    maximum: int | None


class Global(NamedTuple):
    type: int
    mutable: bool


class Import(NamedTuple):
    module: str
    name: str
    kind: Kind
    type: TableLimits | Global | None
    """For memories, tables and globals."""
    description: bytes
    """The kind and type as they stand in the file."""


class Export(NamedTuple):
    name: str
    kind: Kind
    number: int
    """In the index space of its kind."""


class DataSegment(NamedTuple):
    """`size` bytes from `start` of the file; `offset` is None unless active with a constant one."""

    offset: int | None
    start: int
    size: int


@dataclass
class Module:
    """A core module, decoded as far as this build needs it; index spaces start with the imports."""

    data: bytes
    sections: list[Section] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    memories: list[TableLimits] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    segments: list[DataSegment] = field(default_factory=list)
    has_start: bool = False

    @classmethod
    def parse(cls, data: bytes) -> "Module":
        """Decode a module. Raises WasmFormatError for unknown content."""
        module = cls(data)
        for part in sections(data, PREAMBLE):
            module.sections.append(part)
            module._read(part)
        return module

    def exported(self, name: str) -> Export | None:
        return next((export for export in self.exports if export.name == name), None)

    def _read(self, part: Section) -> None:
        reader = Reader(self.data, part.start, part.end)
        match part.id:
            case SectionId.IMPORT:
                for _ in range(reader.unsigned()):
                    self._add_import(_import(reader))
            case SectionId.MEMORY:
                self.memories += [_limits(reader) for _ in range(reader.unsigned())]
            case SectionId.GLOBAL:
                self.globals += [_defined_global(reader) for _ in range(reader.unsigned())]
            case SectionId.EXPORT:
                self.exports += [_export(reader) for _ in range(reader.unsigned())]
            case SectionId.START:
                self.has_start = True
            case SectionId.DATA:
                self.segments += [_segment(reader) for _ in range(reader.unsigned())]

    def _add_import(self, item: Import) -> None:
        self.imports.append(item)
        if item.kind is Kind.MEMORY and isinstance(item.type, TableLimits):
            self.memories.append(item.type)
        elif isinstance(item.type, Global):
            self.globals.append(item.type)


def _import(reader: Reader) -> Import:
    module, name = reader.name(), reader.name()
    start = reader.position
    kind = _kind(reader)
    type_: TableLimits | Global | None = None
    match kind:
        case Kind.FUNCTION:
            reader.unsigned()
        case Kind.TABLE:
            value_type(reader)
            type_ = _limits(reader)
        case Kind.MEMORY:
            type_ = _limits(reader)
        case Kind.GLOBAL:
            type_ = _global_type(reader)
        case Kind.TAG:
            reader.byte()
            reader.unsigned()
    return Import(module, name, kind, type_, reader.data[start : reader.position])


def _export(reader: Reader) -> Export:
    return Export(reader.name(), _kind(reader), reader.unsigned())


def _kind(reader: Reader) -> Kind:
    try:
        return Kind(reader.byte())
    except ValueError as error:
        raise WasmFormatError(f"unknown import or export kind: {error}") from None


def _limits(reader: Reader) -> TableLimits:
    flags = reader.byte()
    return TableLimits(flags, reader.unsigned(), reader.unsigned() if flags & 1 else None)


def value_type(reader: Reader) -> int:
    """Return a value type's first byte; steps over the whole type."""
    type_ = reader.byte()
    if type_ in TYPED_REFERENCES:
        reader.signed()
    return type_


def _global_type(reader: Reader) -> Global:
    return Global(value_type(reader), bool(reader.byte()))


def _defined_global(reader: Reader) -> Global:
    type_ = _global_type(reader)
    _constant(reader)
    return type_


def _segment(reader: Reader) -> DataSegment:
    mode = reader.unsigned()
    if mode > 2:
        raise WasmFormatError(f"unknown data segment mode {mode} at byte {reader.position}")
    if mode == 2:
        reader.unsigned()
    offset = None if mode == 1 else _constant(reader)
    size = reader.unsigned()
    return DataSegment(offset, reader.skip(size), size)


def _constant(reader: Reader) -> int | None:
    """A constant expression's value when it is one i32.const, else None."""
    value: int | None = None
    for count in range(reader.end - reader.position):
        opcode = reader.byte()
        match opcode:
            case 0x0B:
                return value if count == 1 else None
            case 0x41:
                value = reader.signed() & 0xFFFFFFFF
                continue
            case 0x42 | 0x23 | 0xD0 | 0xD2:
                reader.signed()
            case 0x43:
                reader.skip(4)
            case 0x44:
                reader.skip(8)
            case 0x6A | 0x6B | 0x6C | 0x7C | 0x7D | 0x7E:
                pass
            case _:
                raise WasmFormatError(f"unknown constant instruction 0x{opcode:02x} before byte {reader.position}")
        value = None
    raise WasmFormatError(f"unexpected end of a constant expression at byte {reader.position}")
