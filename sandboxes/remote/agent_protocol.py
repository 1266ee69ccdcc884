"""
Build commands for the agent on a machine; see guest/machine/agent.py.

The answer is lines of JSON, each with a mark that only this command and its agent know. As no script knows the mark, a
line with it comes from the agent; other lines are not trusted.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from sandboxes import protocol
from sandboxes.base import Call, Execution, Isolation, Language, Limits, Model, Script
from sandboxes.boxes import seccomp
from sandboxes.boxes.host_files import NETWORK
from sandboxes.boxes.launch import TMP_FILES, TMP_SIZE
from sandboxes.errors import SandboxUnavailableError
from sandboxes.hints import place_of
from sandboxes.reach import reach
from sandboxes.remote.bundle import ARGUMENTS, ENVIRONMENT, bundle
from sandboxes.remote.provider import Command
from sandboxes.remote.runtime import RUNTIMES
from sandboxes.remote.stream import Greeting, Listener, UnclearError

__all__ = ["Greeting", "Listener", "ScriptRequest", "UnclearError", "command", "hello"]

_MACHINES = ("x86_64", "aarch64")


class ScriptRequest(Model):
    """One script, and what it may use on the machine."""

    script: Script
    limits: Limits
    isolation: Isolation
    machine: str
    """The processor kind from the greeting, which decides system-call numbers. Another kind raises UnclearError."""
    packages: str | None = None
    """A folder of the machine. `site`: what its Python has installed. None: the standard library alone."""
    files: dict[str, str] = Field(default_factory=dict)
    """Files of the machine that scripts may read, all in one folder, by the variables that hold their paths."""
    network: bool = False
    shut: bool = False
    """Whether the agent itself must keep the script off the network, or else refuse to start it."""
    variables: dict[str, str] = Field(default_factory=dict, repr=False)


def hello(language: Language = "python", packages: str | None = None) -> tuple[Command, Listener]:
    """The command that asks who answers and what protects it from scripts; the listener's `greeting` has the reply."""
    programs = {machine: _programs(machine, False, language) for machine in _MACHINES}
    limits = Limits()
    settings = {
        "script": None,
        "reaches": False,
        "limits": vars(protocol.bounds(limits)),
        "packages": packages,
        "variables": {},
        "programs": programs,
    }
    return _command(language, settings | RUNTIMES[language].settings(limits), (), Listener((), (), None))


def command(asked: ScriptRequest, calls: Sequence[Call]) -> tuple[Command, Listener]:
    """
    The command that loads the script and runs the calls; without calls it only loads.

    Calls whose arguments are not JSON are not sent: see `Listener.refused`.
    """
    script, limits = asked.script, asked.limits
    runtime = RUNTIMES[script.language]
    ids, payloads, refused = [], [], []
    for call in calls:
        made = runtime.call_request(call, limits)
        if isinstance(made, Execution):
            refused.append(made)
        else:
            ids.append(call.id)
            payloads.append(made)
    settings = {
        "script": runtime.load_request(script, limits).decode(),
        "limits": vars(protocol.bounds(limits)),
        "isolation": asked.isolation,
        "reaches": script.language == "python" and bool(reach(script, asked.isolation)),
        "packages": asked.packages,
        "files": asked.files,
        "network": list(NETWORK) if asked.network else None,
        "shut": asked.shut,
        "variables": asked.variables,
        "programs": {asked.machine: _programs(asked.machine, asked.network, script.language)},
    }
    place = place_of(script.language, asked.network, asked.variables)
    listener = Listener(ids, refused, limits, script.entrypoint, asked.machine, loads_again=runtime.starts, place=place)
    return _command(script.language, settings | runtime.settings(limits), payloads, listener)


def _command(
    language: Language, settings: dict[str, Any], payloads: Sequence[bytes], listener: Listener
) -> tuple[Command, Listener]:
    """Join the command's parts: first those that processes with a script may read, last the mark and the rows."""
    usual: dict[str, Any] = {
        "isolation": "call",
        "packages": None,
        "files": {},
        "network": None,
        "shut": False,
        "tmp": [TMP_SIZE, TMP_FILES],
    }
    settings = usual | settings
    last = {"mark": listener.mark, "sizes": [len(payload) for payload in payloads]}
    parts = [bundle(language), json.dumps(settings).encode(), json.dumps(last).encode(), b"".join(payloads)]
    made = Command(
        argv=("python3", *ARGUMENTS),
        input=b"".join(piece for part in parts for piece in (b"%d\n" % len(part), part)),
        env=ENVIRONMENT,
        timeout=listener.longest,
    )
    return made, listener


@functools.cache
def _programs(machine: str, network: bool, language: Language) -> dict[str, str]:
    """The seccomp filters, if any: for scripts with their own file system, and for those that see the machine's."""
    starts = RUNTIMES[language].starts

    def made(see: str) -> bytes:
        return seccomp.program(machine, network=network, metadata=see == "shared", starts=starts)

    try:
        return {see: base64.b64encode(made(see)).decode() for see in ("own", "shared")}
    except SandboxUnavailableError:
        return {}
