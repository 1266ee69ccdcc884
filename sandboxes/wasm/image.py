"""A loaded script's memory, mapped copy-on-write into any number of instances."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from ctypes import c_int, c_long, c_size_t, c_void_p

from wasmtime import Module, WasmtimeError

from sandboxes.errors import SandboxError
from sandboxes.wasm.encode import PAGE, memory_module
from sandboxes.wasm.engine import Engine

_MAP_FIXED = 0x10  # <linux/mman.h>; Python has no name for it
_FAILED = c_void_p(-1).value


class Image:
    """
    On Linux a nameless file, whose pages are shared between instances and can be told from written ones.

    Elsewhere a module, which must be compiled first. Raises SandboxError if the host has no room for it.
    """

    def __init__(self, engine: Engine, content: memoryview) -> None:
        self.size = len(content)
        self.module = engine.base
        """The module of its instances; the file is then mapped over their memory."""
        self._fd: int | None = None
        try:
            if sys.platform.startswith("linux"):
                self._fd = os.memfd_create("evalcell-image", os.MFD_CLOEXEC)
                self._write(self._fd, content)
            else:
                self.module = Module(engine.wasmtime, memory_module(content))
        except (WasmtimeError, OSError, MemoryError) as e:
            self.close()
            step = "free memory, or load less in the script"
            if isinstance(e, OSError) and e.errno == errno.EFBIG:
                step = "raise the limit of a file's size: ulimit -f unlimited"
            raise SandboxError(f"the loaded script's memory cannot be stored ({e}); {step}") from e

    def _write(self, fd: int, content: memoryview) -> None:
        os.ftruncate(fd, self.size)
        zeros = bytes(PAGE)
        for start in range(0, self.size, PAGE):
            page = bytes(content[start : start + PAGE])
            if page != zeros and os.pwrite(fd, page, start) != PAGE:
                raise OSError("it was only written in part")

    def map(self, address: int) -> None:
        """Map the file, if it is one, over `size` bytes of an instance's memory. Raises SandboxError."""
        if self._fd is None:
            return
        flags = mmap.MAP_PRIVATE | _MAP_FIXED
        if _mmap(address, self.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, self._fd, 0) == _FAILED:
            raise SandboxError(f"the loaded script's memory cannot be mapped ({os.strerror(ctypes.get_errno())})")

    def close(self) -> None:
        """Close it. Instances that have it mapped keep it; no other can be made."""
        if self._fd is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


if sys.platform.startswith("linux"):
    _mmap = ctypes.PyDLL(None, use_errno=True).mmap
    _mmap.argtypes = (c_void_p, c_size_t, c_int, c_int, c_int, c_long)
    _mmap.restype = c_void_p
