"""
The few functions of wasmtime's C API that the hot path needs, with their types.

wasmtime-py's own objects cost 0.5 ms and more for an instance and cannot set an epoch callback, so calls from here go
directly to the C API of the library that wasmtime-py ships. This module opens its own handle to that library: setting
argument types on wasmtime-py's would break wasmtime-py.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Union,
    c_bool,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint64,
    c_void_p,
)
from typing import Any

from wasmtime import Trap, TrapCode, WasmtimeError
from wasmtime import _ffi as ffi

Extern = ffi.wasmtime_extern_t
InstanceHandle = ffi.wasmtime_instance_t
Val = ffi.wasmtime_val_t
OF: int = Extern.of.offset

I32, I64 = 0, 1
CONTINUE = 0  # wasmtime_update_deadline_kind_t


class _Raw(Union):
    _fields_ = [("i32", c_int32), ("i64", c_int64), ("v128", c_uint8 * 16)]


RawArray = _Raw * 4
EpochCallback = ctypes.CFUNCTYPE(c_size_t, c_void_p, c_void_p, POINTER(c_uint64), POINTER(c_uint8))


def _declare(dll: Any, name: str, result: Any, *arguments: Any) -> Any:
    f = getattr(dll, name)
    f.restype = result
    f.argtypes = arguments
    return f


# These return soon, and keep the GIL. What runs guest code must release it, or a guest in a loop would stop
# the thread that ends it.
_held = ctypes.PyDLL(str(ffi.filename))
_released = ctypes.CDLL(str(ffi.filename))

store_new = _declare(_held, "wasmtime_store_new", c_void_p, c_void_p, c_void_p, c_void_p)
store_context = _declare(_held, "wasmtime_store_context", c_void_p, c_void_p)
store_limiter = _declare(_held, "wasmtime_store_limiter", None, c_void_p, *[c_int64] * 5)
store_delete = _declare(_released, "wasmtime_store_delete", None, c_void_p)
store_epoch_callback = _declare(
    _held, "wasmtime_store_epoch_deadline_callback", None, c_void_p, EpochCallback, c_void_p, c_void_p
)
set_epoch_deadline = _declare(_held, "wasmtime_context_set_epoch_deadline", None, c_void_p, c_uint64)
instance_new = _declare(
    _held, "wasmtime_instance_new", c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p
)
export_get = _declare(_held, "wasmtime_instance_export_get", c_bool, c_void_p, c_void_p, c_char_p, c_size_t, c_void_p)
memory_data = _declare(_held, "wasmtime_memory_data", c_void_p, c_void_p, c_void_p)
memory_size = _declare(_held, "wasmtime_memory_data_size", c_size_t, c_void_p, c_void_p)
memory_grow = _declare(_held, "wasmtime_memory_grow", c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)
global_set = _declare(_held, "wasmtime_global_set", c_void_p, c_void_p, c_void_p, c_void_p)
global_get = _declare(_held, "wasmtime_global_get", None, c_void_p, c_void_p, c_void_p)
func_call = _declare(
    _released, "wasmtime_func_call_unchecked", c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p
)
error_new = _declare(_held, "wasmtime_error_new", c_void_p, c_char_p)


class GuestTrap(Exception):
    """The guest stopped inside a call. `code` is None if the host stopped it."""

    def __init__(self, code: TrapCode | None, text: str) -> None:
        super().__init__(text)
        self.code = code


def raise_for(error: int | None, trap: c_void_p) -> None:
    """Take ownership of a C error or trap and raise it as GuestTrap; return if there is none."""
    if error:
        failed = WasmtimeError._from_ptr(ctypes.cast(error, POINTER(ffi.wasmtime_error_t)))
        raise GuestTrap(None, str(failed))
    if trap.value:
        trapped = Trap._from_ptr(ctypes.cast(trap.value, POINTER(ffi.wasm_trap_t)))
        raise GuestTrap(trapped.trap_code, str(trapped.message))


def pointer(managed: Any) -> int:
    """Return the address of one of wasmtime-py's objects, which must outlive its use."""
    address = ctypes.cast(managed.ptr(), c_void_p).value
    assert address
    return address
