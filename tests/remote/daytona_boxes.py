"""The sandboxes of the local Daytona: their states, names, labels and the clocks that stop and delete them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.remote.faults import Front
from tests.remote.machine import Machine
from tests.remote.serving import Refused

BROKEN, SLOW = "broken", "slow"
"""Targets: of the one the sandboxes fail to start, of the other they never do."""

_BOOT, _DESTROY = 0.1, 0.2
_OF_NETWORK = ("networkBlockAll", "networkAllowList", "domainAllowList")


class Box:
    """One sandbox. A minute is as many seconds as the server's option `minute` says."""

    def __init__(self, front: Front, asked: dict[str, Any], forget: Callable[[Box], None]) -> None:
        self.id = str(uuid.uuid4())
        self.name: str = asked.get("name") or self.id
        self.labels: dict[str, str] = asked.get("labels") or {}
        self.env: dict[str, str] = asked.get("env") or {}
        self.target: str = asked.get("target") or "us"
        self.blocked = bool(asked.get("networkBlockAll"))
        self.auto_stop: int = asked.get("autoStopInterval", 15)
        self.auto_delete: int = asked.get("autoDeleteInterval", -1)
        self.machine: Machine | None = None
        self.created = self.active = datetime.now(UTC)
        self._minute = float(front.options.get("minute", 60.0))
        self.dies: datetime | None = None
        self.live_for(asked.get("ttlMinutes") or 0)
        self._front = front
        self._forget = forget
        self._state = "creating"
        self._reason = ""
        self._tasks = [asyncio.create_task(self._boot()), asyncio.create_task(self._watch())]

    @property
    def state(self) -> str:
        if self._state == "started" and not (self.machine and self.machine.alive):
            return "destroyed" if self.auto_delete == 0 else "stopped"
        return self._state

    async def _boot(self) -> None:
        await asyncio.sleep(_BOOT if self.target != SLOW else 3600)
        if self.target == BROKEN:
            self._state, self._reason = "error", "the snapshot cannot be pulled"
            return
        machine = await self._front.machines.create(key=self.name, tags=self.labels, id=self.id)
        machine.network = not self.blocked
        self.machine, self._state = machine, "started"

    async def _watch(self) -> None:
        while self._state != "destroying":
            await asyncio.sleep(self._minute / 60)
            now = datetime.now(UTC)
            idle = (now - self.active).total_seconds() / self._minute
            if (self.dies and now > self.dies) or (self.state == "stopped" and 0 <= self.auto_delete <= idle):
                await self.destroy()
            elif self.state == "started" and 0 < self.auto_stop < idle:
                await self.stop()

    def live_for(self, minutes: int) -> None:
        """From now on, whatever its state; 0: it does not end by itself."""
        self.dies = datetime.now(UTC) + timedelta(seconds=minutes * self._minute) if minutes else None

    def block(self, all: bool) -> None:
        self.blocked = all
        if self.machine:
            self.machine.network = not all

    async def stop(self) -> None:
        self._state, self.active = "stopped", datetime.now(UTC)
        if self.machine:
            await self.machine.end("it was stopped")
        if self.auto_delete == 0:
            await self.destroy()

    async def destroy(self) -> None:
        if self._state == "creating":
            raise Refused(400, "Sandbox state change in progress")
        self._state = "destroying"
        if self.machine:
            await self.machine.end("it was deleted")
        asyncio.get_running_loop().call_later(_DESTROY, self._forget, self)

    def told(self, origin: str) -> dict[str, Any]:
        """As the API tells of it."""
        told: dict[str, Any] = {
            "id": self.id,
            "organizationId": "b5c4b4a6-0a4f-4c5e-9f3e-0d6a1b1f7e11",
            "name": self.name,
            "snapshot": "daytonaio/sandbox",
            "user": "daytona",
            "env": self.env,
            "labels": self.labels,
            "public": False,
            "networkBlockAll": self.blocked,
            "kvm": False,
            "target": self.target,
            "cpu": 1,
            "gpu": 0,
            "memory": 1,
            "disk": 3,
            "state": self.state,
            "desiredState": "started",
            "autoStopInterval": self.auto_stop,
            "autoArchiveInterval": 10080,
            "autoDeleteInterval": self.auto_delete,
            "createdAt": _time(self.created),
            "lastActivityAt": _time(self.active),
            "toolboxProxyUrl": f"{origin}/toolbox",
        }
        return (
            told
            | ({"errorReason": self._reason} if self._reason else {})
            | ({"autoDestroyAt": _time(self.dies)} if self.dies else {})
        )


class Boxes:
    """Those of the one organisation that there is."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.options = front.options
        self._cap = int(front.options.get("cap", 10))
        self._page = int(front.options.get("page", 200))
        self._boxes: dict[str, Box] = {}

    def create(self, asked: dict[str, Any]) -> Box:
        labels = asked.get("labels") or {}
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise Refused(400, "labels must be an object of strings")
        self.may_tell_network(asked)
        name = asked.get("name")
        if name and any(box.name == name and box.state != "destroyed" for box in self._boxes.values()):
            raise Refused(409, f"Sandbox with name {name} already exists")
        if sum(box.state in ("creating", "started") for box in self._boxes.values()) >= self._cap:
            raise Refused(400, f"Total CPU limit exceeded. Maximum allowed: {self._cap}.")
        box = Box(self._front, asked, self._forget)
        self._boxes[box.id] = box
        return box

    def may_tell_network(self, asked: dict[str, Any]) -> None:
        told = [field for field in _OF_NETWORK if field in asked]
        if told and self.options.get("tier", 3) < 3:
            raise Refused(
                400,
                "Network access is restricted and cannot be overridden at the sandbox level. "
                f"Remove {', '.join(told)} from the request.",
            )

    def _forget(self, box: Box) -> None:
        self._boxes.pop(box.id, None)

    def get(self, id_or_name: str, code: str = "") -> Box:
        for box in self._boxes.values():
            if id_or_name in (box.id, box.name) and box.state != "destroyed":
                return box
        raise Refused(404, f"Sandbox with ID or name {id_or_name} not found", code)

    def page(self, labels: str, cursor: str, limit: int) -> tuple[list[Box], str | None]:
        try:
            wanted = json.loads(labels or "{}").items()
        except (ValueError, AttributeError):
            raise Refused(400, "Invalid labels JSON format") from None
        found = [box for box in self._boxes.values() if wanted <= box.labels.items() and box.state != "destroyed"]
        limit = min(limit, self._page)
        first = next((n + 1 for n, box in enumerate(found) if box.id == cursor), 0)
        page = found[first : first + limit]
        return page, page[-1].id if first + limit < len(found) else None


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
