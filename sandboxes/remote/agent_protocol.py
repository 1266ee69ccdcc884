"""
What is said to the agent on a machine, and what of its answer is believed.

The answer is lines of JSON, each with a mark that only this command and its agent know. No script can say it, so
that a line with it is the agent's, and without it there is no telling what came on the way. See guest/machine/agent.py.
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
from sandboxes.remote.bundle import ARGUMENTS, ENVIRONMENT, bundle
from sandboxes.remote.provider import Command
from sandboxes.remote.runtime import RUNTIMES
from sandboxes.remote.stream import Greeting, Listener, UnclearError

__all__ = ["Asked", "Greeting", "Listener", "UnclearError", "command", "hello"]

_MACHINES = ("x86_64", "aarch64")


class Asked(Model):
    """One script, and what it may use on the machine."""

    script: Script
    limits: Limits
    isolation: Isolation
    machine: str
    """Its kind, as the greeting told, and with it the numbers of system calls. Another kind is an UnclearError."""
    packages: str | None = None
    """A folder of the machine. `site`: what its Python has installed. None: the standard library alone."""
    files: dict[str, str] = Field(default_factory=dict)
    """Of the machine, all in one folder: what scripts may read, by the variables that hold the paths."""
    network: bool = False
    shut: bool = False
    """Whether the agent has to keep the script off the network by itself, or else start none: nobody else does."""
    variables: dict[str, str] = Field(default_factory=dict, repr=False)


def hello(language: Language = "python", packages: str | None = None) -> tuple[Command, Listener]:
    """Asks who is there, and what can be closed to scripts there; the listener's `greeting` says it."""
    programs = {machine: _programs(machine, False, language) for machine in _MACHINES}
    limits = Limits()
    settings = {
        "script": None,
        "limits": vars(protocol.bounds(limits)),
        "packages": packages,
        "variables": {},
        "programs": programs,
    }
    return _command(language, settings | RUNTIMES[language].settings(limits), (), Listener((), (), None))


def command(asked: Asked, calls: Sequence[Call]) -> tuple[Command, Listener]:
    """
    Loads the script and runs the calls; without calls it only loads.

    A call whose arguments are no JSON is not sent: see `Listener.refused`.
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
        "packages": asked.packages,
        "files": asked.files,
        "network": list(NETWORK) if asked.network else None,
        "shut": asked.shut,
        "variables": asked.variables,
        "programs": {asked.machine: _programs(asked.machine, asked.network, script.language)},
    }
    listener = Listener(ids, refused, limits, script.entrypoint, asked.machine, loads_again=runtime.starts)
    return _command(script.language, settings | runtime.settings(limits), payloads, listener)


def _command(
    language: Language, settings: dict[str, Any], payloads: Sequence[bytes], listener: Listener
) -> tuple[Command, Listener]:
    """In parts: what may be read by processes that a script runs in comes first, the mark and the rows last."""
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
    """The seccomp filters for a script that sees files of its own, and for one that sees the machine's; or none."""
    starts = RUNTIMES[language].starts

    def made(see: str) -> bytes:
        return seccomp.program(machine, network=network, metadata=see == "shared", starts=starts)

    try:
        return {see: base64.b64encode(made(see)).decode() for see in ("own", "shared")}
    except SandboxUnavailableError:
        return {}
