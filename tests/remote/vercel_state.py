"""What the local Vercel Sandbox API keeps: names, and the times that their machines run; and how it refuses."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.remote.faults import Front
from tests.remote.machine import Machine
from tests.remote.serving import Api, Refused
from tests.remote.vercel_commands import STALLED, Command

TOKEN, TEAM, PROJECT = "vercel-token-of-the-tests", "team_tests", "prj_tests"
HOME = "/vercel/sandbox"
LONGEST = 45 * 60 * 1000
"""Milliseconds that a session may last, on the smallest plan."""


@dataclass
class Session:
    """A time that a sandbox runs, or ran."""

    sandbox: Sandbox
    machine: Machine
    timeout: int
    """Milliseconds from its start, all extensions included."""
    policy: dict[str, Any]
    ready: float
    id: str = field(default_factory=lambda: f"se_{secrets.token_hex(12)}")
    started: int = field(default_factory=lambda: now())
    commands: dict[str, Command] = field(default_factory=dict)

    @property
    def status(self) -> str:
        if not self.machine.alive:
            return "stopped"
        return "running" if time.monotonic() >= self.ready else "pending"

    def payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "sourceSandboxName": self.sandbox.name,
            "projectId": PROJECT,
            "status": self.status,
            "cwd": HOME,
            "region": "iad1",
            "memory": 2048 * self.sandbox.cores,
            "vcpus": self.sandbox.cores,
            "timeout": self.timeout,
            "networkPolicy": self.policy,
            "requestedAt": self.started,
            "startedAt": self.started,
        }


@dataclass
class Sandbox:
    """A name, which stays when its session ends, until it is deleted."""

    name: str
    asked: dict[str, Any]
    created: int = field(default_factory=lambda: now())
    sessions: list[Session] = field(default_factory=list)

    @property
    def cores(self) -> int:
        return int((self.asked.get("resources") or {}).get("vcpus") or 2)

    @property
    def tags(self) -> dict[str, str]:
        return self.asked.get("tags") or {}

    def payload(self) -> dict[str, Any]:
        session = self.sessions[-1]
        return {
            "name": self.name,
            "currentSessionId": session.id,
            "image": self.asked.get("image") or "vercel/sandbox/universal:latest",
            "status": session.status,
            "persistent": bool(self.asked.get("persistent", True)),
            "projectId": PROJECT,
            "cwd": HOME,
            "region": "iad1",
            "memory": 2048 * self.cores,
            "vcpus": self.cores,
            "timeout": session.timeout,
            "networkPolicy": session.policy,
            "statusUpdatedAt": session.started,
            "createdAt": self.created,
            "updatedAt": session.started,
            "tags": self.tags,
        }


def stopped() -> Refused:
    return Refused(410, "Sandbox is stopped", "sandbox_stopped")


def full() -> Refused:
    return Refused(429, "The maximum number of concurrent sandboxes is reached", "too_many_requests")


def of_project(project: str | None) -> None:
    if project != PROJECT:
        raise Refused(404, "Project not found", "not_found")


def policy(asked: Any) -> dict[str, Any]:
    """Of the network, as it was asked for."""
    if asked is None:
        return {"mode": "allow-all"}
    if not isinstance(asked, dict) or (asked.get("mode") not in ("allow-all", "deny-all") and "allow" not in asked):
        raise Refused(400, "networkPolicy is neither a mode nor a list of what is allowed", "bad_request")
    return asked


def now() -> int:
    """In milliseconds."""
    return int(time.time() * 1000)


class Kept(Api):
    """The sandboxes by their names, and their sessions."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self.cap: int = front.options.get("cap", 10)
        self.pending: float = front.options.get("pending", 0.0)
        self.page: int = front.options.get("page", 50)
        self.patience: float = front.options.get("patience", STALLED)
        self.sandboxes: dict[str, Sandbox] = {}
        self.sessions: dict[str, Session] = {}
        self.making: set[str] = set()

    async def begin(self, sandbox: Sandbox) -> None:
        if len(self.front.machines.live()) >= self.cap:
            raise full()
        asked = sandbox.asked
        milliseconds, rules = asked.get("timeout", 300_000), policy(asked.get("networkPolicy"))
        machine = await self.front.machines.create(
            key=sandbox.name,
            tags=sandbox.tags,
            home=HOME,
            network=rules.get("mode") != "deny-all",
            lifetime=milliseconds / 1000,
        )
        session = Session(sandbox, machine, milliseconds, rules, time.monotonic() + self.pending)
        sandbox.sessions.append(session)
        self.sessions[session.id] = session

    def told(self, sandbox: Sandbox, **more: Any) -> web.StreamResponse:
        session = sandbox.sessions[-1].payload()
        return web.json_response({"sandbox": sandbox.payload(), "session": session, "routes": [], **more})

    def named(self, request: web.Request) -> Sandbox:
        of_project(request.query.get("projectId"))
        name = request.match_info["name"]
        if name not in self.sandboxes:
            raise Refused(404, f"Sandbox not found: {name}", "not_found")
        return self.sandboxes[name]

    def of_session(self, request: web.Request, *, running: bool = True) -> Session:
        session = self.sessions.get(request.match_info["session"])
        if session is None:
            raise Refused(404, "Session not found", "not_found")
        if running and session.status == "stopped":
            raise stopped()
        return session

    def of_command(self, request: web.Request) -> Command:
        command = self.of_session(request).commands.get(request.match_info["command"])
        if command is None:
            raise Refused(404, "Command not found", "not_found")
        return command
