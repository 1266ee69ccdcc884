"""The instruction walker sees every instruction, whatever stands in the operands before it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.wasm.build.errors import WasmFormatError
from sandboxes.wasm.build.instructions import TABLE_INSTRUCTIONS, opcodes_used
from tests.build.guests import wasm

TABLE_GET = 0x25
MODULE = "(module (memory 1) (table 1 funcref) (global $g (mut i32) (i32.const 0)) {})"

KINDS_OF_OPERANDS = [
    ("(drop (i32.const 0x25252525))", {0x41}),
    ("(drop (i64.const -0x2525252525252525))", {0x42}),
    ("(drop (f32.const nan:0x252525))", {0x43}),
    ("(drop (f64.const nan:0x2525252525252))", {0x44}),
    ("(block (br_table 0 0 0 0 (i32.const 37)))", {0x02, 0x0E}),
    ("(loop (br_if 0 (i32.const 0)))", {0x03, 0x0D}),
    ("(block $b (br $b))", {0x0C}),
    ("(drop (if (result i32) (i32.const 1) (then (i32.const 1)) (else (i32.const 2))))", {0x04, 0x05}),
    ("(drop (select (result funcref) (ref.null func) (ref.null func) (i32.const 0)))", {0x1C, 0xD0}),
    ("(drop (select (i32.const 0) (i32.const 0) (i32.const 0)))", {0x1B}),
    ("(drop (block (result (ref null func)) (ref.null func)))", {0x02}),
    ("(drop (ref.is_null (ref.func $f)))", {0xD1, 0xD2}),
    ("(drop (i32.load offset=0x25252525 align=1 (i32.const 0)))", {0x28}),
    ("(i64.store offset=37 (i32.const 37) (i64.const 37))", {0x37}),
    ("(drop (memory.grow (memory.size)))", {0x3F, 0x40}),
    ("(memory.copy (i32.const 0) (i32.const 0) (i32.const 0))", {0xFC0A}),
    ("(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))", {0xFC0B}),
    ("(drop (i32.trunc_sat_f64_s (f64.const 0)))", {0xFC02}),
    ("(drop (i32.extend8_s (i32.const 0)))", {0xC0}),
    ("(call_indirect (type 0) (i32.const 0))", {0x11}),
    ("(return_call $f)", {0x12}),
    ("(return_call_indirect (type 0) (i32.const 0))", {0x13}),
    ("(global.set $g (global.get $g))", {0x23, 0x24}),
    ("(drop (table.size))", {0xFC10}),
    ("(nop) (unreachable)", {0x00, 0x01}),
    ("(return)", {0x0F}),
]


def used(body: str) -> set[int]:
    return opcodes_used(wasm(MODULE.format(f"(func $f (local i32 i64 f32) {body}) (elem declare func $f)")))


@pytest.mark.parametrize(("body", "opcodes"), KINDS_OF_OPERANDS)
def test_operands_are_stepped_over(body: str, opcodes: set[int]) -> None:
    found = used(body)
    assert opcodes <= found
    assert not found & TABLE_INSTRUCTIONS.keys()


@pytest.mark.parametrize(("body", "opcodes"), KINDS_OF_OPERANDS)
def test_what_follows_them_is_seen(body: str, opcodes: set[int]) -> None:
    assert used(f"{body} (drop (table.get (i32.const 0)))") == used(body) | {TABLE_GET, 0x41, 0x1A}


CONSTANTS = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(lambda value: f"i32.const {value}"),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: f"i64.const {value}"),
    st.integers(0, 2**32 - 1).map(lambda offset: f"i32.const 0) (i32.load offset={offset}"),
    st.binary(min_size=8, max_size=8)
    .map(lambda raw: struct.unpack("<d", raw)[0])
    .filter(lambda value: value == value and abs(value) != float("inf"))
    .map(lambda value: f"f64.const {value.hex()}"),
)


@given(st.lists(CONSTANTS, max_size=20), st.booleans(), st.lists(CONSTANTS, max_size=20))
def test_a_table_instruction_is_found_exactly_when_there_is_one(
    before: list[str], there: bool, after: list[str]
) -> None:
    def dropped(constants: list[str]) -> str:
        return " ".join(f"({constant}) (drop)" for constant in constants)

    wanted = "(drop (table.get (i32.const 0)))" if there else ""
    assert (TABLE_GET in used(f"{dropped(before)} {wanted} {dropped(after)}")) is there


@pytest.mark.parametrize("body", ["(drop (v128.const i64x2 37 37))", "(drop (ref.i31 (i32.const 0)))"])
def test_an_unknown_instruction_stops_it(body: str) -> None:
    with pytest.raises(WasmFormatError, match=r"unknown instruction 0xf[bd]"):
        used(body)


BODY = b"\x05\x00\x41\x07\x1a\x0b"  # its size, no locals, i32.const 7, drop, end


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(b"\x05\x00\x41\x07\x1a\x1a", id="no end"),
        pytest.param(b"\x03\x00\x41\x07\x1a\x0b", id="longer than it says"),
        pytest.param(b"\x05\x00\x41\x07\x1a\x41", id="an operand past the end"),
        pytest.param(b"\x05\x00\x44\x07\x1a\x0b", id="a constant past the end"),
    ],
)
def test_a_body_must_end_with_its_end(spoilt: bytes) -> None:
    module = wasm("(module (func (drop (i32.const 7))))")
    assert module.count(BODY) == 1
    with pytest.raises(WasmFormatError):
        opcodes_used(module.replace(BODY, spoilt))
