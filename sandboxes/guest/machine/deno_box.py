"""
A box with Deno in it: a script that is loaded, and the runs of it, each in a Worker of its own.

It does for a machine what sandboxes/deno/deno_box.py does for the host. With isolation `call` no second box stands by.
"""

from __future__ import annotations

import contextlib
import os

from ..box import init
from ..deno import exec as deno
from ..supervisor import deno_fifo, procfs
from ..supervisor.blame import is_doubtful
from ..supervisor.deno_fifo import Asked, Told
from ..supervisor.pipes import Printed
from ..supervisor.timing import Timing
from . import host_facts
from .box import Box
from .channel import Broken
from .event_loop import nothing, now

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Protocol

    from . import types
    from .event_loop import Ports
    from .spawner import Spawner

    class _Closes(Protocol):
        def close(self) -> None: ...


_PIPES = ("asked", "told")


class Room:
    """What boxes with Deno are shown and told: the program, and a folder for two named pipes."""

    folders: Sequence[str] = ()
    serve = staticmethod(deno.serve)
    """What a box does once its doors are closed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.processes, self.descriptors = deno_fifo.THREADS + 3 * (os.cpu_count() or 1), deno_fifo.DESCRIPTORS
        self.program = host_facts.program("deno", host_facts.packages(settings["packages"]))
        self.missing = "" if self.program else "there is no Deno where it should be installed"
        self.pipes = f"{host_facts.TMP}/evalcell-{os.getrandom(8).hex()}"
        try:
            os.mkdir(self.pipes)
            # Not closed to the box's user, whoever that will be. Nobody else is there, and a frame has a key besides.
            os.chmod(self.pipes, 0o755)
        except OSError as error:
            self.missing = f"no named pipes can be made in {host_facts.TMP}: {error.strerror}"
        self.shown = [] if self.missing or not self.program else [self.program, self.pipes]

    def boot(self, walls: dict[str, Any]) -> dict[str, Any]:
        """What a box is told, besides what each is. There is no folder to write to."""
        program, pipes = (init.moved_path(path, walls["moved"]) for path in (self.program or "", self.pipes))
        return {"program": program, "pipes": pipes, "tmp": None}

    def open(self, spawner: Spawner, ports: Ports, boot: types.Boot, bare: bool) -> Box:
        """A box with Deno in it, and no script yet. Raises Broken."""
        if self.missing:
            raise Broken(self.missing)
        self.clear()
        for name in _PIPES:
            os.mkfifo(f"{self.pipes}/{name}")
            os.chmod(f"{self.pipes}/{name}", 0o666)
        return DenoBox(spawner, ports, boot, bare, self)

    def clear(self) -> None:
        """Nobody can open the pipes any more."""
        for name in _PIPES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.pipes}/{name}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.clear()
            os.rmdir(self.pipes)


class DenoBox(Box):
    """One Deno process: made, used for one script, closed."""

    def __init__(self, spawner: Spawner, ports: Ports, boot: types.Boot, bare: bool, room: Room) -> None:
        self._pipes: list[_Closes] = []
        self._settling = False
        """Whether a run is over of which something may go on."""
        super().__init__(spawner, ports, boot, bare)
        try:
            self._launch(room, room.settings["limits"])
        except BaseException:
            self.close()
            raise

    def _launch(self, room: Room, limits: dict[str, Any]) -> None:
        """Has the inner process become Deno. Raises Broken."""
        self._told = Told(f"{room.pipes}/told", nothing, self._ports)
        self._pipes.append(self._told)
        self._printed = Printed(nothing, limits["output"], limits["flood"], loop=self._ports)
        self._pipes.append(self._printed)
        self._asked = Asked(f"{room.pipes}/asked", self._ports)
        self._pipes.append(self._asked)
        self._begin(limits["memory"] + deno_fifo.ROOM)
        deno = room.settings["deno"]
        message = {
            "arguments": [word.replace(deno["pipes"], self._boot["pipes"]) for word in deno["arguments"]],
            "variables": deno["variables"],
            "memory": limits["memory"] + deno_fifo.ROOM,
        }
        self._channel.say(message, (), [self._printed.write])
        self._printed.handed_over()
        how, payload, _ = self._next((deno_fifo.HELLO,), 0, now() + deno_fifo.START)
        room.clear()
        if how != "frame":
            heard = self._channel.message()
            said = deno_fifo.why_not(self._printed.cut()[0])
            why = heard[0].get("failed") if heard else said or payload.decode("utf-8", "replace") or how
            raise Broken(f"Deno does not start: {why}")
        self.tells = {"deno": payload.decode("utf-8", "replace")[:32]}
        self._told.longest = limits["longest"]

    @property
    def alive(self) -> bool:
        return not (self.closed or self._told.ended) if self._pipes else super().alive

    def _memory(self) -> int:
        return self._scale.bytes([self._inner], 1 << 62)

    def load(self, source: bytes, limits: dict[str, Any]) -> types.Told:
        """As `Box.load`; `source`: what main.js is told first."""
        began = now()
        self._begin(self._memory() + limits["memory"] + deno_fifo.SPARE)
        self._asked.say([source])
        how, payload, _ = self._next((deno_fifo.LOADED,), 0, began + limits["load_timeout"])
        took = now() - began
        found = _told(how, payload, took, *self._printed.cut())
        self._held = self._memory()
        return found

    def run(self, payloads: list[bytes], first: int, limits: dict[str, Any], shared: bool) -> Iterator[types.Told]:
        """
        Yields what became of each row, from the first on; ends early when the box is no longer alive.

        That is: how, the reply or why, seconds, what was printed, how much that was.
        """
        place = first
        while place < len(payloads) and self._quiet():
            count = deno_fifo.together([len(payload) for payload in payloads[place:]]) if shared else 1
            for told in self._attempt(payloads[place : place + count], limits):
                yield told
                place += 1

    def _attempt(self, payloads: list[bytes], limits: dict[str, Any]) -> Iterator[types.Told]:
        """One Worker: the rows it came through, and the one that ended it. The whole process ends with some."""
        mark = os.getrandom(16).hex().encode()
        memory = self._memory()
        self._printed.expect(limits["output"], limits["flood"], mark, len(payloads))
        self._begin(memory + limits["memory"] + deno_fifo.SPARE)
        well = False
        try:
            sent = now()
            self._asked.say([mark, *payloads])
            how, payload, _ = self._next((deno_fifo.BEGUN, deno_fifo.GONE), 0, now() + limits["load_timeout"])
            if how == "ended" and self._settling:
                return  # the row had not begun: a run before it has left what ended the process
            self._printed.cut()
            loads = how == "frame" and deno_fifo.is_well(payload)
            place, broken = 0, False
            timing = Timing()
            timing.start(self._told.arrivals.onward, sent)
            while place < len(payloads) and not broken:
                took = -1.0
                if loads:  # else that is what became of each row: a script that loads once and not always
                    how, payload, took = self._result(place, timing, limits["timeout"])
                if how == "ended" and self._printed.passed():
                    return  # the row was over, and a later one ended the process before it could be told
                spent = timing.took(took, now())
                timing.next(self._told.arrivals)
                kept, said = self._printed.cut(how in ("frame", "gone"))
                told = _told(how, payload, spent, kept, said)
                doubtful = is_doubtful(*told[:2])
                broken = doubtful or how != "frame"
                well = how == "gone" or (how == "frame" and place + 1 == len(payloads))
                if not (doubtful and place):  # else it is tried again, in a Worker of its own
                    yield told
                    timing.look(now())
                place += 1
        finally:
            self._settling = True
            if not well or memory > self._held + deno_fifo.GROWN:
                self.close()

    def _quiet(self) -> bool:
        """
        Whether another run may begin: the next Worker is ready, and nothing of the run before goes on.

        Else the box is closed: `terminate()` does not end all that a Worker has begun.
        """
        if not (self.alive and self._settling):
            return self.alive
        ready = self._next((deno_fifo.READY,), 0, now() + deno_fifo.START)[0] == "frame"
        until = now() + deno_fifo.SETTLE
        while ready and not procfs.deno_is_quiet(self._inner):
            ready = now() < until and self.alive
            self._ports.wait(now() + 0.002)
        if not ready:
            self.close()
        return ready

    def _result(self, place: int, timing: Timing, timeout: float) -> tuple[str, bytes, float]:
        found = self._next((deno_fifo.RESULT, deno_fifo.GONE), place, timing.until(timeout, False))
        if found[0] == "timeout" and self._told.begun:
            return self._next((deno_fifo.RESULT, deno_fifo.GONE), place, timing.until(timeout, True))
        return found

    def _next(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float]:
        """
        What happens next: `frame` with its text and seconds; `gone` with why the Worker is; or how the process fails.

        What Deno has told counts before anything that speaks against the script.
        """
        while (found := self._happened(kinds, place, until)) is None:
            self._wait(until)
        return found

    def _happened(self, kinds: tuple[int, ...], place: int, until: float) -> tuple[str, bytes, float] | None:
        frame = self._told.next()
        if frame is not None:
            if frame.kind not in kinds or frame.place != place:
                return "unreadable", b"what came from it is no result", -1.0
            return ("gone", frame.text, -1.0) if frame.kind == deno_fifo.GONE else ("frame", frame.text, frame.seconds)
        if self._full:
            return self._full, b"", -1.0
        if self._printed.flooded:
            return "flood", b"", -1.0
        if self._told.flawed:
            return "unreadable", self._told.flawed.encode(), -1.0
        if self._told.ended or self._printed.ended:
            return self._happened(kinds, place, until) if self._told.pull() else (*self._why(), -1.0)
        if now() <= until:
            return None
        return self._happened(kinds, place, until) if self._told.pull() else ("timeout", b"", -1.0)

    def close(self) -> None:
        """Ends every process of the box; safe twice."""
        for pipe in self._pipes:
            pipe.close()
        super().close()


def _told(how: str, payload: bytes, spent: float, kept: bytes, said: int) -> tuple[str, bytes, float, bytes, int]:
    """As a row is told of; a heap that was full is found in what the engine said of it."""
    if how == "ended" and (at := deno_fifo.end_of_heap(kept)) >= 0:
        return "memory", b"", spent, kept[:at], said - len(kept) + at
    return {"frame": "reply", "gone": "ended"}.get(how, how), payload, spent, kept, said
