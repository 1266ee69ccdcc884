"""The broker: the only way from a script to a judge. It holds the keys, and sends requests of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.env import all_variables
from sandboxes.judges import checks
from sandboxes.judges.budget import model_of
from sandboxes.judges.exchange import Began, JudgeReply, JudgeRequest
from sandboxes.judges.exchange import JudgeRefused as JudgeRefused
from sandboxes.judges.exchange_texts import Exchanges
from sandboxes.judges.grant import Judges
from sandboxes.judges.key_masks import SHORTEST, KeyMasks
from sandboxes.judges.record import KeptReplies, Place, Places, RecordWriter, Replay
from sandboxes.words.wording import Message, Setting

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sandboxes.judges.flight import Upstream

T = TypeVar("T")

_REMEMBERED, _MOST_REMEMBERED = 64 << 10, 1000
_REPLIES: dict[tuple[object, ...], JudgeReply] = {}
"""By request, and which of a row's equal ones it is, where a grant `remembers`."""

_HELD_BYTES = 64 << 20
"""Of replies to rows that go on; further ones are asked again if a row is."""

_MODELS = 50
"""Models that are counted each for itself; scripts may name any number of them."""


@dataclass
class ModelCounts:
    """What one model was asked, by the name in requests."""

    calls: int = 0
    replayed: int = 0
    """Of the calls."""
    tokens: int = 0
    usd: float = 0.0


@dataclass
class BrokerCounts:
    """What the broker did so far."""

    calls: int = 0
    """Exchanges with a reply, replayed ones too."""
    requests: int = 0
    """Sent to judges, retries too."""
    tokens: int = 0
    usd: float = 0.0
    estimated: int = 0
    """Requests whose replies did not say what they used; what was reserved for them counts."""
    in_flight: int = 0
    waiting: int = 0
    """Exchanges that wait for room, or for a limit of the judge."""
    limited: int = 0
    """Those of them that wait as the judge said that it was too much, or as it failed."""
    replayed: int = 0
    refused: int = 0
    """Exchanges that the budget refused."""
    failed: int = 0
    """Exchanges whose judge was down for good, or replied what cannot be handed on."""
    models: dict[str, ModelCounts] = field(default_factory=dict)

    def add(self, body: bytes, reply: JudgeReply) -> None:
        """Count an answer to a request with this body."""
        self.calls += 1
        self.replayed += reply.replayed
        name = model_of(body)
        if name not in self.models and len(self.models) >= _MODELS:
            name = "other models"
        one = self.models.setdefault(name, ModelCounts())
        one.calls += 1
        one.replayed += reply.replayed
        if not reply.replayed:
            one.tokens += sum((reply.usage or {}).values())
            one.usd += reply.usd


