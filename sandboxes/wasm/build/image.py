"""Divide the merged guest in two: code that imports its memory, and that memory's initial content."""

from dataclasses import dataclass

from .. import encode
from .checks import MEMORY_IMPORT, check_no_start, check_one_memory, check_segments
from .errors import Assertion, require
from .flatten import FRONT_PREFIX
from .module import Export, Kind, Module, SectionId

_MOVED = {SectionId.MEMORY, SectionId.DATA, SectionId.DATA_COUNT, SectionId.CUSTOM}


@dataclass(frozen=True)
class Halves:
    """`code` still needs optimising; `image` is the memory's whole initial content."""

    code: bytes
    image: bytes


def split(merged: bytes) -> Halves:
    """Divide a module. Raises GuestAssertionError if it would behave differently without its own memory."""
    module = Module.parse(merged)
    left = ", ".join(f"{item.module}.{item.name}" for item in module.imports[:5])
    require(not left, Assertion.ONLY_IMPORT_IS_MEMORY, f"imports are left after merging: {left}")
    check_one_memory(module)
    check_no_start(module)
    check_segments(module)
    return Halves(_code(module), _image(module))


def _image(module: Module) -> bytes:
    image = bytearray(module.memories[0].minimum * encode.PAGE)
    for segment in module.segments:
        if segment.offset is not None:
            content = module.data[segment.start : segment.start + segment.size]
            image[segment.offset : segment.offset + segment.size] = content
    return bytes(image)


def _code(module: Module) -> bytes:
    out = [encode.PREAMBLE]
    imported = False
    for part in module.sections:
        if part.id in _MOVED:
            continue
        if part.id > SectionId.IMPORT and not imported:
            out.append(_memory_import(module.memories[0].minimum))
            imported = True
        exports = part.id == SectionId.EXPORT
        content = _front_exports(module) if exports else module.data[part.start : part.end]
        out.append(encode.section(part.id, content))
    return b"".join(out)


def _memory_import(pages: int) -> bytes:
    return encode.section(
        SectionId.IMPORT,
        encode.encode_unsigned(1),
        *map(encode.name, MEMORY_IMPORT),
        bytes([Kind.MEMORY, 0]),
        encode.encode_unsigned(pages),
    )


def _front_exports(module: Module) -> bytes:
    kept = [export for export in module.exports if export.name.startswith(FRONT_PREFIX)]
    return _exports([export._replace(name=export.name.removeprefix(FRONT_PREFIX)) for export in kept])


def _exports(exports: list[Export]) -> bytes:
    entries = [encode.name(name) + bytes([kind]) + encode.encode_unsigned(index) for name, kind, index in exports]
    return encode.encode_unsigned(len(entries)) + b"".join(entries)


def without_custom_sections(data: bytes) -> bytes:
    """Return the same module without names and other annotations, which no host needs."""
    kept = [part for part in Module.parse(data).sections if part.id != SectionId.CUSTOM]
    return encode.PREAMBLE + b"".join(encode.section(part.id, data[part.start : part.end]) for part in kept)
