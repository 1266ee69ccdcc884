"""A server says again and again which runs are its own, and takes over those whose server is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from runner.results.store.errors import StoreError
from runner.results.store.store import Store
from runner.results.store.types import RunInfo
from runner.server.service.part import threaded

LOG = logging.getLogger("evalcell.runs")
RENEWED = 5.0
"""Seconds from one time to the next: a few of them fit into a claim."""


class Claimant(Protocol):
    """What has the runs of a server."""

    server: str

    def ids(self) -> list[str]:
        """The runs that are here."""

    def room_left(self) -> int:
        """The number of runs that may come."""

    def add(self, info: RunInfo) -> None:
        """Let a run begin, or go on."""

    def let_go(self, id: str) -> None:
        """Stop a run here that another server does, or that was deleted."""

    async def cancel(self, id: str) -> bool:
        """Stop a run for good."""


async def keep_claims(queue: Claimant, store: Store) -> None:
    """Renew the claims of a queue's runs until cancelled; stop what others want stopped, and leave what others do."""
    while True:
        await asyncio.sleep(RENEWED)
        try:
            renewed = await threaded(store.renew, queue.server, queue.ids())
            for id in renewed.lost:
                queue.let_go(id)
            for id in renewed.stop:
                await queue.cancel(id)
            if (room := queue.room_left()) > 0:
                for info in await threaded(store.claim, queue.server, room):
                    LOG.info("run taken over", extra={"run": info.id})
                    queue.add(info)
        except StoreError as error:
            LOG.warning("the store cannot be used: %s", error)
