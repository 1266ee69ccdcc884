"""
Turn a component into core modules that wasm-merge can link.

A component instantiates its modules with one another's exports by position and alias; here every module is named
`m<number>`, and its imports name the module whose export is really meant. The shim answers what the guest would ask of
WASI. A front module gives the exports that the host needs unique names.
"""

from collections.abc import Callable
from typing import NamedTuple

import wasmtime

from .. import encode
from .checks import GUEST_GLOBALS
from .component import LIFT_OPTIONS, Component, CoreExport, Instantiation, Lift
from .errors import Assertion, GuestBuildError, require
from .module import Import, Module, SectionId, ValueType

SHIM = "shim"
FRONT = "front"
FRONT_PREFIX = "guest:"

OVERRIDES = {
    ("wasi:clocks/wall-clock", "now"): "wall_now",
    ("wasi:clocks/wall-clock", "resolution"): "wall_resolution",
    ("wasi:clocks/monotonic-clock", "now"): "mono_now",
    ("wasi:clocks/monotonic-clock", "resolution"): "mono_resolution",
    ("wasi:random/random", "get-random-bytes"): "random_bytes",
    ("wasi:filesystem/preopens", "get-directories"): "preopens",
}
"""WASI functions (interface without version, name) that the shim answers, and the shim's name for each."""

_ENTRY_POINTS = ("load", "call")
_STACK_POINTER = "__stack_pointer"
_REALLOC = "cabi_realloc"
_WAT_TYPES = {ValueType.I32: "i32", ValueType.I64: "i64"}
_Renaming = Callable[[Import], tuple[str, str]]


class NamedModule(NamedTuple):
    """One input of wasm-merge."""

    name: str
    data: bytes


def flatten(component: Component, shim: bytes) -> list[NamedModule]:
    """
    Return the modules to merge, in the order they are instantiated, the shim and the front last.

    `shim` exports a function for each of `OVERRIDES`, and the globals of `GUEST_GLOBALS`; it may import `memory` and
    `cabi_realloc`, from a module of any name.

    Raises:
        GuestAssertionError: When the component has another layout.
        GuestBuildError: When the shim asks for more.
    """
    instantiations = component.instantiations()
    callers = _callers(component, instantiations)
    lifts = _entry_lifts(component)
    memory = lifts["load"].options["memory"]
    libc = _libc(component, callers - {memory.module})
    return [
        *(NamedModule(_module_name(made.module), _link(component, made)) for made in instantiations),
        NamedModule(SHIM, _link_shim(shim, {memory.name: memory, _REALLOC: CoreExport(libc, _REALLOC)})),
        NamedModule(FRONT, bytes(wasmtime.wat2wasm(_front(lifts, memory.module)))),
    ]


def _callers(component: Component, instantiations: list[Instantiation]) -> set[int]:
    """The modules that call what the shim overrides; every override must have one."""
    callers: set[int] = set()
    found: set[tuple[str, str]] = set()
    for made in instantiations:
        wanted = {_wasi_name(item) for item in Module.parse(component.modules[made.module]).imports}
        if hits := wanted & OVERRIDES.keys():
            callers.add(made.module)
            found |= hits
    missing = ", ".join(sorted(f"{interface}.{name}" for interface, name in OVERRIDES.keys() - found))
    require(not missing, Assertion.EVERY_OVERRIDE_FOUND, f"nothing in the component imports {missing}")
    return callers


def _libc(component: Component, callers: set[int]) -> int:
    """
    The module whose realloc the shim must use: it calls the shim, and frees what it gets from it.

    `callers` without the module that owns the memory, which only forwards the calls.
    """
    able = [each for each in sorted(callers) if Module.parse(component.modules[each]).exported(_REALLOC)]
    require(
        len(able) == 1,
        Assertion.EVERY_OVERRIDE_FOUND,
        f"one module should both call what the shim overrides and export {_REALLOC}, found {able or 'none'}",
    )
    return able[0]


def _entry_lifts(component: Component) -> dict[str, Lift]:
    lifts = {lift.function.name: lift for lift in component.lifts}
    for name in _ENTRY_POINTS:
        options = lifts[name].options if name in lifts else {}
        require(
            len(options) == len(LIFT_OPTIONS),
            Assertion.KNOWN_EXPORTS,
            f"{name} should be lifted with memory, realloc and post-return, as string to string is; "
            f"found {', '.join(options) or 'none'}",
        )
    return {name: lifts[name] for name in _ENTRY_POINTS}


def _link(component: Component, made: Instantiation) -> bytes:
    def target(item: Import) -> tuple[str, str]:
        if override := OVERRIDES.get(_wasi_name(item)):
            return SHIM, override
        return _target(component.resolve(made.arguments[item.module], item.name))

    return _with_imports(component.modules[made.module], target)


def _link_shim(shim: bytes, sources: dict[str, CoreExport]) -> bytes:
    def target(item: Import) -> tuple[str, str]:
        if item.name not in sources:
            raise GuestBuildError(f"shim.wat imports {item.name!r}: it may import {' and '.join(sources)} only")
        return _target(sources[item.name])

    return _with_imports(shim, target)


def _wasi_name(item: Import) -> tuple[str, str]:
    return item.module.partition("@")[0], item.name


def _module_name(module: int) -> str:
    return f"m{module}"


def _target(export: CoreExport) -> tuple[str, str]:
    return _module_name(export.module), export.name


def _with_imports(data: bytes, renamed: _Renaming) -> bytes:
    module = Module.parse(data)
    entries = [
        encode.name(source) + encode.name(name) + item.description
        for item in module.imports
        for source, name in (renamed(item),)
    ]
    out = [encode.PREAMBLE]
    for part in module.sections:
        content = [data[part.start : part.end]]
        if part.id == SectionId.IMPORT:
            content = [encode.encode_unsigned(len(entries)), *entries]
        out.append(encode.section(part.id, *content))
    return b"".join(out)


def _front(lifts: dict[str, Lift], main: int) -> str:
    """A module in text form that only re-exports, so that wasm-merge checks the types that the host relies on."""
    lines = []
    for name, lift in lifts.items():
        lines.append(_reexport(*_target(lift.function), name, "func", "(param i32 i32) (result i32)"))
        post_return = _target(lift.options["post-return"])
        lines.append(_reexport(*post_return, f"cabi_post_{name}", "func", "(param i32)"))
    realloc = _target(lifts["load"].options["realloc"])
    lines.append(_reexport(*realloc, _REALLOC, "func", "(param i32 i32 i32 i32) (result i32)"))
    for name, value_type in GUEST_GLOBALS.items():
        source = _module_name(main) if name == _STACK_POINTER else SHIM
        lines.append(_reexport(source, name, name, "global", f"(mut {_WAT_TYPES[value_type]})"))
    return f"(module {' '.join(lines)})"


def _reexport(module: str, export: str, name: str, sort: str, type_: str) -> str:
    return f'({sort} (export "{FRONT_PREFIX}{name}") (import "{module}" "{export}") {type_})'
