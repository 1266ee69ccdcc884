"""
One box, as the agent sees it: started, watched, ended. What runs in it is a holder's business.

Nothing that comes from it is trusted.
"""

from __future__ import annotations

import contextlib
import socket

from ..supervisor import procfs, shortage
from .channel import Broken, Channel
from .cleanup import sweep
from .event_loop import now

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .event_loop import Ports
    from .spawner import Spawner
    from .types import Boot, Told

START, GRACE = 20.0, 2.0
"""Seconds: to close the doors; to end all."""

_LOOK, _CROWD = 0.05, 96
"""Seconds between two looks at the memory; processes at most."""


class Box:
    """Made, used for one script, closed."""

    modules = b""
    """Those that the script has imported, a line each."""

    def __init__(self, spawner: Spawner, ports: Ports, boot: Boot, bare: bool) -> None:
        """`boot`: from the walls that could be put up to what the box is told first. Raises Broken."""
        self._spawner, self._ports = spawner, ports
        self._channel = Channel(ports)
        self._life, theirs = socket.socketpair()
        self._first = 0
        self.closed = False
        self.tells: dict[str, str] = {}
        """What it adds to the agent's greeting."""
        self.left: list[str] = []
        """What loading leaves that runs would share; such a box is not used: each run loads the script in another."""
        self._look_at = 0.0
        self._limit = 0
        self._owner: int | None = None
        """The user whose files on the machine are a run's own, where it has no place of its own."""
        self._full = ""
        self._shortage = shortage.Shortage()
        try:
            self._first = spawner.spawn(self._channel.theirs, theirs, bare)
            walls = self._heard(START)
            if "words" not in walls:
                raise Broken(str(walls.get("failed")))
            self.words = walls["words"]
            alone = {"mounts", "landlock"} & set(self.words)
            self._owner = None if alone else walls["owner"]
            self._boot, program = boot(walls)
            self._channel.say(self._boot, [program])
            hello = self._heard(START)
            if "hello" not in hello:
                raise Broken(str(hello.get("failed")))
            below = procfs.descendants(self._first)
            self._inner = below[-1] if below else 0
            shortage.first_to_go(self._inner)
            self._scale = procfs.Scale(self._inner)
        except BaseException:
            self.close()
            raise

    def load(self, source: bytes, limits: dict[str, Any]) -> Told:
        """
        How loading went: how, the reply or why, seconds, what was printed, how much that was.

        The box is of no more use where that was not well.
        """
        raise NotImplementedError

    def imports(self, modules: bytes, source: bytes, limits: dict[str, Any]) -> bool:
        """
        Has it import the modules, after which each run loads the script anew in a child of its own.

        False: something is left of them too, or they cannot be imported here; the box is of no more use.
        """
        raise NotImplementedError

    def run(self, payloads: list[bytes], first: int, limits: dict[str, Any], shared: bool) -> Iterator[Told]:
        """Yields what became of each row, from the first on; ends early when the box is no longer alive."""
        raise NotImplementedError

    @property
    def watched(self) -> bool:
        """Whether its memory can be seen."""
        return self._scale.works

    @property
    def alive(self) -> bool:
        return not (self._channel.gone or self.closed)

    def _heard(self, seconds: float) -> dict[str, Any]:
        return self._channel.heard(seconds)[0]

    def _why(self) -> tuple[str, bytes]:
        """How a box that has gone is told of: how, and why."""
        if self._channel.spoilt:
            return "ended", b"it broke the process that holds the script"
        return self._ended(True, b"it ended the process that holds the script")

    def _ended(self, killed: bool, why: bytes) -> tuple[str, bytes]:
        """The same of what has ended, or of an error: it is not the script's where the machine may be to blame."""
        short = self._shortage.since(killed)
        return ("lost", short.encode()) if short else ("ended", why)

    def _begin(self, limit: int) -> None:
        """From now on it may hold so many bytes."""
        self._limit, self._full = limit, ""
        self._look_at = now() + _LOOK

    def _wait(self, until: float) -> None:
        """
        Until something happens, or the time has come; looks at the memory now and then.

        A look may take long where a script has made it hard; what it finds after the script's time is not told.
        """
        self._ports.wait(min(until, self._look_at))
        if now() >= self._look_at and not self._full:
            found = self._over()
            self._full = found if now() < until else ""
            self._look_at = now() + _LOOK

    def _over(self) -> str:
        found = self._scale.processes()
        if len(found) > _CROWD:
            return "processes"
        return "memory" if self._scale.bytes(found, self._limit) > self._limit else ""

    def close(self) -> None:
        """Ends every process of the box; safe twice."""
        if self.closed:
            return
        self.closed = True
        self._channel.close()
        ended: list[bool] = []
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)  # the guardian ends all
        self._ports.add_reader(self._life.fileno(), lambda: ended.append(True))
        until = now() + GRACE
        while self._first and not ended and now() < until:
            self._ports.wait(until)
        self._ports.remove_reader(self._life.fileno())
        self._life.close()
        self._spawner.end_boxes(0.1 if ended else 0)
        if self._owner is not None:
            sweep(self._owner)
