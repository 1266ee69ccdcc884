"""Read a component as componentize-py writes it: its core modules, their instances, and what it exports of them."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from .binary import COMPONENT_PREAMBLE, Reader, Section, sections
from .errors import Assertion, WasmFormatError, require

_CORE_SORTS = {0x00: "func", 0x01: "table", 0x02: "memory", 0x03: "global"}
_CORE_INSTANCE = 0x12
_COMPONENT_SORTS = range(1, 6)
_STRING_ENCODINGS = range(3)
_LIFT = 0
_FROM_INSTANCE, _FROM_CORE_INSTANCE, _FROM_OUTSIDE = range(3)
LIFT_OPTIONS = {3: ("memory", "memory"), 4: ("realloc", "func"), 5: ("post-return", "func")}
"""The canonical options that refer to something: code to (name, sort)."""


class ComponentSection(IntEnum):
    MODULE = 1
    CORE_INSTANCE = 2
    ALIAS = 6
    CANON = 8
    IMPORT = 10


class CoreExport(NamedTuple):
    """Something that an instantiated module exports."""

    module: int
    name: str


@dataclass(frozen=True)
class Instantiation:
    """A module that is instantiated; `arguments` names the instance for each imported module name."""

    module: int
    arguments: dict[str, int]


@dataclass(frozen=True)
class Bundle:
    """An instance that only gathers other instances' exports: name to (sort, index)."""

    exports: dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Lift:
    """A core function that the component exports; options by name, of `LIFT_OPTIONS`."""

    function: CoreExport
    options: dict[str, CoreExport]


@dataclass
class Component:
    modules: list[bytes] = field(default_factory=list)
    instances: list[Instantiation | Bundle] = field(default_factory=list)
    lifts: list[Lift] = field(default_factory=list)
    _aliases: dict[str, list[tuple[int, str]]] = field(
        default_factory=lambda: {sort: [] for sort in _CORE_SORTS.values()}
    )

    @classmethod
    def parse(cls, data: bytes) -> "Component":
        """Decode a component. Raises WasmFormatError for unknown content, GuestAssertionError if it needs a host."""
        component = cls()
        for part in sections(data, COMPONENT_PREAMBLE):
            component._read(data, part)
        return component

    def resolve(self, instance: int, name: str) -> CoreExport:
        """Return the module whose export `name` of `instance` really is."""
        target = self.instances[instance]
        if isinstance(target, Instantiation):
            return CoreExport(target.module, name)
        sort, index = target.exports[name]
        return self._resolve_alias(sort, index)

    def instantiations(self) -> list[Instantiation]:
        """Return the instantiations in order; raises GuestAssertionError unless each module occurs exactly once."""
        made = [instance for instance in self.instances if isinstance(instance, Instantiation)]
        modules = [instance.module for instance in made]
        twice = sorted({module for module in modules if modules.count(module) > 1})
        require(
            not twice and len(made) == len(self.modules),
            Assertion.EVERY_MODULE_INSTANTIATED_ONCE,
            f"{len(self.modules)} modules, {len(made)} instantiations, more than once: {twice or 'none'}",
        )
        return made

    def _resolve_alias(self, sort: str, index: int) -> CoreExport:
        return self.resolve(*self._aliases[sort][index])

    def _read(self, data: bytes, part: Section) -> None:
        reader = Reader(data, part.start, part.end)
        match part.id:
            case ComponentSection.MODULE:
                self.modules.append(data[part.start : part.end])
            case ComponentSection.CORE_INSTANCE:
                for _ in range(reader.unsigned()):
                    self.instances.append(_instantiation(reader) if reader.byte() == 0 else _bundle(reader))
            case ComponentSection.ALIAS:
                for _ in range(reader.unsigned()):
                    self._alias(reader)
            case ComponentSection.CANON:
                for _ in range(reader.unsigned()):
                    self._canon(reader)
            case ComponentSection.IMPORT:
                count = reader.unsigned()
                require(not count, Assertion.EVERY_WASI_CALL_IS_STUBBED, f"the component has {count} imports")

    def _alias(self, reader: Reader) -> None:
        core = _core_sort(reader)
        kind = reader.byte()
        first = reader.unsigned()
        if core and kind == _FROM_CORE_INSTANCE:
            self._aliases[core].append((first, reader.name()))
        elif not core and kind == _FROM_INSTANCE:
            reader.name()
        elif not core and kind == _FROM_OUTSIDE:
            reader.unsigned()
        else:
            raise WasmFormatError(f"unknown alias of kind {kind} before byte {reader.position}")

    def _canon(self, reader: Reader) -> None:
        kind = reader.byte()
        require(
            kind == _LIFT,
            Assertion.EVERY_WASI_CALL_IS_STUBBED,
            f"the component takes a core function from canon 0x{kind:02x}, which only a host can supply",
        )
        reader.byte()
        function = self._resolve_alias("func", reader.unsigned())
        options = {
            name: self._resolve_alias(sort, index)
            for code, index in _options(reader).items()
            for name, sort in (LIFT_OPTIONS[code],)
        }
        reader.unsigned()
        self.lifts.append(Lift(function, options))


def _core_sort(reader: Reader) -> str:
    """A core sort's name, or the empty string for one of the component's own sorts."""
    sort = reader.byte()
    if sort == 0 and (core := reader.byte()) in _CORE_SORTS:
        return _CORE_SORTS[core]
    if sort in _COMPONENT_SORTS:
        return ""
    raise WasmFormatError(f"unknown sort before byte {reader.position}")


def _instantiation(reader: Reader) -> Instantiation:
    module = reader.unsigned()
    arguments = {}
    for _ in range(reader.unsigned()):
        name = reader.name()
        if reader.byte() != _CORE_INSTANCE:
            raise WasmFormatError(f"a core module is given something other than an instance for {name!r}")
        arguments[name] = reader.unsigned()
    return Instantiation(module, arguments)


def _bundle(reader: Reader) -> Bundle:
    exports = {}
    for _ in range(reader.unsigned()):
        name = reader.name()
        sort = _CORE_SORTS.get(reader.byte())
        if sort is None:
            raise WasmFormatError(f"unknown sort of the core export {name!r}")
        exports[name] = (sort, reader.unsigned())
    return Bundle(exports)


def _options(reader: Reader) -> dict[int, int]:
    """The options in LIFT_OPTIONS, code to index."""
    options = {}
    for _ in range(reader.unsigned()):
        code = reader.byte()
        if code in LIFT_OPTIONS:
            options[code] = reader.unsigned()
        elif code not in _STRING_ENCODINGS:
            raise WasmFormatError(f"unknown canonical option {code} before byte {reader.position}")
    return options
