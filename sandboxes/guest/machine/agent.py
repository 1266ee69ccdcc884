"""
The agent on a provider's machine: loads one script, runs its rows with a limit each, and reports each result at once.

No script runs in this process, nor in one that was forked from it after it had read a row. `frames` has its messages,
`namespaces` and `guest.box` what keeps a script in. It ends on a signal, when nobody reads its messages, and when it is
done; nothing that it started is left then. Where it is asked to stay, it waits for other rows of the same script, which
stays loaded, and answers them as it answered the first.
"""

from __future__ import annotations

import binascii
import functools
import json
import os
import signal
import sys

from ..box import confine
from ..supervisor import clock
from ..supervisor.blame import is_well
from ..supervisor.driver import BoxFailure, CallBounds
from . import frames, host_facts
from .box import each, run_steps
from .event_loop import Ports
from .spawner import AgentError, Spawner

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn, Protocol

    from .box import GuestBox
    from .types import Boot, RuntimeNeeds

    Part = Callable[[], bytes]
    Settings = dict[str, Any]

    class Runtime(RuntimeNeeds, Protocol):
        """What boxes for one language need."""

        def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
            """The part of the first message that all boxes share."""

        def open(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool, /) -> GuestBox:
            """Open a box without a script. Raises BoxFailure."""

        def close(self) -> None: ...


_ALL, _NO_FILTER, _BARE = range(3)
"""
What keeps a box in: everything; everything but the seccomp filter; only another user.

A kernel may have a feature and yet not allow its use.
"""

OFFLINE = {"network", "seccomp"}
"""Each keeps a script off the network: there is no device, or there are no sockets."""

_BARREN = 3
"""Boxes in a row that may end before they have a result."""

_WELL = b'{"status":"ok","value":null}'

ANSWER_END = 3
"""The descriptor that whoever keeps this process hears by that an answer is complete."""


class _StopSignal(Exception):
    """A signal to end has arrived."""


def main(part: Part, make_runtime: Callable[[Settings], Runtime]) -> NoReturn:
    """
    Run the agent and end the process.

    `part` reads the next part of what the host sent; `make_runtime` is the class for what boxes need.
    """
    confine.closed_to_others()
    settings = json.loads(part())
    settings["limits"] = CallBounds(**settings["limits"])
    host_facts.forget_environment()
    runtime = make_runtime(settings)
    places = host_facts.files(runtime.readable, settings["network"])
    own = (ANSWER_END,) if settings["stays"] else ()
    spawner = Spawner(places, settings["tmp"], settings["network"], runtime, own)
    # From here on this process knows what no script may.
    last = json.loads(part())
    rows = _split(part(), last["sizes"])
    ports = Ports()
    clock.hold(ports)
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _stop)
        writer = frames.FrameWriter(1, last["mark"], ports)
        ports.add_end(spawner.fd, _fail)
        try:
            answering = _Answering(_Boxes(spawner, ports, settings, runtime), writer, settings)
            while answering.answer(rows) and settings["stays"]:
                writer.drain(0)
                os.write(ANSWER_END, b".")
                last = json.loads(part())
                rows, writer.mark = _split(part(), last["sizes"]), last["mark"]
            code = 0
        except (_StopSignal, frames.HostGone):
            raise
        except AgentError as error:
            writer.say(failed=str(error)[:500])
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            writer.say(failed=f"{type(error).__name__}: {error}"[:500])
        writer.drain(0)
    except (_StopSignal, frames.HostGone):
        code = 143
    finally:
        spawner.end()
        runtime.close()
        os._exit(code)


