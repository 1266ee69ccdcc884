"""The wasm sandbox's own part of `sandboxes.replies`: its bounds, its deaths, its hint."""

from __future__ import annotations

from sandboxes import replies
from sandboxes.base import Call, Execution, Limits
from sandboxes.replies import DEATHS, Death, Raw, load_request
from sandboxes.wasm.guests import Bounds, Request

__all__ = ["bounds", "call_request", "execution", "load_request"]

MOST_MEMORY = 4 << 30
"""Bytes; a 32-bit WebAssembly memory cannot be larger."""

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
    return Bounds(timeout, min(limits.memory, MOST_MEMORY), replies.longest(limits))


def call_request(call: Call, limits: Limits) -> Request | Execution:
    """The request for a call, or its execution where the arguments are no JSON at all."""
    text = replies.call_request(call, limits)
    return text if isinstance(text, Execution) else Request(call.id, call.seed, text)


def execution(raw: Raw, limits: Limits, loading: bool = False) -> Execution:
    """What one call, or the load, came to."""
    return replies.execution(raw, limits, loading=loading, deaths=_DEATHS, hint=_hint)


def _hint(module: str) -> str:
    """What would bring the module that an import did not find."""
    if package := replies.package_of(module):
        return f'add `dependencies = ["{package}"]` to the script\'s header; the process sandbox has packages'
    return "the wasm sandbox has no modules that need an operating system; choose the process sandbox"
