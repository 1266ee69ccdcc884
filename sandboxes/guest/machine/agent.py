"""
What runs on a machine of others: loads one script, runs its rows each with its own bounds, tells of each as it ends.

No script runs in this process, nor in one that was forked from it after it had read a row. What it says is in
`frames`, what keeps a script in is in `namespaces` and in `guest.box`. It ends when a signal tells it
to, when nobody reads what it says, and when it is done; nothing that it started is left then.
"""

from __future__ import annotations

import binascii
import functools
import json
import os
import signal
import sys

from ..box import confine
from ..supervisor.blame import is_well
from ..supervisor.driver import Bounds, Broken
from . import frames, host_facts
from .box import done, each
from .event_loop import Ports
from .spawner import Failed, Spawner

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn, Protocol

    from .box import Box
    from .types import Boot, Shown

    Part = Callable[[], bytes]
    Settings = dict[str, Any]

    class Room(Shown, Protocol):
        """What boxes for one language are shown and told."""

        def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
            """What a box is told, besides what each is."""

        def open(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool, /) -> Box:
            """A box without a script. Raises Broken."""

        def close(self) -> None: ...


_ALL, _NO_FILTER, _BARE = range(3)
"""
What a box is kept in by: everything; everything but the filter of system calls; another user alone.

A kernel may have what it then does not let be used.
"""

OFFLINE = {"network", "seccomp"}
"""Each keeps a script off the network: there is no device, or there are no sockets."""

_BARREN = 3
"""Boxes in a row that end before they have told of a row."""

_WELL = b'{"status":"ok","value":null}'


class _Stopped(Exception):
    """A signal has come that ends all."""


def main(part: Part, rooms: Callable[[Settings], Room]) -> NoReturn:
    """
    `part` reads the next part of what the host sent; `rooms`: the class of what boxes are shown and told.

    Ends the process.
    """
    confine.closed_to_others()
    settings = json.loads(part())
    settings["limits"] = Bounds(**settings["limits"])
    host_facts.forget_environment()
    room = rooms(settings)
    places = host_facts.files(room.shown, settings["network"])
    spawner = Spawner(places, settings["tmp"], settings["network"], room)
    # From here on this process knows what no script may.
    last = json.loads(part())
    rows = _cut(part(), last["sizes"])
    ports = Ports()
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _stop)
        voice = frames.Voice(1, last["mark"], ports)
        ports.add_end(spawner.fd, _lost)
        try:
            _answer(_Boxes(spawner, ports, settings, room), voice, settings, rows)
            code = 0
        except (_Stopped, frames.Gone):
            raise
        except Failed as error:
            voice.say(failed=str(error)[:500])
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            voice.say(failed=f"{type(error).__name__}: {error}"[:500])
        voice.taken(0)
    except (_Stopped, frames.Gone):
        code = 143
    finally:
        spawner.end()
        room.close()
        os._exit(code)


def _answer(boxes: _Boxes, voice: frames.Voice, settings: Settings, rows: list[bytes]) -> None:
    first_box = boxes.open()
    voice.say(hello=boxes.hello(first_box))
    bounds = settings["limits"]
    place = barren = 0
    box: Box | None = first_box
    if settings["script"] is not None:
        box = _loaded(first_box, boxes, voice, settings, rows)
    while box is not None and place < len(rows):
        first = place
        # What comes later in the run may be what ended the box before anything could be told.
        begun = rows[place : place + 1] if barren else rows[place:]
        for told in each(box.run(begun, bounds, settings["isolation"] == "batch")):
            voice.say(row=place, told=frames.told(*told))
            voice.taken()
            place += 1
        barren = barren + 1 if place == first else 0
        if barren > _BARREN:
            raise Failed("boxes end before they tell of a row")
        if place < len(rows) and not box.alive:
            voice.say(loading=True)
            box = _loaded(boxes.open(), boxes, voice, settings, rows)
    if box is not None:
        done(box.close())
    voice.say(done=len(rows))


def _loaded(box: Box, boxes: _Boxes, voice: frames.Voice, settings: Settings, rows: list[bytes]) -> Box | None:
    """The box to go on with, None where loading did not go well; says how it went."""
    script, bounds = settings["script"].encode(), settings["limits"]
    how, payload, took, kept, said, _ = done(box.load(script, bounds))
    well = is_well(how, payload)
    loaded = frames.told(how, _WELL if well else payload, took, kept, said, False)
    voice.say(loaded=loaded, **({"left": box.left} if well and box.left else {}))
    if well and (not box.left or not rows):
        return box
    done(box.close())
    return _imported(box.modules, boxes, script, bounds) if well else None


def _imported(modules: bytes, boxes: _Boxes, script: bytes, bounds: Bounds) -> Box:
    """A box with what the script imported and not the script; with none, where the modules leave something too."""
    for names in (modules, b""):
        box = boxes.open()
        if done(box.imports(names, script, bounds)):
            return box
        done(box.close())
    raise Failed("no process without the script could be made ready for it")


class _Boxes:
    """Makes boxes, all alike."""

    def __init__(self, spawner: Spawner, ports: Ports, settings: Settings, room: Room) -> None:
        self._spawner, self._ports, self._settings, self._room = spawner, ports, settings, room
        self._level: int | None = None
        self._programs = settings["programs"].get(os.uname().machine, {}) if host_facts.knows_seccomp() else {}

    def open(self) -> Box:
        """A box without a script, ready for one. None is weaker than the first, of which the host was told."""
        levels = [_ALL, _ALL, _NO_FILTER, _BARE] if self._level is None else [self._level] * 3
        for level in levels:
            try:
                boot = functools.partial(self._boot, level=level)
                box = self._room.open(self._spawner, self._ports, boot, level == _BARE)
            except Broken as e:
                why = e
            else:
                self._level = level
                if self._settings["shut"] and not OFFLINE & set(self._words(box)):
                    raise Failed("nothing keeps scripts off the network")
                return box
        raise Failed(f"no process for the script could be started: {why}")

    def _boot(self, walls: dict[str, Any], level: int) -> tuple[dict[str, Any], bytes]:
        """What the box is told first, and its filter of system calls."""
        words = walls.pop("words")
        mounts = "mounts" in words
        apart = "uid" in words or ("users" in words and host_facts.newer_than(5, 14))
        program = binascii.a2b_base64(self._programs.get("own" if mounts else "shared", "")) if level == _ALL else b""
        told = walls | {
            "limits": host_facts.limits(self._settings["tmp"][0] if mounts else 0, apart, self._room),
            "network": self._settings["network"] is not None,
            "users": 0,
            "forks": apart or not program,
        }
        return told | self._room.boot(walls), program

    def _words(self, box: Box) -> list[str]:
        filtered = self._programs and self._level == _ALL
        return [*box.words, *(["seccomp"] if filtered else [])]

    def hello(self, box: Box) -> dict[str, Any]:
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


def _cut(whole: bytes, sizes: list[int]) -> list[bytes]:
    """The rows, one after the other."""
    rows, start = [], 0
    for size in sizes:
        rows.append(whole[start : start + size])
        start += size
    return rows


def _lost() -> NoReturn:
    raise Failed("the process that starts boxes has ended")


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    raise _Stopped
