"""
Load scripts and run calls, one at a time, on the caller's thread: the part that knows the guest's requests.

The results are raw; `protocol` turns the guest's replies into executions.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Literal

from wasmtime import TrapCode

from sandboxes.errors import SandboxError
from sandboxes.guest.supervisor.clock import now
from sandboxes.raw import Raw
from sandboxes.wasm.engine import Engine
from sandboxes.wasm.frames import Bounds, Request
from sandboxes.wasm.fresh import Fresh, fresh
from sandboxes.wasm.image import Image
from sandboxes.wasm.instance import CallStopped, Instance, ReplyError
from sandboxes.wasm.native import GuestTrap
from sandboxes.wasm.reset import Reset

How = Literal["reply", "timeout", "cpu", "memory", "stack", "trap", "unreadable", "too_much"]

NEARLY = 0.9
"""Share of its memory in use above which a guest that stopped is taken to have run out of memory."""


class Guests:
    """Programs by number. Not for two threads at once."""

    def __init__(self, engine: Engine, reset: Reset) -> None:
        self._engine, self._reset = engine, reset
        self._programs: dict[int, Fresh] = {}

    def load(self, program: int, text: bytes, bounds: Bounds) -> Raw:
        """Execute a script and keep its memory. Raises SandboxError if `reset` is not available here."""
        instance = Instance(self._engine, None, max(bounds.memory, 64 << 20))
        try:
            # The same in every worker, so that random numbers drawn while loading are the same for every row.
            random = int.from_bytes(hashlib.sha256(text).digest()[:7], "little")
            raw = self._ask(instance, "load", Request(-1, random, text), bounds)
            if raw.how == "reply" and _says_ok(raw.payload):
                if not _tidy(instance, "load"):
                    return raw._replace(how="unreadable", payload=b"it cannot free what it allocated")
                image = Image(self._engine, instance.memory())
                instance.close()  # at once, as it may be large
                self._programs[program] = self._keep(image)
            return raw
        finally:
            instance.close()

    def _keep(self, image: Image) -> Fresh:
        try:
            return fresh(self._engine, image, self._reset)
        except OSError as e:
            image.close()
            raise SandboxError(f"pages cannot be restored here ({e}); choose reset='instance' or 'auto'") from e

    def run(self, program: int, requests: list[Request], bounds: Bounds, shared: bool) -> Iterator[Raw]:
        """Yield one Raw for each request, in order. `shared`: one state for all of them, else a fresh one for each."""
        states = self._programs[program]
        instance: Instance | None = None
        used = False
        try:
            for request in requests:
                if instance is None:
                    used = False
                    try:
                        instance = states.take(bounds.memory)
                    except GuestTrap:
                        yield Raw(request.call, "memory", b"the loaded script alone needs more than the limit", 0.0)
                        continue
                raw = self._ask(instance, "call", request, bounds)
                if used and _is_doubtful(raw):  # earlier calls may have caused it
                    states.give_back(instance, whole=False)
                    instance = states.take(bounds.memory)
                    raw = self._ask(instance, "call", request, bounds)
                used, whole = True, raw.how == "reply"
                kept = shared and whole and not _is_doubtful(raw) and _tidy(instance, "call")
                try:
                    yield raw  # first: to undo what a call wrote takes about as long as the call
                finally:
                    if not kept:
                        states.give_back(instance, whole)
                        instance = None
        finally:
            if instance is not None:
                states.give_back(instance, whole=True)

    def _ask(self, instance: Instance, function: str, request: Request, bounds: Bounds) -> Raw:
        random = request.random if request.random is not None else int.from_bytes(os.urandom(8), "little")
        began = now()
        how: How = "reply"
        try:
            payload = instance.ask(function, request.text, random, bounds)
        except CallStopped as e:
            how, payload = ("cpu" if e.why == "cpu" else "timeout"), b""
        except ReplyError as e:
            how, payload = ("unreadable" if e.size is None else "too_much"), str(e).encode()
        except GuestTrap as e:
            if e.code is TrapCode.STACK_OVERFLOW:
                how, payload = "stack", b""
            else:
                died_full = instance.size > NEARLY * bounds.memory
                how, payload = ("memory" if died_full else "trap"), _words(e.code).encode()
        return Raw(request.call, how, payload, now() - began)

    def forget(self, program: int) -> None:
        if found := self._programs.pop(program, None):
            found.close()

    def close(self) -> None:
        for program in list(self._programs):
            self.forget(program)


def _words(code: TrapCode | None) -> str:
    return code.name.replace("_", " ").lower() if code else ""


def _tidy(instance: Instance, function: str) -> bool:
    """Free the reply inside the guest; False if a script has broken even that."""
    try:
        instance.release(function)
    except GuestTrap:
        return False
    return True


def _is_doubtful(raw: Raw) -> bool:
    """What `blame.is_doubtful` says; a value's own JSON has a space after each colon."""
    full = raw.how == "reply" and b',"status":"memory","error":' in raw.payload
    return full or raw.how in ("memory", "stack", "trap", "unreadable")


def _says_ok(payload: bytes) -> bool:
    """Whether a reply says `ok`; never stricter than `protocol`: what that takes for loaded must have been kept."""
    try:
        reply = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(reply, dict) and reply.get("status") == "ok"
