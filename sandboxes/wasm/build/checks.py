"""Check the finished guest; every build ends with `check_guest`."""

import re
from collections.abc import Iterable

import wasmtime

from ..encode import PAGE
from .errors import Assertion, GuestAssertionError, WasmFormatError, require
from .instructions import TABLE_INSTRUCTIONS, opcodes_used
from .module import Kind, Module, ValueType

GUEST_FUNCTIONS = ("load", "call", "cabi_realloc", "cabi_post_load", "cabi_post_call")
GUEST_GLOBALS = {
    "__stack_pointer": ValueType.I32,
    "host_wall_s": ValueType.I64,
    "host_wall_ns": ValueType.I32,
    "host_mono": ValueType.I64,
    "host_rng": ValueType.I64,
}
MEMORY_IMPORT = ("env", "memory")
MEMORY_EXPORT = "memory"

_PYTHON_VERSION = re.compile(rb"(3\.\d+\.\d+(?:(?:a|b|rc)\d+)?\+?) \([^\x00]{1,100}\) \[Clang ")


def check_guest(code: bytes, memory: bytes) -> None:
    """Raise GuestAssertionError, which names the first assertion that `code.wasm` and `memory.wasm` break."""
    code_module, memory_module = Module.parse(code), Module.parse(memory)
    check_imports(code_module)
    check_one_memory(code_module)
    check_no_start(code_module)
    check_exports(code_module)
    check_globals(code_module)
    check_instructions(code)
    check_one_memory(memory_module)
    check_no_start(memory_module)
    check_segments(memory_module)
    check_pair(code_module, memory_module)
    check_valid(code, memory)


def check_imports(code: Module) -> None:
    found = [(item.module, item.name) for item in code.imports]
    kinds = [item.kind for item in code.imports]
    require(
        found == [MEMORY_IMPORT] and kinds == [Kind.MEMORY],
        Assertion.ONLY_IMPORT_IS_MEMORY,
        f"the imports are {_listed('.'.join(names) for names in found)}",
    )


def check_one_memory(module: Module) -> None:
    """Require exactly one memory, of the plain kind, without a maximum: the host decides how far it may grow."""
    require(len(module.memories) == 1, Assertion.ONE_MEMORY, f"there are {len(module.memories)} memories")
    limits = module.memories[0]
    require(limits.flags & ~1 == 0, Assertion.ONE_MEMORY, f"the memory has flags {limits.flags}")
    require(limits.maximum is None, Assertion.MEMORY_HAS_NO_MAXIMUM, f"the maximum is {limits.maximum} pages")


def check_no_start(module: Module) -> None:
    require(not module.has_start, Assertion.NO_START_FUNCTION, "it would run at every instantiation")


def check_exports(code: Module) -> None:
    expected = dict.fromkeys(GUEST_FUNCTIONS, Kind.FUNCTION) | dict.fromkeys(GUEST_GLOBALS, Kind.GLOBAL)
    found = {export.name: export.kind for export in code.exports}
    odd = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    require(not odd, Assertion.KNOWN_EXPORTS, f"missing, unexpected or of another kind: {_listed(odd)}")


def check_globals(code: Module) -> None:
    mutable = {index: item.type for index, item in enumerate(code.globals) if item.mutable}
    known = {
        export.number: GUEST_GLOBALS[export.name]
        for export in code.exports
        if export.kind is Kind.GLOBAL and export.name in GUEST_GLOBALS
    }
    require(
        mutable == known and len(known) == len(GUEST_GLOBALS),
        Assertion.KNOWN_GLOBALS,
        f"{len(mutable)} mutable globals (index: type) {mutable}, exported under the known names: {known}",
    )


def check_instructions(code: bytes) -> None:
    try:
        used = opcodes_used(code)
    except WasmFormatError as error:
        raise GuestAssertionError(Assertion.NO_TABLE_INSTRUCTIONS, f"unreadable: {error}") from None
    names = [name for opcode, name in TABLE_INSTRUCTIONS.items() if opcode in used]
    require(not names, Assertion.NO_TABLE_INSTRUCTIONS, f"the code uses {_listed(names)}")


def check_segments(module: Module) -> None:
    """Require that instantiation alone places the data, all of it inside the memory's initial size."""
    limit = module.memories[0].minimum * PAGE
    for number, segment in enumerate(module.segments):
        require(
            segment.offset is not None,
            Assertion.DATA_SEGMENTS_ARE_CONSTANT,
            f"data segment {number} is passive or its offset is computed",
        )
        end = (segment.offset or 0) + segment.size
        require(
            end <= limit,
            Assertion.BASE_IMAGE_FITS,
            f"data segment {number} ends at byte {end} of a memory of {limit}",
        )


def check_pair(code: Module, memory: Module) -> None:
    """Require that the code imports the memory that the other module exports."""
    offered, wanted = memory.memories[0], code.memories[0]
    export = memory.exported(MEMORY_EXPORT)
    require(
        not memory.imports and export is not None and export.kind is Kind.MEMORY and len(memory.exports) == 1,
        Assertion.ONE_MEMORY,
        f"the memory module must import nothing and export {MEMORY_EXPORT!r} alone",
    )
    require(
        0 < wanted.minimum == offered.minimum,
        Assertion.BASE_IMAGE_FITS,
        f"the code asks for {wanted.minimum} pages, the image has {offered.minimum}",
    )


def check_valid(code: bytes, memory: bytes) -> None:
    engine = wasmtime.Engine()
    for name, data in (("code.wasm", code), ("memory.wasm", memory)):
        try:
            wasmtime.Module.validate(engine, data)
        except wasmtime.WasmtimeError as error:
            raise GuestAssertionError(Assertion.MODULES_ARE_VALID, f"{name}: {error}") from None


def guest_python(image: bytes) -> str:
    """Return the guest's Python version, from `sys.version` in its memory."""
    found = sorted({match[1].decode() for match in _PYTHON_VERSION.finditer(image)})
    require(len(found) == 1, Assertion.GUEST_PYTHON_IS_KNOWN, f"its memory holds the versions {_listed(found)}")
    return found[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
