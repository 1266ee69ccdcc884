"""Every assertion of the build fires, on a guest that breaks it and nothing else."""

import pytest

from sandboxes.wasm.build.checks import check_guest, guest_python
from sandboxes.wasm.build.component import Component
from sandboxes.wasm.build.errors import Assertion, GuestAssertionError, GuestBuildError
from sandboxes.wasm.build.flatten import flatten
from sandboxes.wasm.build.image import split
from tests.build import guests

FIVE = guests.FIVE_GLOBALS
SIXTH = "(global (mut i32) (i32.const 0))"
NOT_ALL_MUTABLE = FIVE.replace('"host_mono") (mut i64)', '"host_mono") i64')
NARROW = FIVE.replace('"host_rng") (mut i64) (i64', '"host_rng") (mut i32) (i32')

BROKEN_GUESTS = [
    (Assertion.ONLY_IMPORT_IS_MEMORY, guests.code(imports=guests.IMPORT + '(import "env" "f" (func))'), None),
    (Assertion.ONLY_IMPORT_IS_MEMORY, guests.code(imports="(memory 1)"), None),
    (Assertion.ONLY_IMPORT_IS_MEMORY, guests.code(imports='(import "wasi" "memory" (memory 1))'), None),
    (
        Assertion.ONLY_IMPORT_IS_MEMORY,
        guests.code(imports='(import "env" "memory" (func)) (memory 1)'),
        None,
    ),
    (Assertion.ONE_MEMORY, guests.code("(memory 1)"), None),
    (Assertion.ONE_MEMORY, guests.code(imports='(import "env" "memory" (memory i64 1))'), None),
    (Assertion.ONE_MEMORY, None, guests.memory('(memory 1) (data (i32.const 16) "hello")')),
    (Assertion.ONE_MEMORY, None, guests.memory(declared='(import "env" "memory" (memory 1))')),
    (Assertion.ONE_MEMORY, None, guests.memory(declared="(memory 1)")),
    (Assertion.ONE_MEMORY, None, guests.memory('(func (export "f"))')),
    (Assertion.MEMORY_HAS_NO_MAXIMUM, guests.code(imports='(import "env" "memory" (memory 1 9))'), None),
    (Assertion.MEMORY_HAS_NO_MAXIMUM, None, guests.memory(declared='(memory (export "memory") 1 9)')),
    (Assertion.NO_START_FUNCTION, guests.code("(func $f) (start $f)"), None),
    (Assertion.NO_START_FUNCTION, None, guests.memory("(func $f) (start $f)")),
    (Assertion.KNOWN_EXPORTS, guests.code('(func (export "run"))'), None),
    (Assertion.KNOWN_EXPORTS, guests.code('(table (export "table") 1 funcref)'), None),
    (Assertion.KNOWN_EXPORTS, guests.code(functions=guests.FIVE_FUNCTIONS.replace('"call"', '"caII"')), None),
    (Assertion.KNOWN_GLOBALS, guests.code(SIXTH), None),
    (Assertion.KNOWN_GLOBALS, guests.code(globals_=NOT_ALL_MUTABLE), None),
    (Assertion.KNOWN_GLOBALS, guests.code(globals_=NARROW), None),
    (
        Assertion.KNOWN_GLOBALS,
        guests.code(
            globals_=FIVE.replace('(export "host_mono")', '(export "host_mono") (export "host_rng")').replace(
                '(global (export "host_rng") (mut i64) (i64.const 0))', ""
            )
        ),
        None,
    ),
    (Assertion.NO_TABLE_INSTRUCTIONS, guests.code("(func (table.set (i32.const 0) (ref.null func)))"), None),
    (Assertion.NO_TABLE_INSTRUCTIONS, guests.code("(func (drop (table.get (i32.const 0))))"), None),
    (
        Assertion.NO_TABLE_INSTRUCTIONS,
        guests.code("(func (drop (table.grow (ref.null func) (i32.const 1))))"),
        None,
    ),
    (
        Assertion.NO_TABLE_INSTRUCTIONS,
        guests.code("(func (table.fill (i32.const 0) (ref.null func) (i32.const 1)))"),
        None,
    ),
    (
        Assertion.NO_TABLE_INSTRUCTIONS,
        guests.code("(func (table.copy (i32.const 0) (i32.const 0) (i32.const 1)))"),
        None,
    ),
    (
        Assertion.NO_TABLE_INSTRUCTIONS,
        guests.code("(elem $e func) (func (table.init $e (i32.const 0) (i32.const 0) (i32.const 0)))"),
        None,
    ),
    (Assertion.NO_TABLE_INSTRUCTIONS, guests.code("(elem $e func) (func (elem.drop $e))"), None),
    (Assertion.NO_TABLE_INSTRUCTIONS, guests.code("(func (drop (v128.const i64x2 0 0)))"), None),
    (Assertion.DATA_SEGMENTS_ARE_CONSTANT, None, guests.memory('(data "passive")')),
    (
        Assertion.DATA_SEGMENTS_ARE_CONSTANT,
        None,
        guests.memory('(global $g i32 (i32.const 16)) (data (global.get $g) "moved")'),
    ),
    (Assertion.BASE_IMAGE_FITS, None, guests.memory('(data (i32.const 65532) "hello")')),
    (Assertion.BASE_IMAGE_FITS, None, guests.memory('(data (i32.const -1) "hello")')),
    (Assertion.BASE_IMAGE_FITS, guests.code(imports='(import "env" "memory" (memory 2))'), None),
    (Assertion.BASE_IMAGE_FITS, guests.code(imports='(import "env" "memory" (memory 0))'), None),
]

