"""The host's side of one box: start it, watch it, and end it, whatever it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable

from sandboxes.boxes.channel import Channel
from sandboxes.boxes.launch import Plan
from sandboxes.boxes.memory_watch import Watch
from sandboxes.errors import SandboxLostError
from sandboxes.guest.supervisor import procfs, shortage
from sandboxes.guest.supervisor.pipes import Printed
from sandboxes.handle import own_handle
from sandboxes.shield import begun, ended

GRACE = 2.0
"""Seconds that a box's own processes have for what takes them milliseconds; then they are ended from outside."""

INNER_ENDED, INNER_KILLED = 70, 71
"""See guest/box/init.py."""


class BoxError(Exception):
    """A box could not be started; the message is what was said about it."""


class ShortageError(BoxError):
    """The machine has no room for another box at the moment, whichever its tier; the message says what to do."""


class Box:
    """One guardian with what it guards, for one script."""

    def __init__(self, plan: Plan) -> None:
        """Starts its first process. Raises BoxError."""
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._channel = Channel(self._event)
        self._ending: asyncio.Task[None] | None = None
        self._inner = 0
        self._shortage = shortage.Shortage()
        self._watch = Watch(self._watched, self._event.set, self.end)
        try:
            self._first = FirstProcess(plan, self._channel.theirs, self._event.set)
        except BaseException:
            self._channel.close()
            raise

    @property
    def closed(self) -> bool:
        return self._ending is not None

    @property
    def alive(self) -> bool:
        return not (self._channel.gone or self.closed)

    async def start(self, seconds: float) -> None:
        """Waits until the doors are closed and the box is ready for a script. Raises BoxError."""
        try:
            await self._channel.say(self._plan.boot, [self._plan.program])
            message, _ = await self._channel.heard(self._loop.time() + seconds)
            if "hello" not in message:
                raise BoxError(str(message.get("failed")))
            self._inner = self._find_inner()
            shortage.first_to_go(self._inner)
        except (SandboxLostError, TimeoutError, BoxError) as e:
            try:
                said = str(e) if isinstance(e, BoxError) else await self._first.last_words()
            finally:
                await self.close()
            if why := shortage.why_said(said) or self._shortage.since(killed=not said):
                raise ShortageError(why) from e
            raise BoxError(said or f"no sign of life ({type(e).__name__})") from e
        except BaseException:
            await self.close()
            raise

    def _find_inner(self) -> int:
        below = procfs.descendants(self._first.pid)
        if not below:
            raise BoxError("its processes cannot be seen from outside")
        return below[-1]

    def _watched(self) -> list[int]:
        return [self._inner, *procfs.descendants(self._inner)]

    async def _why(self) -> str:
        """Why the box has gone. Raises SandboxLostError where the script cannot have done it."""
        if self._channel.spoilt:
            await self.close()
            return "it broke the process that holds the script"
        status: int | None = None
        with contextlib.suppress(TimeoutError):
            status = await asyncio.wait_for(self._first.exit(), GRACE)
        await self.close()
        if status in (None, INNER_ENDED, INNER_KILLED):
            self._unless_short(killed=status == INNER_KILLED)
            return "it ended the process that holds the script"
        raise SandboxLostError(f"the sandbox was ended from outside (status {status})")

    def _unless_short(self, killed: bool) -> None:
        """
        To be called before a script is blamed for what has ended, or for an error that it raised.

        Raises SandboxLostError where the machine may be to blame; `killed` as for `Shortage.since`.
        """
        if why := self._shortage.since(killed):
            raise SandboxLostError(why)

    async def close(self) -> None:
        """Ends every process of the box, and waits for that, be it cancelled meanwhile; safe twice."""
        await ended(self.end())

    def end(self) -> asyncio.Task[None]:
        """Begins to end it, for who cannot wait: the end itself waits for what the box has under way."""
        if self._ending is None:
            self._channel.close()
            self._first.let_go()
            self._ending = begun(self._end)
        return self._ending

    async def _end(self) -> None:
        await self._watch.close()
        await self._first.end(GRACE)


class FirstProcess:
    """bubblewrap, or the guardian itself; lives until it is let go, or evalcell ends in whatever way."""

    def __init__(self, plan: Plan, channel: socket.socket, wake: Callable[[], None]) -> None:
        """Hands over `channel` and the plan's descriptors, and closes them here. Raises BoxError."""
        self._life, life = socket.socketpair()
        host = own_handle()
        self._words = Printed(wake, 4096, 1 << 62)
        passed = (channel.fileno(), life.fileno(), *([host] if host is not None else []))
        try:
            self._process = subprocess.Popen(
                [*plan.command, *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=self._words.write,
                stderr=self._words.write,
                env=plan.variables,
                cwd="/",
                pass_fds=(*passed, *plan.descriptors),
                start_new_session=True,
            )
        except OSError as e:
            self._life.close()
            self._words.close()
            if why := shortage.why(e):
                raise ShortageError(why) from e
            raise BoxError(f"{plan.command[0]} cannot be started ({e.strerror})") from e
        finally:
            channel.close()
            life.close()
            for fd in (*passed[2:], *plan.descriptors):
                os.close(fd)
        self._words.handed_over()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def last_words(self) -> str:
        """The last line that it said, at its end where that comes soon."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.exit(), 1)
        said = self._words.cut()[0].decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else ""

    async def exit(self) -> int:
        """Its exit status, waiting for it."""
        while (status := self._process.poll()) is None:
            await asyncio.sleep(0.002)
        return status

    def let_go(self) -> None:
        """Has the guardian end everything; to be called once."""
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_RDWR)  # closing alone tells nothing while a child that we forked holds it
        self._life.close()

    async def end(self, grace: float) -> None:
        """
        Waits for the end, for so many seconds; then ends everything from outside. Safe twice.

        Returns after as many seconds more at the latest: there are processes that the kernel itself cannot end.
        """
        try:
            await asyncio.wait_for(self.exit(), grace)
        except TimeoutError:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._killed(), grace)
        finally:
            self._words.close()

    async def _killed(self) -> None:
        while left := procfs.descendants(self.pid):
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.005)
        self._process.kill()
        await self.exit()
