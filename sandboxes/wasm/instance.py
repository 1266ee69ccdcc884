"""One instance of the guest, whose whole state is its linear memory and five globals."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import time
from ctypes import byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from sandboxes.guest.supervisor.clock import now
from sandboxes.wasm import native
from sandboxes.wasm.encode import PAGE
from sandboxes.wasm.engine import Engine
from sandboxes.wasm.frames import Bounds
from sandboxes.wasm.image import Image
from sandboxes.wasm.native import I32, I64, OF, GuestTrap

FUNCTIONS = ("load", "call", "cabi_realloc", "cabi_post_load", "cabi_post_call")
GLOBALS = {"host_wall_s": I64, "host_wall_ns": I32, "host_mono": I64, "host_rng": I64, "__stack_pointer": I32}

_REPLY = struct.Struct("<II")
"""Where a reply's text is, and its bytes."""


class CallStopped(Exception):
    """The host ended the guest's call: its time was over."""

    def __init__(self, why: str) -> None:
        """`why`: `timeout` or `cpu`."""
        super().__init__(why)
        self.why = why


class ReplyError(Exception):
    """The guest's answer is invalid. `size` is set if it was too large."""

    def __init__(self, message: str, size: int | None = None) -> None:
        super().__init__(message)
        self.size = size


_alive: dict[int, Instance] = {}
_numbers = itertools.count(1)


def _at_tick(context: int, number: int, delta: Any, kind: Any) -> int:
    """
    Move the guest's clock, and end the guest when it is time; runs on its thread at every tick of the epoch.

    A returned error ends the guest's call; wasmtime takes ownership of it.
    """
    instance = _alive.get(number)
    try:
        if instance is not None and instance._may_go_on():
            delta[0], kind[0] = 1, native.CONTINUE
            return 0
    except BaseException:  # no exception may pass through C
        pass
    return native.error_new(b"stopped") or 0


_callback = native.EpochCallback(_at_tick)


class _Cell:
    """A place for a global's value, and the addresses of both."""

    def __init__(self, at: int, kind: int) -> None:
        self.at = at
        self._val = native.Val()
        self._val.kind = ctypes.c_uint8(kind)
        self.address = ctypes.addressof(self._val)
        width = c_int64 if kind == I64 else c_int32
        self.number = width.from_address(self.address + native.Val.of.offset)


