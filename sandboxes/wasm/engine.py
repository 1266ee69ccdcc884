"""wasmtime configured for the guest, and the guest's compiled code."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from wasmtime import Config, Module, WasmtimeError
from wasmtime import Engine as WasmtimeEngine
from wasmtime import _ffi as ffi

from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor import clock
from sandboxes.host.owner import open_ours
from sandboxes.wasm import native

TICK = 0.005
"""Seconds between two looks at the clock while a guest runs, which bounds how late a timeout is."""

WASM_STACK = 64 << 20
"""Bytes of native stack that guest code may use; a deeper recursion traps."""

THREAD_STACK = WASM_STACK + (4 << 20)
"""Of the threads that run guests. Must be larger than WASM_STACK, or an overflow ends the process."""


def configure(parallel: bool = False) -> Config:
    """
    Return the settings that decide what compiled code looks like: with any change, raise `SETTINGS` in `native_code`.

    `parallel`: compile on all cores; a process that forks afterwards cannot compile anything, as the threads are gone.

    A guest's stray access is caught as SIGSEGV, so that nothing may install handlers for signals afterwards, as
    faulthandler would. Therefore guests run in worker processes only: docs/decisions/0049.
    """
    config = Config()
    config.cranelift_opt_level = "speed"
    config.epoch_interruption = True
    config.memory_init_cow = True
    config.wasm_threads = False
    config.parallel_compilation = parallel
    config.wasm_memory64 = False
    ffi.wasmtime_config_async_stack_size_set(config.ptr(), WASM_STACK * 2)
    config.max_wasm_stack = WASM_STACK
    ffi.wasmtime_config_signals_based_traps_set(config.ptr(), True)
    ffi.wasmtime_config_memory_may_move_set(config.ptr(), False)
    return config


class Loadable(NamedTuple):
    """Native code that was checked: its name ends with its SHA-256."""

    path: Path
    identity: Sequence[int] | None = None
    """Device and inode of what was checked."""


def load_module(engine: WasmtimeEngine, code: Loadable) -> Module:
    """
    Return the module in the file that was checked, not in what stands at its path by now.

    Raises SandboxUnavailableError if it is another one, and WasmtimeError if it is not this wasmtime's.
    """
    try:
        descriptor = open_ours(code.path)
        if descriptor is None:
            raise OSError("others can have written it")
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if code.identity is None or [found.st_dev, found.st_ino] != [*code.identity]:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if digest != code.path.stem.rpartition("-")[2]:
                    raise OSError("its content is another one")
            opened = next((one for one in _OPENED if os.path.exists(f"{one}/{descriptor}")), None)
            return Module.deserialize_file(engine, f"{opened}/{descriptor}" if opened else str(code.path))
    except OSError as e:
        raise SandboxUnavailableError(f"{code.path} was exchanged after it was checked ({e}); run it again") from e


_OPENED = ("/proc/self/fd", "/dev/fd")
"""Where a process finds its own descriptors; nowhere on Windows."""


class Engine:
    """
    The compiled guest, ready to be instantiated inside its `with` block.

    Raises SandboxUnavailableError if the files are not this wasmtime's.
    """

    def __init__(self, code: Path | Loadable, memory: Path | Loadable) -> None:
        self.wasmtime = WasmtimeEngine(configure())
        self.address = native.pointer(self.wasmtime)
        try:
            self.code, self.base = (
                load_module(self.wasmtime, one if isinstance(one, Loadable) else Loadable(one))
                for one in (code, memory)
            )
        except WasmtimeError as e:
            folder = (code.path if isinstance(code, Loadable) else code).parent
            raise SandboxUnavailableError(f"the compiled guest cannot be loaded ({e}); delete {folder}") from e
        self.code_address = native.pointer(self.code)
        self._ticker = Ticker(self.wasmtime)

    def start(self) -> None:
        """Start its threads."""
        self._ticker.start()
        clock.hold(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        clock.release(self)
        self._ticker.stop()


class Ticker:
    """
    Advances the engine's epoch, so that running guests return to the host now and then.

    It follows the wall clock: waiting a fixed time after each tick drifts to twice the interval on a busy machine.
    """

    def __init__(self, engine: WasmtimeEngine) -> None:
        self._engine = engine
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evalcell-ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + TICK
        while not self._over.wait(max(0.0, due - time.monotonic())):
            self._engine.increment_epoch()
            due = max(due + TICK, time.monotonic())
