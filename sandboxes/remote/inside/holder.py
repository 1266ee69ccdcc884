"""
One box, as the harness sees it: a script that is loaded, and the runs of it.

Nothing that comes from it is trusted. It does for a machine what sandboxes/process/box.py does for the host.
"""

import contextlib
import socket
from pipes import Printed

import tree
import weigh
from attempt import Run, nothing
from channel import Broken, Channel
from ports import now
from sweep import sweep

START, GRACE, STOP, PROMPT = 20.0, 2.0, 0.3, 0.05
"""Seconds: to close the doors; to end all; to stop a run; in which a run that is done has ended by itself."""

_ROOM = 1 << 30
"""Bytes, on top of the memory limit, that importing packages may reserve without using them."""

_LONGEST = 1 << 18
"""Bytes of what a box says of its loading, at most; rows have pipes of their own."""

_LOOK, _CROWD = 0.05, 96
"""Seconds between two looks at the memory; processes at most."""


class Holder:
    """A box: made, used for one script, closed."""

    def __init__(self, spawner, ports, boot, bare):
        """`boot`: from the walls that could be put up to what the box is told first. Raises Broken."""
        self._spawner, self._ports = spawner, ports
        self._channel = Channel(ports)
        self._life, theirs = socket.socketpair()
        self._first = 0
        self.closed = False
        self._look_at = self._limit = 0
        self._owner = None
        """The user whose files on the machine are a run's own, where it has no place of its own."""
        self._full = ""
        try:
            self._first = spawner.spawn(self._channel.theirs, theirs, bare)
            walls = self._heard(START)
            if "words" not in walls:
                raise Broken(str(walls.get("failed")))
            self.words = walls["words"]
            alone = {"mounts", "landlock"} & set(self.words)
            self._owner = None if alone else walls["owner"]
            told, program = boot(walls)
            self._channel.say(told, [program])
            hello = self._heard(START)
            if "hello" not in hello:
                raise Broken(str(hello.get("failed")))
            below = tree.descendants(self._first)
            self._inner = below[-1] if below else 0
            self._scale = weigh.Scale(self._inner)
            self.confined = told["confined"]
        except BaseException:
            self.close()
            raise

    @property
    def watched(self):
        """Whether its memory can be seen."""
        return self._scale.works

    @property
    def alive(self):
        return not (self._channel.gone or self.closed)

    def _heard(self, seconds):
        return self._channel.heard(seconds)[0]

    def load(self, source, limits):
        """
        How loading went: how, the reply or why, seconds, what was printed, how much that was.

        The box is of no more use where that was not well.
        """
        self._channel.longest = _LONGEST
        printed = Printed(nothing, limits["output"], limits["flood"], loop=self._ports)
        began = now()
        try:
            self._begin(limits)
            message = {"do": "load", "seed": 0, "memory": limits["memory"] + _ROOM}
            with contextlib.suppress(Broken):  # the script has ended it, as is found below
                self._channel.say(message, [source], [printed.write])
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
            if self._owner is not None:
                sweep(self._owner)
            return how, payload, took, kept, said
        finally:
            printed.close()

    def _loaded(self, printed, until):
        if self._full:
            return self._full, b""
        heard = self._channel.message()
        if heard is not None:
            message, reply = heard
            if "loaded" not in message:
                return "ended", _words(message.get("failed", "it broke the process that holds the script"))
            return ("ended", b"it left processes behind") if tree.children(self._inner) else ("reply", reply)
        if printed.flooded:
            return "flood", b""
        if not self.alive:
            return "ended", self._why()
        return ("timeout", b"") if now() > until else None

    def run(self, payloads, first, limits, shared):
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

    def _attempt(self, payloads, limits):
        """One child: the rows it came through, and the one that ended it."""
        run = Run(payloads, limits, self._ports)
        try:
            self._begin(limits)
            message = {"do": "run", "calls": len(payloads), "mark": run.mark.hex()}
            message["memory"] = self._reserved + max(0, limits["memory"] - self._held)
            if not self._reserved:  # the kernel does not tell
                message["memory"] += _ROOM
            with contextlib.suppress(Broken):  # the script has ended it, as is found below
                self._channel.say(message, (), run.theirs)
            run.begin()
            while run.place < len(payloads) and not run.broken:
                while (found := self._told(run, limits["timeout"])) is None:
                    self._wait(run.began + limits["timeout"])
                how, payload, took = found
                doubtful = _is_doubtful(how, payload)
                if doubtful and run.place:
                    break  # it is tried again, in a child of its own
                spent = now() - run.began
                if how == "reply" and 0 <= took < spent:  # it is what the child says; coming here took time too
                    spent = took
                kept, said = run.printed.cut(how == "reply")
                status = run.ended.get("ended") if run.ended and how == "ended" else None
                run.place += 1
                run.broken = doubtful or how != "reply"
                if run.broken or run.place == len(payloads):
                    self._settle(run)
                yield how, payload, spent, kept, said, status
                run.began = now()
        finally:
            run.close()
            if not run.settled:
                self._settle(run)

    def _told(self, run, timeout):
        """
        How the row at hand has gone, by what is known so far: how, the reply or why, the seconds it says it took.
        """
        found = run.results.next(run.place)
        if found is not None:
            return "reply", *found
        if self._full:
            return self._full, b"", 0.0
        if run.printed.flooded:
            return "flood", b"", 0.0
        if run.results.flawed:
            return "unreadable", _words(run.results.flawed), 0.0
        if run.ended is not None:
            return "ended", b"", 0.0
        heard = self._channel.message()
        if heard is not None:
            run.ended = heard[0]
            if "refused" in run.ended:
                raise Broken("the machine has no room for another process")
            return self._told(run, timeout)
        if not self.alive:
            return "ended", self._why(), 0.0
        return ("timeout", b"", 0.0) if now() > run.began + timeout else None

    def _settle(self, run):
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
            if "ended" not in run.ended or tree.children(self._inner) or (self._full and self._over()):
                self.close()
            elif self._owner is not None:
                sweep(self._owner)
        except Broken:
            self.close()

    def _why(self):
        if self._channel.spoilt:
            return b"it broke the process that holds the script"
        return b"it ended the process that holds the script"

    def _begin(self, limits):
        self._limit, self._full = limits["memory"], ""
        self._look_at = now() + _LOOK

    def _wait(self, until):
        """
        Until something happens, or the time has come; looks at the memory now and then.

        A look may take long where a script has made it hard; what it finds after the script's time is not told.
        """
        self._ports.wait(min(until, self._look_at))
        if now() >= self._look_at and not self._full:
            found = self._over()
            self._full = found if now() < until else ""
            self._look_at = now() + _LOOK

    def _over(self):
        found = self._scale.processes()
        if len(found) > _CROWD:
            return "processes"
        return "memory" if self._scale.bytes(found, self._limit) > self._limit else ""

    def close(self):
        """Ends every process of the box; safe twice."""
        if self.closed:
            return
        self.closed = True
        self._channel.close()
        ended = []
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


def _is_doubtful(how, payload):
    """As sandboxes/replies.py says: whether it may be the doing of the rows before it."""
    return how not in ("reply", "timeout") or (how == "reply" and payload.startswith(b'{"status":"memory"'))


def _words(why):
    return str(why)[:200].encode("utf-8", "replace")
