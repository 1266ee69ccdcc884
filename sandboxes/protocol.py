"""
Translate calls to JSON requests, and JSON replies to executions.

Everything in a reply may be hostile: the script shares the interpreter that wrote it. Types, sizes and words are
checked here; nothing else on the host reads a reply.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeGuard

from sandboxes.base import Call, Execution, Limits, Script, ScriptError, Status
from sandboxes.guest.supervisor.driver import CallBounds
from sandboxes.json_text import JsonText, writer
from sandboxes.raw import Raw as Raw
from sandboxes.words.hints import BOX, Failure, Place, next_step
from sandboxes.words.text import clean
from sandboxes.words.wording import Setting

TEXT = 4000
"""Characters kept of a message or traceback; `guest.harness` sends no more, unless a script made it do so."""

_SIZES = re.compile(r"(\d+) bytes of JSON(?: or more)?; the limit is (\d+)$")
"""As guests tell them."""
_NAME = 200  # characters of a module's name; `guest.harness` sends no more
_WORST = 6  # bytes of JSON for one byte of text: \\u0000
_FRAME = len('{"status":"ok","value":}')
_STATUSES: dict[str, Status] = {"error": "error", "memory": "memory", "output": "output", "no_result": "no_result"}


class Death(NamedTuple):
    """
    How to report a call that gave no reply.

    `message` may contain {memory} in MB, {result} in KB, {flood} in bytes, {cpu} in seconds, {memory_limit} and
    {cpu_limit}, which are these settings, and {why}, the payload's text.
    """

    status: Status
    type: str
    message: str


DEATHS: dict[str, Death] = {
    "memory": Death(
        "memory",
        "MemoryLimit",
        "it needed more than {memory:.0f} MB; raise {memory_limit}, or keep less",
    ),
    "too_much": Death(
        "output", "ResultLimit", "it returned more than {result:.0f} KB; return a label, a score and a reason"
    ),
    "cpu": Death(
        "timeout", "ProcessorLimit", "it used more than {cpu:g} s of the processor; raise {cpu_limit}, or do less"
    ),
    "flood": Death("output", "OutputLimit", "it printed more than {flood}; print less"),
}
"""What can happen in more than one backend; each adds its own."""


def longest(limits: Limits) -> int:
    """Return the most bytes of an honest reply."""
    return _WORST * (limits.result + limits.output) + 65536


def bounds(limits: Limits) -> CallBounds:
    """Return the limits, as a supervisor keeps them."""
    return CallBounds(
        memory=limits.memory,
        output=limits.output,
        flood=limits.flood,
        longest=longest(limits),
        timeout=limits.timeout,
        load_timeout=limits.load_timeout,
        cpu=limits.cpu,
    )


def load_request(script: Script, limits: Limits) -> bytes:
    """Return the request to load a script."""
    body: dict[str, Any] = {"source": script.source, "entrypoint": script.entrypoint}
    if script.files:
        body = {"files": dict(script.files)} | body  # first: a process looks for them before it reads the rest
    return _write(body | {"seed": 0, "output": limits.output, "flood": limits.flood}).encode()


def call_request(call: Call, limits: Limits) -> bytes | Execution:
    """Return the request for a call, or its execution if the arguments are not JSON."""
    try:
        text, end = _write({"arguments": call.arguments, "seed": call.seed}), _end(limits.output, limits.result)
        return f'{{"positional":[{",".join(map(_json, call.positional))}],{text[1:-1]},{end}'.encode()
    except (TypeError, ValueError, RecursionError) as e:
        why = ScriptError(type="Arguments", message=f"the arguments cannot be sent as JSON: {clean(str(e), TEXT)}")
        return Execution(call=call.id, status="error", error=why)


def _json(value: Any) -> str:
    return value if isinstance(value, JsonText) else _write(value)


@lru_cache(16)
def _end(output: int, result: int) -> str:
    """The end of a request, which is the same for all calls."""
    return _write({"output": output, "flood": Limits(output=output).flood, "result": result})[1:]


def execution(
    raw: Raw,
    limits: Limits,
    entrypoint: str,
    *,
    loading: bool = False,
    deaths: Mapping[str, Death] = DEATHS,
    place: Place = BOX,
) -> Execution:
    """Return the execution of a call, or of loading. `place` is where it ran, for the next step after an error."""
    loading = loading or raw.loading
    if raw.how == "timeout":
        told = f"the call took longer than {limits.timeout:g} s; raise {Setting('limits.timeout')}, or do less"
        if loading:
            most = limits.load_timeout  # a run gives loading as long as a call
            limit = f"the timeout past {most:g} s" if most in (30, limits.timeout) else "load_timeout"
            told = f"loading took longer than {most:g} s; raise {limit}, or do less at module level"
        return _failure(raw, limits, "timeout", "Timeout", told)
    if raw.how != "reply":
        return _death_execution(raw, limits, deaths[raw.how])
    try:
        reply = _read(raw.payload.decode())
        return _read_reply(raw, reply, limits, place)
    except (ValueError, RecursionError) as e:  # JSONDecodeError, UnicodeDecodeError, an int with too many digits
        told = f"the value that {entrypoint} returned cannot be read: {clean(str(e), 200)}"
        return _failure(raw, limits, "no_result", "Result", told)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number is beyond the range of a float")
    return value


_write = writer(ascii=True, compact=True, nan=True)
_read = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


def _read_reply(raw: Raw, reply: Any, limits: Limits, place: Place) -> Execution:
    if not isinstance(reply, dict):
        raise ValueError("the reply is not an object")
    said: Any
    if raw.output is None:
        said, output = reply.get("said"), reply.get("output")
        common = _common_fields(
            raw, output if isinstance(output, str) else "", said if type(said) is int else 0, limits
        )
    else:
        said = raw.printed_size
        common = _host_fields(raw, limits)
    if said and type(said) is int and said > limits.flood:
        why = ScriptError(
            type="OutputLimit",
            message=f"it printed {_size_words(said)}, and may print {_size_words(limits.flood)}; print less",
        )
        return Execution(status="output", error=why, **common)
    status = reply.get("status")
    if status == "ok":
        value = reply.get("value")
        if len(raw.payload) - _FRAME > limits.result and _size(value) > limits.result:
            return _death_execution(raw, limits, DEATHS["too_much"])
        return Execution.trusted({**common, "status": "ok", "value": value, "error": None})
    if not isinstance(status, str) or status not in _STATUSES:
        raise ValueError("the reply has no status")
    return Execution(status=_STATUSES[status], error=_error(status, reply.get("error"), limits, place), **common)


def _size_words(count: int) -> str:
    count = min(count, 1 << 60)  # a script may say any number
    return f"{count:,} bytes" if count < 1 << 20 else f"{count / (1 << 20):.3g} MB"


def _size(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def _error(status: str, error: Any, limits: Limits, place: Place) -> ScriptError:
    if not isinstance(error, dict):
        raise ValueError("the reply has no error")
    kind, message, trace = (clean(str(error.get(k) or ""), TEXT) for k in ("type", "message", "traceback"))
    if status == "memory":
        text = _words(DEATHS["memory"], limits, "")
        return ScriptError(type="MemoryLimit", message=text, traceback=trace)
    if status == "output" and (sizes := _SIZES.search(message)):
        size, limit = map(_size_words, map(int, sizes.groups()))
        message = f"{message[: sizes.start()]}{size} of JSON, and may return {limit}; return less"
    missing = error.get("missing")
    failure = Failure(kind, message, trace, missing if _names_a_module(missing) else None)
    step = next_step(failure, place) if status == "error" else None
    return ScriptError(type=kind or "Exception", message=message, traceback=trace, hint=step)


def _names_a_module(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and len(name) <= _NAME and all(part.isidentifier() for part in name.split("."))


def _death_execution(raw: Raw, limits: Limits, death: Death) -> Execution:
    why = clean(raw.payload[: TEXT // 4].decode("utf-8", "replace")) if raw.how != "reply" else ""
    return _failure(raw, limits, death.status, death.type, _words(death, limits, why or "without a reason"))


def _words(death: Death, limits: Limits, why: str) -> str:
    memory, result = limits.memory / 2**20, limits.result / 1024
    return death.message.format(
        **{
            "memory": memory,
            "result": result,
            "cpu": limits.cpu or 0.0,
            "flood": _size_words(limits.flood),
            "why": why,
        },
        memory_limit=Setting("limits.memory"),
        cpu_limit=Setting("limits.cpu"),
    )


def _failure(raw: Raw, limits: Limits, status: Status, kind: str, message: str) -> Execution:
    return Execution(status=status, error=ScriptError(type=kind, message=message), **_host_fields(raw, limits))


def _host_fields(raw: Raw, limits: Limits) -> dict[str, Any]:
    """The part of an execution that the host saw itself."""
    if not raw.output:
        return _common_fields(raw, "", raw.printed_size, limits)
    kept = raw.output[-limits.output :] if limits.output else b""
    if raw.printed_size > len(kept):  # the kept part may begin inside a character
        kept = kept[next((n for n, byte in enumerate(kept[:4]) if byte & 0xC0 != 0x80), 0) :]
    return _common_fields(raw, kept.decode("utf-8", "replace"), raw.printed_size, limits)


def _common_fields(raw: Raw, output: str, said: int, limits: Limits) -> dict[str, Any]:
    if not output:  # as of most calls
        return {"call": raw.call, "output": "", "truncated": said > limits.output, "duration": raw.duration}
    kept = output.encode("utf-8", "replace")
    return {
        "call": raw.call,
        "output": clean(kept[max(0, len(kept) - limits.output) :].decode("utf-8", "ignore")),
        "truncated": said > limits.output or len(kept) > limits.output,
        "duration": raw.duration,
    }
