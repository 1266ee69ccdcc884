"""A loaded script's memory as a module, mapped copy-on-write into as many instances as are wanted."""

from __future__ import annotations

import os
import sys

from wasmtime import Engine, Module, WasmtimeError

from sandboxes.errors import SandboxError


def mapped(engine: Engine, wasm: bytes) -> Module:
    """
    The module, backed by a nameless file where the platform has such, so that its pages are shared between instances
    and can be told from written ones.

    Raises SandboxError when the host has no room for it.
    """
    try:
        module = Module(engine, wasm)
        if not sys.platform.startswith("linux"):
            return module
        native = module.serialize()
        module.close()
        fd = os.memfd_create("evalcell-image", os.MFD_CLOEXEC)
        try:
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.write(native)
            return Module.deserialize_file(engine, f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    except (WasmtimeError, OSError, MemoryError) as e:
        raise SandboxError(f"the loaded script's memory cannot be kept ({e}); let it hold less, or free memory") from e
