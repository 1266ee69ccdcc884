"""Find the machines that earlier runs left behind, and end them; never one whose run still lives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sandboxes.errors import SandboxError
from sandboxes.remote.ledger import Ledger, LedgerEntry, Owner, plain
from sandboxes.remote.provider import ListedMachine, Provider, UnreachableError
from sandboxes.remote.retry import Pauses, end_machine, retry

State = Literal["live", "leftover", "elsewhere"]

SETTLE_TIME = timedelta(minutes=15)
"""How long a machine that was requested, but that the provider does not know, may still appear."""

MOST = 10_000
"""Most machines of a provider's list that are read."""

_PAUSES = Pauses(total=45)
_PATIENCE = 60.0
"""Seconds for one machine, whatever the provider does."""
_AT_ONCE = 8


@dataclass(frozen=True)
class MachineStatus:
    """A machine in the provider's list or in the ledger."""

    provider: str
    id: str
    """Empty: it was requested, and the answer was lost."""
    key: str
    since: datetime
    owner: Owner | None
    """None: unknown."""
    listed: bool
    """Whether the provider lists it; otherwise only the ledger does."""
    given_up: bool = False
    """Whether its run has given it up."""

    @property
    def state(self) -> State:
        """
        `live`: its run goes on here. `leftover`: its run was here, and has ended or given it up. `elsewhere`: this host
        cannot know.
        """
        if self.given_up:
            return "leftover"
        alive = None if self.owner is None else self.owner.alive
        if alive is False and self.owner and not (isinstance(self.owner, LedgerEntry) or self.owner.since_boot):
            alive = None  # tags are not enough: two hosts may be copies of one machine and share its name
        return "elsewhere" if alive is None else "live" if alive else "leftover"

    @property
    def age(self) -> timedelta:
        return datetime.now(UTC) - self.since


@dataclass(frozen=True)
class ReapResult:
    """What happened to one leftover machine."""

    machine: MachineStatus
    fate: Literal["killed", "gone", "unknown", "failed"]
    """`gone`: it was never created. `unknown`: too young to tell, try again later. `failed`: see `error`."""
    error: str = ""


async def survey(provider: Provider, ledger: Ledger) -> list[MachineStatus]:
    """
    Return the machines of all of evalcell's runs at an open provider: first those it lists, then those only in the
    ledger.

    Raises:
        ProviderError, SandboxUnavailableError: If the ledger cannot be read.
    """
    noted = {e.key: e for e in ledger.open_entries() if _is_of(e, provider)}
    by_id = {e.id: e for e in noted.values() if e.id}
    listed = [
        _listed(provider, one, noted.get(one.key) or by_id.get(one.id))
        for one in await retry(lambda: _list(provider), _PAUSES)
    ]
    keys, ids = {one.key for one in listed}, {one.id for one in listed}
    return listed + [_noted(e) for e in noted.values() if e.key not in keys and e.id not in ids]


async def leftovers(provider: Provider, ledger: Ledger, older_than: timedelta | None = None) -> list[MachineStatus]:
    """
    Return the machines that `reap` would end. Without `older_than`: those whose run was on this host and has ended.
    With it: those, and machines of other hosts, that are older. Raises as `survey` does.
    """
    return [one for one in await survey(provider, ledger) if _is_left(one, older_than)]


async def reap(provider: Provider, ledger: Ledger, machines: Sequence[MachineStatus]) -> list[ReapResult]:
    """
    End machines, several at once; the results, in order.

    A failure to end one, or to record its end, is part of its result and not raised.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def end(one: MachineStatus) -> ReapResult:
        async with room:
            if one.state == "live":  # its state may have changed since the survey
                return ReapResult(one, "failed", "its run is still going on")
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await _end(provider, ledger, one)
            except SandboxError as e:
                return ReapResult(one, "failed", str(e))
            except TimeoutError:
                return ReapResult(one, "failed", f"no answer within {_PATIENCE:.0f} s")

    return list(await asyncio.gather(*(end(one) for one in machines)))


async def _end(provider: Provider, ledger: Ledger, one: MachineStatus) -> ReapResult:
    id = one.id
    if not id:
        found = await retry(lambda: provider.find(one.key), _PAUSES)
        if found is None and one.age < SETTLE_TIME:
            return ReapResult(
                one, "unknown", "requested a short time ago, it may still appear; run evalcell reap again later"
            )
        if found is None:
            ledger.record_end(one.key)
            return ReapResult(one, "gone")
        id = found.id
    await end_machine(provider, id, _PAUSES)
    ledger.record_end(one.key)
    return ReapResult(one, "killed")


async def _list(provider: Provider) -> list[ListedMachine]:
    found: list[ListedMachine] = []
    try:
        async with asyncio.timeout(_PATIENCE):
            async for one in provider.list():
                found.append(one)
                if len(found) >= MOST:
                    break
    except TimeoutError:
        raise UnreachableError(f"{provider.name} did not list its machines within {_PATIENCE:.0f} s") from None
    return found


def _is_left(one: MachineStatus, older_than: timedelta | None) -> bool:
    if one.state == "live" or (older_than is None and one.state == "elsewhere"):
        return False
    return older_than is None or one.age > older_than


def _is_of(entry: LedgerEntry, provider: Provider) -> bool:
    return (entry.provider, entry.address) == (provider.name, plain(provider.address))


def _listed(provider: Provider, one: ListedMachine, entry: LedgerEntry | None) -> MachineStatus:
    """The machine as listed; what the ledger says has precedence."""
    key = entry.key if entry else one.key
    owner = entry or Owner.from_tags(one.tags)
    return MachineStatus(provider.name, one.id, key, one.since, owner, listed=True, given_up=_is_given_up(entry))


def _noted(entry: LedgerEntry) -> MachineStatus:
    given_up = _is_given_up(entry)
    return MachineStatus(entry.provider, entry.id, entry.key, entry.at, entry, listed=False, given_up=given_up)


def _is_given_up(entry: LedgerEntry | None) -> bool:
    return entry is not None and entry.event == "left"
