"""Finding the machines that runs left behind, and ending them. A machine of a run that still lives is never ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sandboxes.errors import SandboxError
from sandboxes.remote.ledger import Entry, Ledger, plain
from sandboxes.remote.owner import Owner
from sandboxes.remote.provider import Found, Provider, UnreachableError
from sandboxes.remote.retry import Pauses, again, ended

State = Literal["live", "leftover", "elsewhere"]

SETTLED = timedelta(minutes=15)
"""After which a machine that was asked for, and that the provider does not know, is no longer expected."""

MOST = 10_000
"""Machines of a provider's list that are looked at."""

_PAUSES = Pauses(altogether=45)
_PATIENCE = 60.0
"""Seconds for one machine, whatever the provider does."""
_AT_ONCE = 8


@dataclass(frozen=True)
class Known:
    """A machine that the provider's list, or the ledger, tells of."""

    provider: str
    id: str
    """Empty: it was asked for, and nobody heard the answer."""
    key: str
    since: datetime
    owner: Owner | None
    """None: nothing tells whose it is."""
    listed: bool
    """Whether the provider says that it is there; else the ledger alone does."""
    given_up: bool = False
    """Whether its run said that it does nothing more about it."""

    @property
    def state(self) -> State:
        """
        `live`: its run goes on here. `leftover`: its run was here, and has ended or given it up. `elsewhere`: nobody
        here can know.
        """
        if self.given_up:
            return "leftover"
        alive = None if self.owner is None else self.owner.alive
        if alive is False and self.owner and not (isinstance(self.owner, Entry) or self.owner.since_boot):
            alive = None  # tags alone say so: two hosts may be copies of one, and have its name
        return "elsewhere" if alive is None else "live" if alive else "leftover"

    @property
    def age(self) -> timedelta:
        return datetime.now(UTC) - self.since


@dataclass(frozen=True)
class Reaped:
    """What became of one leftover."""

    machine: Known
    fate: Literal["killed", "gone", "unknown", "failed"]
    """`gone`: it was never made. `unknown`: too young to tell, ask again later. `failed`: see `error`."""
    error: str = ""


async def survey(provider: Provider, ledger: Ledger) -> list[Known]:
    """
    The machines of all of evalcell's runs at an opened provider: those it lists, then what the ledger alone has.

    Raises ProviderError, and SandboxUnavailableError for a ledger that cannot be read.
    """
    noted = {e.key: e for e in ledger.open_entries() if _is_of(e, provider)}
    by_id = {e.id: e for e in noted.values() if e.id}
    listed = [
        _listed(provider, one, noted.get(one.key) or by_id.get(one.id))
        for one in await again(lambda: _list(provider), _PAUSES)
    ]
    keys, ids = {one.key for one in listed}, {one.id for one in listed}
    return listed + [_noted(e) for e in noted.values() if e.key not in keys and e.id not in ids]


async def leftovers(provider: Provider, ledger: Ledger, older_than: timedelta | None = None) -> list[Known]:
    """
    What `reap` would end. Without `older_than`: machines whose run was of this host and has ended. With it: of these
    and of those of other hosts what is older. Raises as `survey` does.
    """
    return [one for one in await survey(provider, ledger) if _is_left(one, older_than)]


async def reap(provider: Provider, ledger: Ledger, left: Sequence[Known]) -> list[Reaped]:
    """
    Ends machines, some at once, and says what became of each.

    A failure to end one, or to write that down, is told with it; nothing is raised for it.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def end(one: Known) -> Reaped:
        async with room:
            if one.state == "live":  # it may have begun to since `left` was found: a process number was told wrongly
                return Reaped(one, "failed", "its run goes on")
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await _end(provider, ledger, one)
            except SandboxError as e:
                return Reaped(one, "failed", str(e))
            except TimeoutError:
                return Reaped(one, "failed", f"no answer within {_PATIENCE:.0f} s")

    return list(await asyncio.gather(*(end(one) for one in left)))


async def _end(provider: Provider, ledger: Ledger, one: Known) -> Reaped:
    id = one.id
    if not id:
        found = await again(lambda: provider.find(one.key), _PAUSES)
        if found is None and one.age < SETTLED:
            return Reaped(one, "unknown", "asked for a short time ago; it may still come, reap again later")
        if found is None:
            ledger.settled(one.key)
            return Reaped(one, "gone")
        id = found.id
    await ended(provider, id, _PAUSES)
    ledger.settled(one.key)
    return Reaped(one, "killed")


async def _list(provider: Provider) -> list[Found]:
    found: list[Found] = []
    try:
        async with asyncio.timeout(_PATIENCE):
            async for one in provider.list():
                found.append(one)
                if len(found) >= MOST:
                    break
    except TimeoutError:
        raise UnreachableError(f"{provider.name} gave no list of machines in {_PATIENCE:.0f} s") from None
    return found


def _is_left(one: Known, older_than: timedelta | None) -> bool:
    if one.state == "live" or (older_than is None and one.state == "elsewhere"):
        return False
    return older_than is None or one.age > older_than


def _is_of(entry: Entry, provider: Provider) -> bool:
    return (entry.provider, entry.address) == (provider.name, plain(provider.address))


def _listed(provider: Provider, one: Found, entry: Entry | None) -> Known:
    """What the ledger wrote is believed before what the provider tells of it."""
    key = entry.key if entry else one.key
    owner = entry or Owner.tagged(one.tags)
    return Known(provider.name, one.id, key, one.since, owner, listed=True, given_up=_is_given_up(entry))


def _noted(entry: Entry) -> Known:
    given_up = _is_given_up(entry)
    return Known(entry.provider, entry.id, entry.key, entry.at, entry, listed=False, given_up=given_up)


def _is_given_up(entry: Entry | None) -> bool:
    return entry is not None and entry.event == "left"