class Instance:
    """
    A guest started from a memory image, or from the guest's own.

    Not for two threads at once. Raises GuestTrap if the image does not fit into `memory` bytes.
    """

    def __init__(self, engine: Engine, image: Image | None, memory: int) -> None:
        self.limit = memory
        self.ended: str | None = None
        self._deadline = self._spent = 0.0
        self._engine, self._image = engine, image  # C does not keep them alive
        self._number = next(_numbers)
        self._store = native.store_new(engine.address, None, None)
        try:
            self._start(image, memory)
        except BaseException:
            self.close()
            raise
        _alive[self._number] = self

    def _start(self, image: Image | None, memory: int) -> None:
        self._context = native.store_context(self._store)
        native.store_limiter(self._store, memory, -1, -1, -1, -1)
        native.store_epoch_callback(self._store, _callback, self._number, None)
        native.set_epoch_deadline(self._context, 1 << 62)
        held = self._instantiate(native.pointer(image.module if image else self._engine.base), None)
        self._memory_extern = self._export(held, b"memory")
        self._memory = c_void_p(ctypes.addressof(self._memory_extern) + OF)
        code = self._instantiate(self._engine.code_address, self._memory_extern)
        self._externs = {n: self._export(code, n.encode()) for n in (*FUNCTIONS, *GLOBALS)}
        self._at = {n: ctypes.addressof(x) + OF for n, x in self._externs.items()}
        # Addresses are made once: each object of ctypes takes as long as some steps of a call.
        self._cells = {n: _Cell(self._at[n], GLOBALS[n]) for n in GLOBALS}
        self._wall_s, self._wall_ns, self._mono, *_ = self._cells.values()
        self._raw = native.RawArray()
        self._raw_at = ctypes.addressof(self._raw)
        self._arguments = [c_int64.from_buffer(raw) for raw in self._raw]
        self._result = c_uint32.from_buffer(self._raw)
        self._trap = c_void_p()
        self._trap_at = ctypes.addressof(self._trap)
        self._base: int = native.memory_data(self._context, self._memory)
        self._seen = memoryview(b"")
        if image:
            self._grow(image.size)
            image.map(self._base)
        self.stack_pointer = self.get("__stack_pointer")

    def _instantiate(self, module: int, imported: Any) -> Any:
        handle, trap = native.InstanceHandle(), c_void_p()
        imports = byref(imported) if imported is not None else None
        error = native.instance_new(self._context, module, imports, imported is not None, byref(handle), byref(trap))
        native.raise_for(error, trap)
        return handle

    def _export(self, handle: Any, name: bytes) -> Any:
        extern = native.Extern()
        if not native.export_get(self._context, byref(handle), name, len(name), byref(extern)):
            raise GuestTrap(None, f"the guest has no export {name.decode()}; reinstall evalcell")
        return extern

    def _grow(self, size: int) -> None:
        error = native.memory_grow(self._context, self._memory, (size - self.size) // PAGE, byref(c_uint64()))
        native.raise_for(error, c_void_p())

    # Memory. The engine reserves the whole 4 GB address range up front, so that it never moves.

    @property
    def base(self) -> int:
        """The address of the guest's byte 0."""
        return self._base

    @property
    def size(self) -> int:
        """Bytes of memory that the guest has now."""
        return int(native.memory_size(self._context, self._memory))

    def memory(self) -> memoryview:
        """Return the whole memory, without a copy. Valid until the instance is closed or the guest grows its memory."""
        whole = (ctypes.c_char * self.size).from_address(self._base)
        return memoryview(whole).cast("B")

    def _holds(self, start: int, length: int) -> bool:
        """Whether all of it is inside; the guest may give both numbers. What is inside is in `_seen`."""
        if start < 0 or length < 0:
            return False
        if start + length > len(self._seen):  # the guest's memory never shrinks
            self._seen = self.memory()
        return start + length <= len(self._seen)

    def read(self, start: int, length: int) -> bytes:
        """Read from the guest's memory. Raises ReplyError unless all is inside."""
        if not self._holds(start, length):
            raise ReplyError("it pointed outside of its memory")
        return bytes(self._seen[start : start + length])

    def write(self, start: int, data: bytes) -> None:
        """Write to the guest's memory. Raises ReplyError unless all of it fits."""
        if not self._holds(start, len(data)):
            raise ReplyError("it gave no memory for the request")
        self._seen[start : start + len(data)] = data

    # Globals.

    def set(self, name: str, value: int) -> None:
        """Set it to as many bits of `value` as it has."""
        cell = self._cells[name]
        cell.number.value = value
        if error := native.global_set(self._context, cell.at, cell.address):
            native.raise_for(error, c_void_p())

    def get(self, name: str) -> int:
        cell = self._cells[name]
        native.global_get(self._context, cell.at, cell.address)
        return cell.number.value

    def _set_clock(self) -> None:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        context, wall_s, wall_ns, mono = self._context, self._wall_s, self._wall_ns, self._mono
        # As `set` does, of which three calls take twice as long; none of these fails once `set` has gone well.
        wall_s.number.value, wall_ns.number.value, mono.number.value = seconds, nanoseconds, time.monotonic_ns()
        native.global_set(context, wall_s.at, wall_s.address)
        native.global_set(context, wall_ns.at, wall_ns.address)
        native.global_set(context, mono.at, mono.address)

    # Calls.

    def ask(self, function: str, request: bytes, random: int, bounds: Bounds) -> bytes:
        """
        Call `load` or `call` with one JSON text and return the reply's bytes; `random` seeds the guest's numbers.

        Raises CallStopped, GuestTrap or ReplyError; after any of these the instance must not be used again.
        """
        self._deadline = now() + bounds.timeout
        self._spent = math.inf if bounds.cpu is None else time.thread_time() + bounds.cpu
        self.ended = None
        self._set_clock()
        self.set("host_rng", random)
        native.set_epoch_deadline(self._context, 1)
        try:
            place = self._run("cabi_realloc", 0, 0, 1, len(request))
            self.write(place, request)
            reply = self._run(function, place, len(request))
            start, length = _REPLY.unpack(self.read(reply, _REPLY.size))
            if length > bounds.longest:
                raise ReplyError(f"it answered with {length} bytes", length)
            self._reply = reply
            return self.read(start, length)
        except GuestTrap:
            if self.ended:
                raise CallStopped(self.ended) from None
            raise

    def release(self, function: str) -> None:
        """
        Free the last reply inside the guest; not needed if the memory is thrown away or restored.

        Raises GuestTrap if the script has broken the guest so far that this fails or takes a second.
        """
        self._deadline, self._spent = now() + 1, math.inf
        native.set_epoch_deadline(self._context, 1)
        self._run(f"cabi_post_{function}", self._reply)

    def _run(self, name: str, *arguments: int) -> int:
        for place, value in zip(self._arguments, arguments, strict=False):
            place.value = value
        error = native.func_call(self._context, self._at[name], self._raw_at, len(self._raw), self._trap_at)
        if error or self._trap.value:
            trap, self._trap.value = c_void_p(self._trap.value), None
            native.raise_for(error, trap)
        return self._result.value

    def _may_go_on(self) -> bool:
        if now() >= self._deadline:
            self.ended = "timeout"
        elif self._spent < math.inf and time.thread_time() >= self._spent:
            self.ended = "cpu"
        else:
            self._set_clock()
            return True
        return False

    def close(self) -> None:
        _alive.pop(self._number, None)
        if self._store:
            native.store_delete(self._store)
            self._store = None
            self._seen = memoryview(b"")
