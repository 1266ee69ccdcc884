"""`evalcell cache` and `evalcell cache prune`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.text import Text

from runner.cli.exit_codes import DONE
from runner.cli.views import render
from runner.core.text import size_of
from sandboxes.cache import VARIABLE, cache_dir
from sandboxes.packages import CacheEntry, entries, prune

_DAY = 86_400


def list_cache() -> int:
    """Return a line for each thing that is kept, alike ones together, and what they take, the largest first."""
    found, out = entries(), render.out()
    alike: dict[tuple[str, str], list[CacheEntry]] = {}
    for entry in found:
        alike.setdefault((entry.kind, entry.holds), []).append(entry)
    if found:
        made = render.table("kind", "holds", "size", "last used")
        made.columns[2].justify = "right"
        made.columns[2].no_wrap = made.columns[3].no_wrap = True
        for (kind, holds), group in sorted(alike.items(), key=lambda item: -_bytes(item[1])):
            times = f" ({len(group)} times)" if len(group) > 1 else ""
            made.add_row(render.text(kind), render.text(holds + times), size_of(_bytes(group)), _age(group))
        out.print(made)
    out.say(render.text(f"{_sum(found) if found else 'nothing'} in {cache_dir()}, which {VARIABLE} can move"))
    if found:
        out.print(Text("evalcell cache prune deletes what no run has used for 30 days"))
    return DONE


def prune_cache(unused: int, everything: bool) -> int:
    """Delete what no run has used for so many days, or all; print what was freed, and what is in use."""
    days = 0 if everything else unused
    done, out = prune(days * _DAY), render.out()
    for entry, why in done.skipped:
        out.say(render.text(f"kept: {entry.kind}, {entry.holds}: {why}"))
    if done.removed:
        out.say(render.text(f"deleted {_sum(done.removed)}"))
    elif not done.skipped:
        out.say(render.text(f"nothing to delete{f' that no run has used for {days} days' if days else ''}"))
    return DONE


def _sum(found: Sequence[CacheEntry]) -> str:
    things = "1 thing" if len(found) == 1 else f"{len(found):,} things"
    return f"{things}, {size_of(_bytes(found))}"


def _bytes(found: Sequence[CacheEntry]) -> int:
    return sum(entry.bytes for entry in found)


def _age(group: Sequence[CacheEntry]) -> str:
    days = int((time.time() - max(entry.used for entry in group)) // _DAY)
    return "today" if days < 1 else "yesterday" if days == 1 else f"{days:,} days ago"
