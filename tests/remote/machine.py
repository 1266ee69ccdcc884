"""
Machines for the local servers, in which programs really run: a bubblewrap each, with processes and files of its own.

The first process of a machine is the agent, which starts the others. When a machine ends, all that ever ran in it ends
with it: the kernel sees to that for a namespace of processes whose first one is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import signal
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from tests.remote import room
from tests.remote.running import Process, reader, writer

__all__ = ["Machine", "MachineGone", "Machines", "Process"]

T = TypeVar("T")

_PACKET, _PASSED = 64 * 1024, 4
_SECONDS = 20.0
"""For a machine to be there, which takes some 60 ms; the host may be busy."""


class MachineGone(LookupError):
    """It has ended, or never was."""


class Machine:
    """One machine. Made by `Machines.create`."""

    def __init__(self, id: str, key: str, tags: Mapping[str, str], home: str, network: bool) -> None:
        self.id = id
        self.key = key
        self.tags = dict(tags)
        self.home = home
        self.network = network
        """It may be set later: it holds for programs started from then on."""
        self.started = datetime.now(UTC)
        self.ends: float | None = None
        """When it ends by itself, by the loop's clock."""
        self.why = ""
        """Why it ended."""
        self.data: dict[str, Any] = {}
        """The server's own."""
        self._link: socket.socket | None = None
        self._bwrap: asyncio.subprocess.Process | None = None
        self.first = 0
        """The number of its first process, as the host counts."""
        self._handle = -1
        self._death: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._running: dict[int, asyncio.Future[int]] = {}
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def alive(self) -> bool:
        return self._link is not None and self._ending is None

    async def boot(self) -> None:
        """Raises RuntimeError with bubblewrap's own words where it cannot be."""
        bwrap, reason = room.bubblewrap()
        if bwrap is None:
            raise RuntimeError(reason)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        told, tell = os.pipe()
        accounts = [_memory(text) for text in room.accounts()]
        passed = (theirs.fileno(), tell, *accounts)
        try:
            command = room.walls(bwrap, network=True, descriptors=(accounts[0], accounts[1]))
            command += ["--info-fd", str(tell), *room.agent(theirs.fileno())]
            self._bwrap = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, pass_fds=passed
            )
        finally:
            theirs.close()
            for descriptor in passed[1:]:
                os.close(descriptor)
        ours.setblocking(False)
        self._link = ours
        asyncio.get_running_loop().add_reader(ours, self._hear)
        try:
            await asyncio.wait_for(self.ask("mkdir", path=self.home, uid=_uid(room.USER)), _SECONDS)
            self.first = json.loads(os.read(told, 4096))["child-pid"]
            self._handle = os.pidfd_open(self.first)
        except BaseException:
            await self.end("it could not be started")
            raise
        finally:
            os.close(told)

    def live_for(self, seconds: float | None) -> None:
        """It ends by itself so many seconds from now. None: it does not."""
        loop = asyncio.get_running_loop()
        if self._death:
            self._death.cancel()
        self._death = self.ends = None
        if seconds is not None:
            self.ends = loop.time() + seconds
            self._death = loop.call_later(seconds, self._end, "its time was over")

    async def start_program(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str = "root",
        stdin: bool = True,
        merge: bool = False,
        path: str = room.PATH,
    ) -> Process:
        """
        `stdin`: a pipe, which stays open until it is closed; else there is nothing to read.
        `merge`: stderr goes where stdout does.

        Raises an OSError whose filename is the program or the folder that is the reason, and MachineGone.
        """
        reads, writes = zip(*(os.pipe() for _ in range(1 if merge else 2)), strict=True)
        inner, outer = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1)
        given = [inner, writes[0], writes[-1]]
        variables = {**room.variables(user, self.home, path), **(env or {})}
        asked: dict[str, Any] = {"argv": list(argv), "env": variables, "cwd": cwd or self.home, "uid": _uid(user)}
        try:
            answer, _ = await self.ask("start", given, network=self.network, **asked)
        except BaseException:
            _close(*reads, *([outer] if stdin else []))
            raise
        finally:
            _close(inner, *writes)
        readers = [self._kept(await reader(descriptor)) for descriptor in reads]
        if merge:
            readers.append(asyncio.StreamReader())
            readers[1].feed_eof()
        writing = self._kept(await writer(outer)) if stdin else None
        return Process(self.ask, answer["pid"], self._running[answer["pid"]], readers, writing)

    def _kept(self, opened: tuple[T, asyncio.BaseTransport]) -> T:
        """Closed at the machine's end."""
        self._transports.append(opened[1])
        return opened[0]

    async def read(self, path: str) -> bytes:
        """Raises an OSError as open() does, and MachineGone."""
        _, passed = await self.ask("open", path=path, write=False, uid=None)
        with os.fdopen(passed[0], "rb") as file:
            return file.read()

    async def write(self, path: str, data: bytes, user: str = "root") -> None:
        """Makes the folders above too. Raises an OSError as open() does, and MachineGone."""
        _, passed = await self.ask("open", path=path, write=True, uid=_uid(user))
        with os.fdopen(passed[0], "wb") as file:
            file.write(data)

    async def mkdir(self, path: str, user: str = "root") -> None:
        await self.ask("mkdir", path=path, uid=_uid(user))

    async def processes(self) -> int:
        """How many run in it, the agent not counted."""
        answer, _ = await self.ask("count")
        return int(answer["count"])

    async def kill_all(self, number: int = signal.SIGKILL) -> None:
        """All that runs in it; the machine lives on."""
        await self.ask("signal", number=number)

    async def end(self, why: str) -> None:
        """Returns when nothing of it is left; may be called again, and by many."""
        self._end(why)
        if self._ending:
            await asyncio.shield(self._ending)

    def _end(self, why: str) -> None:
        if self._ending is None and self._bwrap is not None:
            self.why = why
            self._ending = asyncio.get_running_loop().create_task(self._dismantle())

    async def _dismantle(self) -> None:
        if self._death:
            self._death.cancel()
        if self._link:
            asyncio.get_running_loop().remove_reader(self._link)
            self._link.close()
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
        if self._bwrap:
            await self._bwrap.wait()
        waits: list[asyncio.Future[Any]] = [*self._asked.values(), *self._running.values()]
        for waiting in waits:
            if not waiting.done():
                waiting.set_exception(MachineGone(f"machine {self.id} ended: {self.why}"))
                waiting.exception()  # told to whoever waits, if anybody does
        for transport in self._transports:
            transport.close()

    async def ask(self, do: str, passed: Sequence[int] = (), **asked: Any) -> tuple[dict[str, Any], list[int]]:
        """The agent's answer. Raises OSError and MachineGone."""
        if self._link is None or self._ending is not None:
            raise MachineGone(f"machine {self.id} ended: {self.why}")
        number = next(self._numbers)
        body = _memory(json.dumps({"n": number, "do": do, **asked}).encode())
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._link, [b"!"], [body, *passed])
            answer, given = await answered
        except (BrokenPipeError, ConnectionResetError):
            await self.end("its agent is gone")
            raise MachineGone(f"machine {self.id} ended: {self.why}") from None
        finally:
            os.close(body)
            self._asked.pop(number, None)
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
        return answer, given

    def _hear(self) -> None:
        assert self._link is not None
        try:
            packet, given, _, _ = socket.recv_fds(self._link, _PACKET, _PASSED, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            packet, given = b"", []
        if not packet:
            self._end("its agent is gone")
            return
        message = json.loads(packet)
        if "ended" in message:
            self._running[message["ended"]].set_result(message["code"])
            return
        if "pid" in message:
            self._running[message["pid"]] = asyncio.get_running_loop().create_future()
        answered = self._asked.get(message["n"])
        if answered and not answered.done():
            answered.set_result((message, given))
        else:
            _close(*given)


class Machines:
    """All machines of a server."""

    def __init__(self) -> None:
        self.created = 0
        self._machines: dict[str, Machine] = {}

    async def create(
        self,
        *,
        key: str = "",
        tags: Mapping[str, str] | None = None,
        home: str = f"/home/{room.USER}",
        network: bool = True,
        lifetime: float | None = None,
        id: str | None = None,
    ) -> Machine:
        """Raises RuntimeError where there can be none."""
        machine = Machine(id or f"m{secrets.token_hex(10)}", key, tags or {}, home, network)
        await machine.boot()
        self.created += 1
        self._machines[machine.id] = machine
        machine.live_for(lifetime)
        return machine

    def get(self, id: str) -> Machine:
        """Raises MachineGone."""
        machine = self._machines.get(id)
        if machine is None or not machine.alive:
            raise MachineGone(f"there is no machine {id!r}")
        return machine

    def live(self) -> list[Machine]:
        return [machine for machine in self._machines.values() if machine.alive]

    async def processes(self) -> int:
        """In all machines that live, the agents not counted."""
        total = 0
        for machine in self.live():
            with contextlib.suppress(MachineGone):
                total += await machine.processes()
        return total

    async def end_all(self) -> None:
        await asyncio.gather(*(machine.end("all were ended") for machine in self._machines.values()))
        self._machines.clear()


def _memory(content: bytes) -> int:
    """A descriptor of it, at its beginning."""
    descriptor = os.memfd_create("evalcell", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _uid(user: str) -> int | None:
    """Of a user of the machine. None: as the agent, which has no choice where it is not root."""
    return None if user == "root" or os.geteuid() != 0 else room.UID
