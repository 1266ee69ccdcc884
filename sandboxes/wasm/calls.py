"""Calls as the guest gets them, and what comes of them."""

from __future__ import annotations

from sandboxes import protocol
from sandboxes.base import Call, Execution, Limits
from sandboxes.hints import WASM
from sandboxes.protocol import DEATHS, Death, Raw
from sandboxes.wasm.frames import Bounds, Request

MOST_MEMORY = 4 << 30
"""In bytes; a 32-bit WebAssembly memory cannot be larger."""

_DEATHS = DEATHS | {
    "stack": Death("crash", "StackOverflow", "its recursion used up the interpreter's stack: nested too deeply"),
    "trap": Death(
        "crash",
        "Crash",
        "the interpreter stopped ({why}): the script broke it, or asked for what this sandbox does not have "
        "(files, network, threads, processes)",
    ),
    "unreadable": Death("crash", "Crash", "the script broke the interpreter's memory: {why}"),
}


def bounds(limits: Limits, loading: bool = False) -> Bounds:
    timeout = limits.load_timeout if loading else limits.timeout
    return Bounds(timeout, min(limits.memory, MOST_MEMORY), protocol.longest(limits), None if loading else limits.cpu)


def call_request(call: Call, limits: Limits) -> Request | Execution:
    """The request for a call, or its execution if the arguments are not JSON."""
    text = protocol.call_request(call, limits)
    return text if isinstance(text, Execution) else Request(call.id, call.seed, text)


def execution(raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
    """The execution of a call, or of loading."""
    return protocol.execution(raw, limits, entrypoint, loading=loading, deaths=_DEATHS, place=WASM)
