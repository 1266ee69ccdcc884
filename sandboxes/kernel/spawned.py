"""The first process of a box, as the host started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable

from sandboxes.kernel import tree
from sandboxes.kernel.pipes import Printed
from sandboxes.kernel.plan import Plan


class BoxError(Exception):
    """A box could not be started; the message is what was said about it."""


class Spawned:
    """bubblewrap, or the guardian itself; lives until it is let go, or evalcell ends in whatever way."""

    def __init__(self, plan: Plan, channel: socket.socket, wake: Callable[[], None]) -> None:
        """Hands over `channel` and the plan's descriptors, and closes them here. Raises BoxError."""
        life, self._life = os.pipe()
        self._words = Printed(wake, 4096, 1 << 62)
        try:
            self._process = subprocess.Popen(
                [*plan.command, str(channel.fileno()), str(life)],
                stdin=subprocess.DEVNULL,
                stdout=self._words.write,
                stderr=self._words.write,
                env=plan.variables,
                cwd="/",
                pass_fds=(channel.fileno(), life, *plan.descriptors),
                start_new_session=True,
            )
        except OSError as e:
            os.close(self._life)
            self._words.close()
            raise BoxError(f"{plan.command[0]} cannot be started ({e.strerror})") from e
        finally:
            channel.close()
            for fd in (life, *plan.descriptors):
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
        os.close(self._life)

    async def end(self, grace: float) -> None:
        """Waits for the end, for so many seconds; then ends everything from outside."""
        try:
            await asyncio.wait_for(self.exit(), grace)
        except TimeoutError:
            while left := tree.descendants(self.pid):
                for pid in left:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.005)
            self._process.kill()
            await self.exit()
        finally:
            self._words.close()