class Broker:
    """
    Sends requests to judges and records what comes back. It may be used from any thread with an event loop.

    Args:
        judges: What is granted.
        keys: The values of the secrets' variables; None: they are read from the environment and the env-file.

    Raises:
        UnsupportedConfigError: The grant cannot be kept: a host's name, a variable that is not set, a file.
    """

    def __init__(self, judges: Judges, keys: Mapping[str, str] | None = None) -> None:
        from sandboxes.judges import addresses  # httpcore and ssl are not for runs without judges

        self.judges = judges
        self._hosts = {host.name: host for host in judges.hosts}
        self.addresses = {name: addresses.read_host(name) for name in self._hosts}
        names = [secret.variable for secret in judges.secrets]
        offline = judges.replay is not None and judges.record is None
        keys = dict.fromkeys(names, "") if offline else keys or _keys(names, judges.env_file)
        self._keys: dict[str, dict[str, str]] = {name: {} for name in self._hosts}
        for secret in judges.secrets:
            granted = self.addresses.get(secret.host)
            place = Setting("judges.secret", f"{secret.variable}@{secret.host}")
            if granted is None:
                raise UnsupportedConfigError(Message(place, " is for a host that is not granted; grant it too"))
            if granted.scheme != "https" and not addresses.is_loopback(granted):
                raise UnsupportedConfigError(Message(place, " would be sent in the clear; name the host with https"))
            value = keys[secret.variable]
            if not offline and (
                len(value) < SHORTEST or not value.isascii() or not value.isprintable() or " " in value
            ):
                raise UnsupportedConfigError(
                    f"the value of the variable {secret.variable} is not a key of {SHORTEST} plain characters or more; "
                    "set it to one"
                )
            self._keys[secret.host][secret.placeholder] = value
        self.masks = KeyMasks(value for value in keys.values() if value)
        self._counts = BrokerCounts()
        self._places = Places()
        self._held: dict[tuple[str, int], dict[Place, tuple[JudgeReply, bool] | None]] = {}
        """By row that goes on: its requests, with the replies, and whether each was a stream."""
        self._held_bytes = 0
        self.exchanges = Exchanges()
        """Of the rows that go on, as people read them."""
        self._replay = Replay(judges.replay) if judges.replay is not None and _exists(judges) else None
        self._record: RecordWriter | None = None
        if judges.record is not None:
            same = judges.replay is not None and os.path.realpath(judges.replay) == os.path.realpath(judges.record)
            self._record = RecordWriter(judges.record, more=same)
        self._offline = offline
        self.kept: KeptReplies | None = None
        """Replies of earlier runs, if the caller has any; to be set before anything is asked."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._upstream: Upstream | None = None
        self._closed = False
        self.rows: dict[int, tuple[str, int]] = {}
        """By the number of a call: its row and which repeat it is, as the runner says it before it runs the call."""
        self.waits: dict[tuple[str, int], float] = {}
        """By a row's id and repeat: the seconds for which it has waited. The runner takes them out."""
        self.lost: dict[int, str] = {}
        """By the number of a call: why its row is lost, whatever its script returned. The runner takes them out."""

    @property
    def counts(self) -> BrokerCounts:
        """What was done so far; a copy."""
        counts = BrokerCounts(**vars(self._counts) | {"models": dict(self._counts.models)})
        if up := self._upstream:
            account, room = up.account, up.room
            counts.requests, counts.tokens, counts.usd = account.requests, account.tokens, account.usd
            counts.estimated, counts.in_flight = account.estimated, room.inside
            counts.limited = up.pausing + (room.waiting if room.allowed < self.judges.in_flight else 0)
            counts.waiting = room.waiting + up.pausing
        return counts

    @property
    def replay_sha256(self) -> str | None:
        """The digest of the file that replies come from."""
        return self._replay.sha256.hexdigest() if self._replay else None

    async def exchange(self, request: JudgeRequest) -> JudgeReply:
        """
        Send one request, after waiting for room, and again where that may help; return the whole reply.

        Cancelling it ends the exchange at the judge too.

        Args:
            request: What the script asked.

        Returns:
            The reply, also one that is an error of the judge, such as 400.

        Raises:
            JudgeRefused: There is no reply; `lost` says whether the row is.
        """
        parts = self.parts(request)
        if self._offline:  # no thread need be asked
            return await _last(parts)
        return await self.on_loop(_last(parts))

    async def parts(self, request: JudgeRequest) -> AsyncGenerator[Began | bytes | JudgeReply]:
        """
        Exchange as `exchange` does, on the broker's own loop only: a stream as it comes, and at last the whole reply.

        Args:
            request: What the script asked.

        Raises:
            JudgeRefused: As `exchange`; after a stream has begun, it breaks off.
        """
        if self._closed:
            raise JudgeRefused("the run has ended", "closed")
        host = self._hosts.get(request.host)
        if host is None:
            raise JudgeRefused(f"the host {request.host[:80]!r} is not granted")
        if why := checks.refusal(request, host):
            raise JudgeRefused(why)
        place = self._places.next(request)
        if held := self._held.get((request.row, request.repeat), {}).get(place):
            reply, streamed = held
            self.exchanges.add(request, reply)
            if streamed:
                yield Began(reply.status, reply.headers)
                yield reply.body
            yield reply
            return
        self._hold(place)
        if self.judges.remembers and (remembered := _REPLIES.get(place[::3])):
            reply = remembered._replace(replayed=True, tries=0)
            self._note(request, reply)
            yield reply
            return
        if self._replay and (replayed := self._replay.get(place)):
            async for part in self._replayed(request, *replayed):
                yield part
            return
        if self.kept and not self._offline and (replayed_line := self.kept.get(place)):
            reply, chunks, line = replayed_line
            self._record.write(line) if self._record else None
            async for part in self._replayed(request, reply, chunks):
                yield part
            return
        if self._offline:
            self._counts.failed += 1
            nearest = self._replay.nearest(request) if self._replay else "there is no such file"
            why = f"there is no reply to this request in {self.judges.replay}: {nearest}; record it anew"
            self.exchanges.add(request, why)
            raise JudgeRefused(why, "miss")
        try:
            address, keys = self.addresses[request.host], self._keys[request.host]
            streamed = False
            async with aclosing(self._up().flight(request, place, address, keys)) as flight:
                async for part in flight:
                    streamed = streamed or isinstance(part, Began)
                    if isinstance(part, JudgeReply):
                        self._note(request, part)
                        self._hold(place, part, streamed)
                        if self.judges.remembers and 200 <= part.status < 300 and len(part.body) <= _REMEMBERED:
                            _REPLIES[place[::3]] = part
                            if len(_REPLIES) > _MOST_REMEMBERED:
                                _REPLIES.pop(next(iter(_REPLIES)), None)
                    yield part
        except JudgeRefused as e:
            self._counts.refused += e.why == "budget"
            self._counts.failed += e.why in ("outage", "reply", "key")
            self.exchanges.add(request, e.reason)
            if self._record:
                self._record.failure(place, request, e.reason)
            raise
        except Exception as e:  # no thread, for example: a script would take a connection that breaks for an answer
            self._counts.failed += 1
            raise JudgeRefused(f"{request.host} could not be asked ({type(e).__name__}); run it again", "outage") from e

    async def _replayed(
        self, request: JudgeRequest, reply: JudgeReply, chunks: list[bytes] | None
    ) -> AsyncGenerator[Began | bytes | JudgeReply]:
        self._note(request, reply)
        if chunks is not None:
            yield Began(reply.status, reply.headers)
            for chunk in chunks:
                yield chunk
        yield reply

    def _note(self, request: JudgeRequest, reply: JudgeReply) -> None:
        self._counts.add(request.body, reply)
        self.exchanges.add(request, reply)

    def _hold(self, place: Place, reply: JudgeReply | None = None, streamed: bool = False) -> None:
        _, repeat, row, _ = place
        if not self.judges.door or not row:
            return
        with self._lock:
            if reply is None:
                self._held.setdefault((row, repeat), {})[place] = None
            elif (of_row := self._held.get((row, repeat))) is None:
                pass  # it has ended
            elif 200 <= reply.status < 300 and self._held_bytes + len(reply.body) <= _HELD_BYTES:
                of_row[place] = reply, streamed
                self._held_bytes += len(reply.body)

    def begin_again(self, row: str, repeat: int) -> None:
        """Answer what a row asks anew, whose box was lost, by the replies that it has had: they are paid for."""
        self._places.forget([*self._held.get((row, repeat), {})])
        self.exchanges.take(row, repeat)

    def end_row(self, row: str, repeat: int) -> None:
        """Forget the replies of a row that is not run again."""
        with self._lock:
            held = filter(None, self._held.pop((row, repeat), {}).values())
            self._held_bytes -= sum(len(reply.body) for reply, _ in held)

    def _up(self) -> Upstream:
        if self._upstream is None:
            from sandboxes.judges.flight import Upstream

            before = self._replay.used if self._replay is not None and self.judges.goes_on else (0, 0, 0.0)
            self._upstream = Upstream(self.judges, self.addresses, self.masks, self._record, before, self.kept)
        return self._upstream

    def wait(self, row: tuple[str, int], seconds: float) -> None:
        """Add to the time for which a row, by its id and repeat, has waited. Nothing is known where the id is empty."""
        if row[0] and seconds:
            self.waits[row] = self.waits.get(row, 0.0) + seconds

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Await work on the broker's own loop, from any other.

        Args:
            work: A coroutine; it is cancelled if this is.

        Returns:
            What it returns.
        """
        try:
            loop = self.loop()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        return await asyncio.wrap_future(future)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the broker's own loop, which runs in a thread of its own. Raises JudgeRefused if it is closed."""
        with self._lock:
            if self._closed:
                raise JudgeRefused("the run has ended", "closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="evalcell-judges", daemon=True)
                self._thread.start()
            return self._loop

    async def close(self) -> None:
        """End what is in flight, and close the record. Safe twice."""
        with self._lock:
            first, self._closed = not self._closed, True
            loop, thread = self._loop, self._thread
        if first and loop and thread:
            ended = asyncio.run_coroutine_threadsafe(self._end(), loop)
            await asyncio.shield(asyncio.wrap_future(ended))
            loop.call_soon_threadsafe(loop.stop)
            while thread.is_alive():
                await asyncio.sleep(0.001)
            loop.close()
        if first and self._record:
            self._record.close()
        if first and self._replay:
            self._replay.close()

    async def _end(self) -> None:
        """Cancel all tasks of the loop but this one, and close the connections."""
        loop, own = asyncio.get_running_loop(), asyncio.current_task()
        until = time.monotonic() + 5
        while (tasks := [task for task in asyncio.all_tasks() if task is not own]) and time.monotonic() < until:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.5)
        if self._upstream:
            await self._upstream.close()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()


def _keys(names: list[str], env_file: str | None) -> dict[str, str]:
    every = all_variables(env_file) if names else {}
    for name in names:
        if name not in every:
            raise UnsupportedConfigError(f"the variable {name} is not set, which has the key of a judge; set it")
    return {name: every[name] for name in names}


async def _last(parts: AsyncGenerator[Began | bytes | JudgeReply]) -> JudgeReply:
    async with aclosing(parts):
        async for part in parts:
            if isinstance(part, JudgeReply):
                return part
    raise JudgeRefused("the run has ended", "closed")


def _exists(judges: Judges) -> bool:
    """Whether there is a file to replay: one that is recorded at the same time may not be there yet."""
    return judges.record is None or os.path.exists(judges.replay or "")