BROKEN_MERGED = [
    (Assertion.ONLY_IMPORT_IS_MEMORY, '(import "wasi" "exit" (func)) (memory 1)'),
    (Assertion.ONE_MEMORY, "(memory 1) (memory 1)"),
    (Assertion.ONE_MEMORY, ""),
    (Assertion.MEMORY_HAS_NO_MAXIMUM, "(memory 1 2)"),
    (Assertion.NO_START_FUNCTION, "(memory 1) (func $f) (start $f)"),
    (Assertion.DATA_SEGMENTS_ARE_CONSTANT, '(memory 1) (data "passive")'),
    (Assertion.BASE_IMAGE_FITS, '(memory 1) (data (i32.const 65535) "xy")'),
]

AGAIN = "(core module $m) (core instance (instantiate $m)) (core instance (instantiate $m))"
BROKEN_COMPONENTS = [
    (Assertion.EVERY_MODULE_INSTANTIATED_ONCE, guests.component(AGAIN)),
    (Assertion.EVERY_MODULE_INSTANTIATED_ONCE, guests.component("(core module)")),
    (Assertion.EVERY_WASI_CALL_IS_STUBBED, guests.component('(import "host" (func))')),
    (
        Assertion.EVERY_WASI_CALL_IS_STUBBED,
        guests.component("(type $r (resource (rep i32))) (core func (canon resource.new $r))"),
    ),
    (Assertion.EVERY_OVERRIDE_FOUND, guests.component(preopens="")),
    (Assertion.EVERY_OVERRIDE_FOUND, guests.component(libc_realloc="")),
    (Assertion.KNOWN_EXPORTS, guests.component(lifted=("load",))),
    (
        Assertion.KNOWN_EXPORTS,
        guests.component(signature='(param "a" u32) (param "b" u32) (result u32)', options=""),
    ),
]


def test_a_sound_guest_passes() -> None:
    check_guest(guests.code(), guests.memory())


@pytest.mark.parametrize(("assertion", "code", "memory"), BROKEN_GUESTS)
def test_a_broken_guest_is_refused(assertion: Assertion, code: bytes | None, memory: bytes | None) -> None:
    with pytest.raises(GuestAssertionError, match=f"assertion {assertion} failed: .*docs/building.md") as caught:
        check_guest(code or guests.code(), memory or guests.memory())
    assert caught.value.assertion is assertion


def test_invalid_modules_are_refused() -> None:
    ends_without_a_value = guests.code("(func (result i32) (i32.const 0))").replace(
        b"\x04\x00\x41\x00\x0b", b"\x04\x00\x01\x01\x0b"
    )
    with pytest.raises(GuestAssertionError, match="modules-are-valid"):
        check_guest(ends_without_a_value, guests.memory())


@pytest.mark.parametrize(("assertion", "module"), BROKEN_MERGED)
def test_a_merged_module_that_cannot_be_split_is_refused(assertion: Assertion, module: str) -> None:
    with pytest.raises(GuestAssertionError) as caught:
        split(guests.wasm(f"(module {module})"))
    assert caught.value.assertion is assertion


@pytest.mark.parametrize(("assertion", "component"), BROKEN_COMPONENTS)
def test_a_component_of_another_layout_is_refused(assertion: Assertion, component: bytes) -> None:
    with pytest.raises(GuestAssertionError) as caught:
        flatten(Component.parse(component), guests.wasm(guests.SHIM))
    assert caught.value.assertion is assertion


def test_a_shim_that_asks_for_more_is_refused() -> None:
    shim = guests.wasm('(module (import "env" "exit" (func)))')
    with pytest.raises(GuestBuildError, match=r"shim.wat imports 'exit'"):
        flatten(Component.parse(guests.component()), shim)


def test_the_guests_python_is_read_from_its_memory() -> None:
    version = b"3.14.0 (main, Sep 11 2026, 23:47:35) [Clang 22.1.0]"
    assert guest_python(b"\0" + version + b"\0 and again " + version) == "3.14.0"


@pytest.mark.parametrize("image", [b"nothing", b"3.14.0 (main) [Clang 1] \0 3.15.1rc1 (main) [Clang 1]"])
def test_an_unclear_python_is_refused(image: bytes) -> None:
    with pytest.raises(GuestAssertionError, match="guest-python-is-known"):
        guest_python(image)


def test_no_assertion_is_left_untested() -> None:
    tables = (BROKEN_GUESTS, BROKEN_MERGED, BROKEN_COMPONENTS)
    fired = {row[0] for table in tables for row in table}
    assert fired | {
        Assertion.MODULES_ARE_VALID,
        Assertion.GUEST_PYTHON_IS_KNOWN,
        Assertion.LASTING_OBJECTS_ARE_KNOWN,
    } == set(Assertion)
