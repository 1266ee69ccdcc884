"""Dividing a module in code and memory changes nothing that the two do together."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmtime import Engine, Func, Instance, Memory, Module, Store

from sandboxes.wasm.build.binary import Reader
from sandboxes.wasm.build.errors import WasmFormatError
from sandboxes.wasm.build.image import split, without_custom_sections
from sandboxes.wasm.build.module import Module as Parsed
from sandboxes.wasm.encode import GRAIN, PAGE, encode_signed, encode_unsigned, memory_module
from tests.build.guests import wasm

ENGINE = Engine()
MERGED = """
(module
  (memory 2)
  (table 1 funcref)
  (global $ignored (mut i64) (i64.const 5))
  (data (i32.const 70000) "later")
  (data (i32.const 8) "first")
  (data (i32.const 9) "I")
  (func (export "guest:load") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "load") (result i32) (i32.const 1))
  (func $named (export "other")))
"""


def memory_of(store: Store, image: bytes) -> Memory:
    exported = Instance(store, Module(ENGINE, memory_module(image)), []).exports(store)["memory"]
    assert isinstance(exported, Memory)
    return exported


def test_code_and_memory_work_together() -> None:
    halves = split(wasm(MERGED))
    store = Store(ENGINE)
    memory = memory_of(store, halves.image)
    exports = Instance(store, Module(ENGINE, halves.code), [memory]).exports(store)
    assert list(exports) == ["load"]
    load = exports["load"]
    assert isinstance(load, Func)
    assert bytes(load(store, address) for address in range(8, 13)) == b"fIrst"
    assert bytes(load(store, address) for address in range(70000, 70005)) == b"later"


def test_the_imported_memory_has_a_minimum_and_no_maximum() -> None:
    (imported,) = Module(ENGINE, split(wasm(MERGED)).code).imports
    assert (imported.module, imported.name) == ("env", "memory")
    assert imported.type.limits.min == 2  # type: ignore[union-attr]
    assert imported.type.limits.max is None  # type: ignore[union-attr]


def test_names_are_left_out() -> None:
    code = split(wasm(MERGED)).code
    assert b"named" not in code
    assert b"named" not in without_custom_sections(wasm(MERGED))
    assert Parsed.parse(without_custom_sections(wasm(MERGED))).exports == Parsed.parse(wasm(MERGED)).exports


PIECES = st.lists(st.tuples(st.integers(0, 3 * PAGE - 1), st.binary(min_size=1, max_size=3 * GRAIN)), max_size=8)


@settings(max_examples=50, deadline=None)
@given(PIECES)
def test_a_memory_module_holds_the_image(pieces: list[tuple[int, bytes]]) -> None:
    image = bytearray(3 * PAGE)
    for start, content in pieces:
        image[start : start + len(content)] = content
    image = image[: 3 * PAGE]
    store = Store(ENGINE)
    memory = memory_of(store, bytes(image))
    assert bytes(memory.read(store)) == image


def test_zeros_take_no_room() -> None:
    assert len(memory_module(bytes(100 * PAGE))) < 50
    assert len(memory_module(b"\1" + bytes(100 * PAGE - 1))) < GRAIN + 50


@given(st.integers(0, 2**64 - 1))
def test_unsigned_numbers_come_back(value: int) -> None:
    assert Reader(encode_unsigned(value)).unsigned() == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_come_back(value: int) -> None:
    assert Reader(encode_signed(value)).signed() == value


@given(st.data())
def test_a_cut_module_is_refused_or_shorter(data: st.DataObject) -> None:
    whole = wasm(MERGED)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        parsed = Parsed.parse(cut)
    except WasmFormatError:
        return
    assert len(parsed.sections) < len(Parsed.parse(whole).sections)


def test_a_component_is_no_module() -> None:
    with pytest.raises(WasmFormatError, match="not the expected kind"):
        Parsed.parse(wasm("(component)"))
