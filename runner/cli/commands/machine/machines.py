"""`evalcell sandboxes --live` and `evalcell reap`: machines at providers, and what runs left behind there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from rich.table import Table

from runner.cli import signals
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, INTERRUPTED
from runner.cli.views import render
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.remote.credentials import Account, Accounts, accounts
from sandboxes.remote.ledger import Ledger, plain
from sandboxes.remote.reaper import MachineStatus, ReapResult, leftovers, reap, survey

_ENDED = timedelta(days=1)
"""After which a machine has ended by itself, whatever its provider: none is ordered for longer than an hour."""
_FATES = {"killed": "ended", "gone": "was never made", "unknown": "not there yet", "failed": "still runs"}


@dataclass
class _Answers:
    """The providers' answers, and the errors of those that failed, by name."""

    machines: list[MachineStatus] = field(default_factory=list)
    reaped: list[ReapResult] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Engines of this machine that do not answer, and were never used."""

    def from_all(self, accounts: Accounts) -> str:
        """The names of those that did answer."""
        names = (account.provider.name for account in accounts.usable)
        return ", ".join(name for name in names if name not in self.failures and name not in self.absent)


def list_live(env_file: str | None) -> int:
    """List evalcell's machines. Raises SandboxUnavailableError if no provider can be asked."""
    known, ledger, answers = _some(accounts(env_file)), Ledger(), _Answers()

    async def ask(account: Account) -> None:
        answers.machines += [one for one in await survey(account.provider, ledger) if one.listed]

    if signals.run(_each(known.usable, ask, answers, ledger)):
        return INTERRUPTED
    out = render.out()
    if answers.machines:
        out.print(_table(answers.machines))
    states = Counter(one.state for one in answers.machines)
    if asked := answers.from_all(known):
        out.say(render.text(f"{_count(len(answers.machines))} at {asked}"))
    if states["leftover"]:
        out.say(render.text(f"evalcell reap ends the {_count(states['leftover'])} left over", "yellow"))
    if states["elsewhere"]:
        out.say(render.text("evalcell reap --older-than 1h ends what is of other hosts and older"))
    return _exit_code(known, ledger, answers)


def end_left(name: str | None, older_than: timedelta | None, env_file: str | None, *, dry_run: bool) -> int:
    """
    End what was left behind, or list it with `dry_run`; print the result for each.

    Raises as `accounts` does, and SandboxUnavailableError where no provider can be asked.
    """
    known, ledger, answers = _some(accounts(env_file, name)), Ledger(), _Answers()

    async def ask(account: Account) -> None:
        left = await leftovers(account.provider, ledger, older_than)
        answers.machines += left
        if not dry_run:
            answers.reaped += [
                ReapResult(one.machine, one.fate, account.masks.text(one.error))
                for one in await reap(account.provider, ledger, left)
            ]

    if signals.run(_each(known.usable, ask, answers, None if name else ledger)):
        return INTERRUPTED
    out = render.out()
    if dry_run and answers.machines:
        out.print(_table(answers.machines))
    for one in answers.reaped:
        name = one.machine.id or one.machine.key
        out.say(render.text(f"{one.machine.provider} {name}: {_FATES[one.fate]}{f', {one.error}' * bool(one.error)}"))
    if not answers.machines and (asked := answers.from_all(known)):
        out.say(render.text(f"nothing is left over at {asked}"))
    elif answers.machines and dry_run:
        out.say(render.text(f"{_count(len(answers.machines))} would be ended; leave out --dry-run to do it"))
    return _exit_code(known, ledger, answers)


def _some(known: Accounts) -> Accounts:
    if not (known.usable or known.unusable):
        raise SandboxUnavailableError(
            f"none of {', '.join(known.lacking)} can be asked, so nothing was looked for; set a provider's key, or "
            "name a --env-file that has it (`evalcell sandboxes` tells what each lacks)"
        )
    return known


async def _each(
    asked: Sequence[Account], work: Callable[[Account], Awaitable[None]], answers: _Answers, ledger: Ledger | None
) -> None:
    """
    One after the other; the failure of one is kept for the end.

    With a ledger: but not that of an engine of this machine, if none of its machines is in there.
    """
    used = {entry.provider for entry in ledger.open_entries()} if ledger else set[str]()
    for account in asked:
        try:
            try:
                await account.provider.open()
                await work(account)
            finally:
                await account.provider.close()
        except SandboxError as e:
            if ledger and account.provider.local and account.provider.name not in used:
                answers.absent.add(account.provider.name)
                continue
            answers.failures[account.provider.name] = account.masks.text(str(e))


def _exit_code(known: Accounts, ledger: Ledger, answers: _Answers) -> int:
    """Report on stderr what failed or could not be asked; return the exit code."""
    err = render.err()
    for (provider, address), count in sorted(_others(known, ledger).items()):
        words = f"evalcell: {_count(count)} of {provider} may be left at {address}, which was not asked; "
        step = "set DOCKER_HOST or EVALCELL_ENGINE to it" if provider == "docker" else "set that account's key"
        err.say(render.text(f"{words}{step} and run: evalcell reap", "yellow"))
    if ledger.broken:
        rows = "1 row" if ledger.broken == 1 else f"{ledger.broken:,} rows"
        err.say(render.text(f"evalcell: skipped {rows} of {ledger.path}, broken", "yellow"))
    failures = known.unusable | answers.failures
    for name, words in failures.items():
        err.say(render.text(f"evalcell: {name}: {words}", "red", render.ERROR))
    failed = failures or any(one.fate in ("failed", "unknown") for one in answers.reaped)
    return COULD_NOT_JUDGE if failed else DONE


def _others(known: Accounts, ledger: Ledger) -> Counter[tuple[str, str]]:
    """The number of machines in the ledger that may still run, at accounts that were not asked."""
    asked = {(account.provider.name, plain(account.provider.address)) for account in known.usable}
    left = (e for e in ledger.open_entries() if e.event == "left" or e.alive is not True)
    places = ((e.provider, e.address) for e in left if datetime.now(UTC) - e.at < _ENDED)
    return Counter(place for place in places if place not in asked)


def _table(machines: Sequence[MachineStatus]) -> Table:
    made = render.table("provider", "machine", "for", "run", "state")
    for one in sorted(machines, key=lambda one: (one.provider, one.since)):
        cells = (
            one.provider,
            one.id or f"ordered as {one.key}",
            _age(one.age),
            one.owner.run if one.owner else "",
            _state(one),
        )
        made.add_row(*(render.text(cell) for cell in cells))
    return made


def _state(one: MachineStatus) -> str:
    if one.owner is None:
        return "unknown owner"
    if one.state == "live":
        return f"live, process {one.owner.pid}"
    return "left over" if one.state == "leftover" else f"of {one.owner.host}"


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _count(number: int) -> str:
    return "no machines" if number == 0 else "1 machine" if number == 1 else f"{number:,} machines"
