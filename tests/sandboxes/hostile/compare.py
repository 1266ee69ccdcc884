"""
Runs every hostile script that ends by itself in one guest, and compares its memory with the snapshot after each.

Prints a JSON line a script: its id, what became of it, and whether the guest that was kept for the next call is byte
for byte as it was just after loading (null: none was kept). Looks into the wasm sandbox, below its promises.
"""

from __future__ import annotations

import ctypes
import json
import threading

from sandboxes import Call, Limits
from sandboxes.protocol import call_request, load_request
from sandboxes.wasm.engine import THREAD_STACK, Engine
from sandboxes.wasm.frames import Request
from sandboxes.wasm.fresh import RestoredPages
from sandboxes.wasm.guests import Guests
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.sandbox import bounds
from tests.sandboxes.hostile.judged import patience
from tests.sandboxes.hostile.scripts import ATTACK, SHELL, scripts
from tests.scripts import python

LIMITS = Limits(timeout=0.2, memory=64 << 20, output=4096, result=16384)
"""What ends by itself is waited for, as it is only then that a guest is kept."""

_memory_compare = ctypes.CDLL(None).memcmp
_memory_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def main() -> None:
    with Engine(*compile_guest(print)) as engine:
        guests = Guests(engine, "restore")
        guests.load(1, load_request(python(SHELL), LIMITS), bounds(LIMITS, loading=True))
        states = guests._programs[1]
        assert isinstance(states, RestoredPages)
        for script in scripts():
            if script.attacks_at_load or script.may == {"timeout"}:
                continue
            text = call_request(Call(id=0, arguments={"output": ATTACK, "reference": script.source}), LIMITS)
            assert isinstance(text, bytes)
            limits = LIMITS.model_copy(update={"timeout": patience(script.ending, LIMITS.timeout)})
            (raw,) = guests.run(1, [Request(0, None, text)], bounds(limits), shared=False)
            print(json.dumps({"id": script.id, "how": raw.how, "same": same(states)}), flush=True)
        guests.close()


def same(states: RestoredPages) -> bool | None:
    kept, pristine = states._spare, states._pristine
    if kept is None:
        return None
    size = states.image.size
    return (
        kept.size == pristine.size == size
        and kept.get("__stack_pointer") == pristine.get("__stack_pointer")
        and not _memory_compare(kept.base, pristine.base, size)
    )


if __name__ == "__main__":
    threading.stack_size(THREAD_STACK)
    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
