"""Linear memory as a wasm module, so that wasmtime can map it copy-on-write into as many instances as are wanted."""

from __future__ import annotations

import os
import sys

from wasmtime import Engine as WasmtimeEngine
from wasmtime import Module

PAGE = 4096
WASM_PAGE = 65536


def memory_module(memory: bytes) -> bytes:
    """
    A wasm module that exports nothing but a memory with this content; runs of zero pages take no room.

    Source of the encoding: WebAssembly Core Specification 2.0, chapter 5.5.
    """
    runs = _filled(memory)
    data = [_unsigned(len(runs))]
    for start, end in runs:
        data += [b"\x00\x41", _signed(start), b"\x0b", _unsigned(end - start), memory[start:end]]
    return b"".join(
        (
            b"\0asm\x01\0\0\0",
            _section(5, b"\x01\x00" + _unsigned(len(memory) // WASM_PAGE)),
            _section(7, b"\x01\x06memory\x02\x00"),
            _section(11, b"".join(data)),
        )
    )


def _filled(memory: bytes) -> list[tuple[int, int]]:
    zero = bytes(PAGE)
    runs: list[tuple[int, int]] = []
    for start in range(0, len(memory), PAGE):
        if memory[start : start + PAGE] != zero:
            if runs and runs[-1][1] == start:
                runs[-1] = (runs[-1][0], start + PAGE)
            else:
                runs.append((start, start + PAGE))
    return runs


def _section(number: int, body: bytes) -> bytes:
    return bytes((number,)) + _unsigned(len(body)) + body


def _unsigned(n: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _signed(n: int) -> bytes:
    """LEB128 of a number that is not negative, as i32.const wants it."""
    out = bytearray()
    while n > 0x3F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def map_image(engine: WasmtimeEngine, memory: bytes) -> Module:
    """
    The module of `memory`, backed by a nameless file where the platform has such, so that its pages are shared
    between instances and can be told from written ones.
    """
    module = Module(engine, memory_module(memory))
    if not sys.platform.startswith("linux"):
        return module
    fd = os.memfd_create("evalcell-image", os.MFD_CLOEXEC)
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(module.serialize())
        return Module.deserialize_file(engine, f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
