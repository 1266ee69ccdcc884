"""
A box with a Python in it that forks: a script that is loaded, and the runs of it, each in a child of its own.

It does for a machine what sandboxes/process/python_box.py does for the host.
"""

from __future__ import annotations

import contextlib
import os

from ..box import init
from ..python import leftovers, zygote
from ..supervisor import procfs
from ..supervisor.blame import is_doubtful, is_error, was_killed
from ..supervisor.pipes import Printed
from ..supervisor.shortage import PROCESSES
from . import host_facts
from .box import Box
from .channel import Broken
from .cleanup import sweep
from .event_loop import nothing, now
from .run import Run

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .event_loop import Ports
    from .spawner import Spawner
    from .types import Boot, Told

STOP, PROMPT = 0.3, 0.05
"""Seconds: to stop a run; in which a run that is done has ended by itself."""

_ROOM = 1 << 30
"""Bytes, on top of the memory limit, that importing packages may reserve without using them."""

_LONGEST = 1 << 18
"""Bytes of what a box says of its loading, at most; rows have pipes of their own."""


_WELL = b'{"status":"ok"'
"""How a reply begins that says that the script has loaded, as it does where the script has not written it itself."""

_OF_MODULES = {*leftovers.IMPORTED}


class Room:
    """What boxes with Python are shown and told."""

    processes, descriptors = 48, 64  # as in the process sandbox: a numeric library needs a handful
    program: str | None = None
    pipes: str | None = None
    serve = staticmethod(zygote.serve)
    """What a box does once its doors are closed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.folders = host_facts.packages(settings["packages"])
        """Of packages; those but the last are added by whoever starts a box."""
        self._files, self._variables = settings["files"], settings["variables"]
        self.shown = [*self.folders, *{os.path.dirname(path) for path in self._files.values()}]

    def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
        """What a box is told, besides what each is."""
        moved = walls["moved"]
        files = {name: init.moved_path(path, moved) for name, path in self._files.items()}
        packages = init.moved_path(self.folders[-1], moved) if self.folders else None
        return {"packages": packages, "variables": files | self._variables}

    def open(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> Box:
        """A box without a script. Raises Broken."""
        return PythonBox(spawner, ports, boot, bare)

    def close(self) -> None:
        """Nothing was made."""


class PythonBox(Box):
    """A box: made, used for one script, closed."""

    _source: bytes | None = None
    """Of the script, where each run loads it."""

    def load(self, source: bytes, limits: dict[str, Any]) -> Told:
        return self._load("load", source, limits)

    def imports(self, modules: bytes, source: bytes, limits: dict[str, Any]) -> bool:
        self._source = source
        return self._load("import", modules, limits)[0] == "reply" and not _OF_MODULES & {*self.left}

    def _load(self, do: str, what: bytes, limits: dict[str, Any]) -> Told:
        self._channel.longest = _LONGEST
        printed = Printed(nothing, limits["output"], limits["flood"], loop=self._ports)
        began = now()
        try:
            self._begin(limits["memory"])
            message = {"do": do, "seed": 0, "memory": limits["memory"] + _ROOM}
            with contextlib.suppress(Broken):  # the script has ended it, as is found below
                self._channel.say(message, [what], [printed.write])
            printed.handed_over()
            until = began + limits["load_timeout"]
            while (found := self._loaded(printed, until)) is None:
                self._wait(until)
            how, payload = found
            took = now() - began
            if how == "reply" and (full := self._over()):  # it was quicker than the looks
                how, payload = full, b""
            kept, said = printed.cut()
            self._reserved, self._held = self._scale.start()
            if self._owner is not None and sweep(self._owner) and how == "reply" and "files" not in self.left:
                self.left.append("files")
            return how, payload, took, kept, said
        finally:
            printed.close()

    def _loaded(self, printed: Printed, until: float) -> tuple[str, bytes] | None:
        if self._full:
            return self._full, b""
        heard = self._channel.message()
        if heard is not None:
            message, reply = heard
            if "loaded" not in message:
                return self._ended(True, _words(message.get("failed", "it broke the process that holds the script")))
            if is_error(reply) and (short := self._shortage.since(True)):
                return "lost", short.encode()
            if procfs.children(self._inner):
                return "ended", b"it left processes behind"
            left, end = message.get("left"), message["loaded"]
            if type(end) is not int or not isinstance(left, list):
                return "ended", b"it broke the process that holds the script"
            self.left = [word for word in leftovers.ALL if word in left]
            if procfs.shares_memory(self._inner) and "memory" not in self.left:
                self.left.append("memory")
            self.modules = reply[end:]
            return "reply", reply[:end]
        if printed.flooded:
            return "flood", b""
        if not self.alive:
            return self._why()
        return ("timeout", b"") if now() > until else None

    def run(self, payloads: list[bytes], first: int, limits: dict[str, Any], shared: bool) -> Iterator[Told]:
        """
        Yields what became of each row, from the first on; ends early when the box is no longer alive.

        That is: how, the reply or why, seconds, what was printed, how much that was, the status of a child that ended.
        """
        place = first
        while place < len(payloads) and self.alive:
            last = len(payloads) if shared else place + 1
            for told in self._attempt(payloads[place:last], limits):
                yield told
                place += 1

    def _attempt(self, payloads: list[bytes], limits: dict[str, Any]) -> Iterator[Told]:
        """One child: the rows it came through, and the one that ended it."""
        run = Run(payloads, limits, self._ports, self._source)
        try:
            self._begin(limits["memory"])
            message: dict[str, Any] = {"do": "run", "calls": len(payloads), "mark": run.mark.hex()}
            message["loads"] = self._source is not None
            message["memory"] = self._reserved + max(0, limits["memory"] - self._held)
            if message["loads"] or not self._reserved:  # it imports, or the kernel does not tell
                message["memory"] += _ROOM
            with contextlib.suppress(Broken):  # the script has ended it, as is found below
                self._channel.say(message, (), run.theirs)
            run.begin()
            failed = self._loading(run, limits) if message["loads"] else None
            if failed is not None:  # it loads once and not always: a script that draws lots
                run.broken, run.place = True, len(payloads)
                self._settle(run)
                yield from [failed] * (1 if failed[0] == "lost" else len(payloads))  # the others had not begun
                return
            while run.place < len(payloads) and not run.broken:
                how, payload, took = self._happens(run, limits["timeout"])
                doubtful = is_doubtful(how, payload)
                if doubtful and run.place:
                    break  # it is tried again, in a child of its own
                spent = run.timing.took(took, now())
                kept, said = run.printed.cut(how == "reply")
                status = run.ended.get("ended") if run.ended and how == "ended" else None
                run.place += 1
                run.timing.next(run.results.arrivals)
                run.broken = doubtful or how != "reply"
                if run.broken or run.place == len(payloads):
                    self._settle(run)
                yield how, payload, spent, kept, said, status
                run.timing.look(now())
        finally:
            run.close()
            if not run.settled:
                self._settle(run)

    def _loading(self, run: Run, limits: dict[str, Any]) -> Told | None:
        """How loading the script went in the run's child, as of a row; None where well."""
        how, payload, took = self._happens(run, limits["load_timeout"])
        spent = run.timing.took(took, now())
        kept, said = run.printed.cut(how == "reply")
        if how == "reply" and payload.startswith(_WELL):
            run.timing.next(run.results.arrivals)
            return None
        status = run.ended.get("ended") if run.ended and how == "ended" else None
        return how, payload, spent, kept, said, status, True

    def _happens(self, run: Run, timeout: float) -> tuple[str, bytes, float]:
        """What `_told` tells, as soon as it does."""
        while (found := self._told(run, timeout)) is None:
            self._wait(run.timing.until(timeout, run.results.begun))
        return found

    def _told(self, run: Run, timeout: float) -> tuple[str, bytes, float] | None:
        """
        How the row at hand has gone, by what is known so far: how, the reply or why, the seconds it says it took.
        """
        found = run.results.next(run.place)
        if found is not None:
            if is_error(found[0]) and (short := self._shortage.since(True)):
                return "lost", short.encode(), -1.0
            return "reply", *found
        if self._full:
            return self._full, b"", -1.0
        if run.printed.flooded:
            return "flood", b"", -1.0
        if run.results.flawed:
            return "unreadable", _words(run.results.flawed), -1.0
        if run.ended is not None:
            return *self._ended(was_killed(run.ended.get("ended")), b""), -1.0
        heard = self._channel.message()
        if heard is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                return "lost", PROCESSES.encode(), -1.0
            return self._told(run, timeout)
        if not self.alive:
            return *self._why(), -1.0
        return ("timeout", b"", -1.0) if now() > run.timing.until(timeout, run.results.begun) else None

    def _settle(self, run: Run) -> None:
        """Waits for the run's end, or stops it; a box that does not answer as it should, or is full, is closed."""
        run.settled = True
        if not self.alive:
            self.close()
            return
        try:
            if run.ended is None and run.place == run.calls and not run.broken:
                with contextlib.suppress(Broken):
                    run.ended = self._heard(PROMPT)
            if run.ended is None:
                self._channel.say({"do": "stop"})
                run.ended = self._heard(STOP)
            if "ended" not in run.ended or procfs.children(self._inner) or (self._full and self._over()):
                self.close()
            elif self._owner is not None:
                sweep(self._owner)
        except Broken:
            self.close()


def _words(why: object) -> bytes:
    return str(why)[:200].encode("utf-8", "replace")
