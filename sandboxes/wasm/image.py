"""Linear memory as a wasm module, so that wasmtime can map it copy-on-write into as many instances as are wanted."""

from __future__ import annotations

import os
import sys

from wasmtime import Engine as WasmtimeEngine
from wasmtime import Module

from sandboxes.wasm.encode import memory_module


def map_image(engine: WasmtimeEngine, memory: bytes | memoryview) -> Module:
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