class _Answering:
    """Answers requests for one script, which is loaded once."""

    def __init__(self, boxes: _Boxes, writer: frames.FrameWriter, settings: Settings) -> None:
        self._boxes, self._writer, self._settings = boxes, writer, settings
        self._box: GuestBox | None = None
        self._told: list[Settings] = []
        """What each answer begins with: the greeting, and the result of loading."""

    def answer(self, rows: list[bytes]) -> bool:
        """Run the rows, and report all that is to be known; whether others can follow."""
        for frame in self._told:
            self._writer.say(**frame)
        if not self._told:
            self._begin(bool(rows))
        elif rows and self._box is not None and not self._box.alive:
            self._load_again()
        bounds, shared = self._settings["limits"], self._settings["isolation"] == "batch"
        place = barren = 0
        while self._box is not None and place < len(rows):
            first = place
            # A later request may have ended the box before it reported anything; so try the first one alone.
            begun = rows[place : place + 1] if barren else rows[place:]
            for group in each(self._box.run(begun, bounds, shared)):
                for told in group:
                    self._writer.add(row=place, told=frames.result_frame(*told))
                    place += 1
                self._writer.drain()
            barren = barren + 1 if place == first else 0
            if barren > _BARREN:
                raise AgentError("processes end before they have a result")
            if place < len(rows) and not self._box.alive:
                self._load_again()
        if self._box is not None and not self._settings["stays"]:
            run_steps(self._box.close())
        self._writer.say(done=len(rows))
        return self._box is not None

    def _begin(self, wants: bool) -> None:
        box = self._boxes.open()
        self._say({"hello": self._boxes.hello(box)})
        self._box = box
        if self._settings["script"] is not None:
            told, self._box = self._load(box, wants or self._settings["stays"])
            self._say(told)

    def _say(self, told: Settings) -> None:
        self._told.append(told)
        self._writer.say(**told)

    def _load_again(self) -> None:
        self._writer.say(loading=True)
        told, self._box = self._load(self._boxes.open(), True)
        self._writer.say(**told)

    def _load(self, box: GuestBox, wants: bool) -> tuple[Settings, GuestBox | None]:
        """Load the script: the result, and the box to go on with, or None after a failure."""
        script, bounds = self._settings["script"].encode(), self._settings["limits"]
        how, payload, took, kept, said, _ = run_steps(box.load(script, bounds))
        well = is_well(how, payload)
        left = [*box.left, *(["reach"] if self._settings["reaches"] else [])]
        told: Settings = {"loaded": frames.result_frame(how, _WELL if well else payload, took, kept, said, False)}
        told |= {"left": left} if well and left else {}
        if well and not (left and wants):
            return told, box
        run_steps(box.close())
        return told, _box_with_imports(box.modules, self._boxes, script, bounds) if well else None


def _box_with_imports(modules: bytes, boxes: _Boxes, script: bytes, bounds: CallBounds) -> GuestBox:
    """
    A box that has imported what the script imported, but not the script; or nothing, if those modules leave something
    too.
    """
    for names in (modules, b""):
        box = boxes.open()
        if run_steps(box.imports(names, script, bounds)):
            return box
        run_steps(box.close())
    raise AgentError("a second process for the script could not be prepared")


class _Boxes:
    """Makes boxes that are all alike."""

    def __init__(self, spawner: Spawner, ports: Ports, settings: Settings, runtime: Runtime) -> None:
        self._spawner, self._ports, self._settings, self._runtime = spawner, ports, settings, runtime
        self._level: int | None = None
        self._programs = settings["programs"].get(os.uname().machine, {}) if host_facts.knows_seccomp() else {}

    def open(self) -> GuestBox:
        """A box without a script, ready for one. None is weaker than the first, which was reported to the host."""
        levels = [_ALL, _ALL, _NO_FILTER, _BARE] if self._level is None else [self._level] * 3
        for level in levels:
            try:
                boot = functools.partial(self._boot, level=level)
                box = self._runtime.open(self._spawner, self._ports, boot, level == _BARE)
            except BoxFailure as e:
                why = e
            else:
                self._level = level
                if self._settings["shut"] and not OFFLINE & set(self._words(box)):
                    raise AgentError("nothing keeps scripts off the network")
                return box
        raise AgentError(f"a process for the script could not be started: {why}")

    def _boot(self, walls: dict[str, Any], level: int) -> tuple[dict[str, Any], bytes]:
        """The box's first message, and its seccomp filter."""
        words = walls.pop("words")
        mounts = "mounts" in words
        apart = "uid" in words or ("users" in words and host_facts.newer_than(5, 14))
        program = binascii.a2b_base64(self._programs.get("own" if mounts else "shared", "")) if level == _ALL else b""
        told = walls | {
            "limits": host_facts.limits(self._settings["tmp"][0] if mounts else 0, apart, self._runtime),
            "network": self._settings["network"] is not None,
            "users": 0,
            "forks": apart or not program,
        }
        return told | self._runtime.boot(walls), program

    def _words(self, box: GuestBox) -> list[str]:
        filtered = self._programs and self._level == _ALL
        return [*box.words, *(["seccomp"] if filtered else [])]

    def hello(self, box: GuestBox) -> dict[str, Any]:
        words = [*self._words(box), *(["memory"] if box.watched else [])]
        system = os.uname()
        return {
            "python": ".".join(map(str, sys.version_info[:3])),
            "machine": system.machine,
            "hash_seed": "0" if host_facts.hashes_from_0() else "other",
            "system": f"{system.sysname} {system.release}"[:90],
            "protects": words,
            **box.tells,
        }


def _split(whole: bytes, sizes: list[int]) -> list[bytes]:
    """The rows, one after the other."""
    rows, start = [], 0
    for size in sizes:
        rows.append(whole[start : start + size])
        start += size
    return rows


def _fail() -> NoReturn:
    raise AgentError("the process that starts boxes has ended")


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    raise _StopSignal
