"""
Between calls and the guest's JSON: requests out, executions in.

Everything in a reply may be an enemy's: the script shares the interpreter that wrote it. Types, sizes and words are
checked here; nothing else of the host reads a reply.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from sandboxes.base import Call, Execution, Limits, ScriptError, Status
from sandboxes.text import clean
from sandboxes.wasm.guests import Bounds, Raw, Request

TEXT = 4000
"""Characters kept of a message or traceback; the guest sends no more, unless a script made it."""

MOST_MEMORY = 4 << 30
"""Bytes; a 32-bit WebAssembly memory cannot be larger."""

_WORST = 6  # bytes of JSON for one byte of text: \\u0000
_STATUSES: dict[str, Status] = {"error": "error", "memory": "memory", "output": "output", "no_result": "no_result"}

_DEAD: dict[str, tuple[Status, str, str]] = {
    "memory": ("memory", "MemoryLimit", "it needed more than {memory:.0f} MB; --memory raises the limit"),
    "stack": ("crash", "StackOverflow", "its recursion used up the interpreter's stack: nested too deeply"),
    "trap": (
        "crash",
        "Crash",
        "the interpreter stopped ({why}): the script broke it, or asked for what this sandbox does not have "
        "(files, network, threads, processes)",
    ),
    "unreadable": ("crash", "Crash", "the interpreter's memory was spoilt by the script: {why}"),
    "too_much": (
        "output",
        "ResultLimit",
        "it returned more than {result:.0f} KB; return a label, a score and a reason",
    ),
}


def bounds(limits: Limits, loading: bool = False) -> Bounds:
    longest = _WORST * (limits.result + limits.output) + 65536
    return Bounds(limits.load_timeout if loading else limits.timeout, min(limits.memory, MOST_MEMORY), longest)


def load_request(source: str, limits: Limits) -> bytes:
    return _encode({"source": source, "seed": 0, "output": limits.output, "flood": limits.flood})


def call_request(call: Call, limits: Limits) -> Request | Execution:
    """The request for a call, or its execution where the arguments are no JSON at all."""
    body = {
        "positional": call.positional,
        "arguments": call.arguments,
        "seed": call.seed,
        "output": limits.output,
        "flood": limits.flood,
        "result": limits.result,
    }
    try:
        return Request(call.id, call.seed, _encode(body))
    except (TypeError, ValueError, RecursionError) as e:
        why = ScriptError(type="Arguments", message=f"the arguments cannot be sent as JSON: {clean(str(e), TEXT)}")
        return Execution(call=call.id, status="error", error=why)


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def execution(raw: Raw, limits: Limits, loading: bool = False) -> Execution:
    """What one call, or the load, came to."""
    if raw.how == "timeout":
        told = f"the call took longer than {limits.timeout:g} s; --timeout raises the limit"
        if loading:
            told = f"loading took longer than {limits.load_timeout:g} s; do less at module level"
        return _dead(raw, "timeout", "Timeout", told)
    if raw.how != "reply":
        status, kind, text = _DEAD[raw.how]
        why = raw.payload.decode("utf-8", "replace").replace("_", " ").lower() or "without a reason"
        return _dead(raw, status, kind, text.format(memory=limits.memory / 2**20, result=limits.result / 1024, why=why))
    try:
        return _told(raw, json.loads(raw.payload, parse_constant=_refuse_constant, parse_float=_finite), limits)
    except (ValueError, RecursionError) as e:  # JSONDecodeError, UnicodeDecodeError, an int of too many digits
        return _dead(raw, "no_result", "Result", f"what evaluate returned cannot be read: {clean(str(e), 200)}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number is beyond the range of a float")
    return value


def _told(raw: Raw, reply: Any, limits: Limits) -> Execution:
    if not isinstance(reply, dict):
        raise ValueError("the reply is not an object")
    said, output, status = reply.get("said"), reply.get("output"), reply.get("status")
    said = said if type(said) is int else 0
    text = output if isinstance(output, str) else ""
    kept = text.encode("utf-8", "replace")
    common: dict[str, Any] = {
        "call": raw.call,
        "output": clean(kept[max(0, len(kept) - limits.output) :].decode("utf-8", "ignore")),
        "truncated": said > limits.output or len(kept) > limits.output,
        "duration": raw.duration,
    }
    if said > limits.flood:
        why = ScriptError(type="OutputLimit", message=f"it printed {said} bytes; the limit is {limits.flood}")
        return Execution(status="output", error=why, **common)
    if status == "ok":
        value = reply.get("value")
        if len(raw.payload) > limits.result and _size(value) > limits.result:
            return _dead(raw, "output", "ResultLimit", _DEAD["too_much"][2].format(result=limits.result / 1024))
        return Execution(status="ok", value=value, **common)
    if not isinstance(status, str) or status not in _STATUSES:
        raise ValueError("the reply has no status")
    return Execution(status=_STATUSES[status], error=_error(status, reply.get("error"), limits), **common)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _error(status: str, error: Any, limits: Limits) -> ScriptError:
    if not isinstance(error, dict):
        raise ValueError("the reply has no error")
    kind, message, trace = (clean(str(error.get(k) or ""), TEXT) for k in ("type", "message", "traceback"))
    if status == "memory":
        text = f"it needed more than {limits.memory / 2**20:.0f} MB; --memory raises the limit"
        return ScriptError(type="MemoryLimit", message=text, traceback=trace)
    return ScriptError(type=kind or "Exception", message=message, traceback=trace, hint=_hint(error.get("missing")))


def _hint(missing: Any) -> str | None:
    """Which sandbox would have the module that an import did not find."""
    if not isinstance(missing, str):
        return None
    from sandboxes.registry import installers  # here: only a failed import wants to know

    able = " or ".join(f"--sandbox {name}" for name in installers())
    where = f"{able} has it" if able else "that needs the process sandbox, which this version does not have yet"
    return f"the wasm sandbox has the standard library only, less what needs an operating system; {where}"


def _dead(raw: Raw, status: Status, kind: str, message: str) -> Execution:
    why = ScriptError(type=kind, message=message)
    return Execution(call=raw.call, status=status, error=why, duration=raw.duration)
