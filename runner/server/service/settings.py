"""What a server allows, and its bounds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import Field

from runner.core.settings import JudgeSettings
from runner.core.text import printable
from runner.core.types import Evaluator
from runner.engine.judges import PROVIDERS, grant_judges
from runner.engine.request import RunRequest
from runner.inputs.evaluators.judges import imports_judge, replies_name
from runner.inputs.evaluators.load import MAX_SOURCE
from runner.inputs.evaluators.resolve import choose, is_named
from runner.server.service.errors import ServiceError
from sandboxes.base import Limits, Model, SandboxConfig
from sandboxes.errors import SandboxError, UnsupportedConfigError
from sandboxes.registry import backends, find


class ServiceSettings(Model):
    """What a server allows, and its bounds. Who starts it decides; no request can change them."""

    sandboxes: tuple[str, ...] = ()
    """Those that may be used. Empty: all of this machine."""
    allow_weak_isolation: bool = False
    allow_network: bool = False
    env: tuple[str, ...] = ()
    """Names of variables of the server that scripts may ask for."""
    judges: JudgeSettings = JudgeSettings()
    """What scripts may ask of judges; its budget is of all requests together."""
    folders: tuple[Path, ...] = ()
    """Folders with results of the command line, which are shown."""
    script_bytes: int = Field(default=MAX_SOURCE, gt=0, le=MAX_SOURCE)
    dataset_bytes: int = Field(default=2 << 30, gt=0)
    body_bytes: int = Field(default=16 << 20, gt=0)
    """Of any other request."""
    log_rows: bool = False
    """Whether each row that failed or was lost is logged."""
    runs: int = Field(default=4, ge=1, le=64)
    """Runs that go on at once; others are queued."""
    waiting: int = Field(default=100, ge=0, le=10_000)
    """The most runs that are queued; one more is refused for now."""
    timeout: float = Field(default=600.0, gt=0, le=86_400)
    """The longest time that a request may give one call, in seconds."""
    memory: int = Field(default=4 << 30, gt=0)
    """The most memory that a request may give a script, in bytes."""
    output: int = Field(default=8 << 20, gt=0)
    """The most bytes that a request may let one call print, or return."""
    active: Mapping[str, str] = Field(default_factory=dict)
    """What is active in the allowed providers, as it was at the start: their keys are not kept in this process."""

    def refused(self) -> dict[str, str]:
        """Return the sandboxes that this server does not allow, each with why, and what to do."""
        found = {}
        for backend in backends().values():
            if self.sandboxes and backend.name not in self.sandboxes:
                allowed = ", ".join(self.sandboxes)
                found[backend.name] = f"this server allows {allowed}; start it with --sandbox {backend.name}"
            elif not self.sandboxes and backend.elsewhere:
                found[backend.name] = (
                    f"scripts and rows would leave this machine; start the server with --sandbox {backend.name}"
                )
            elif backend.hidden and backend.name not in self.sandboxes:
                found[backend.name] = f"there is no sandbox named {backend.name!r}"
        return found

    def refuse(self, config: SandboxConfig) -> None:
        """Raise ServiceError for a config that this server does not allow."""
        if is_named(config) and (why := self.refused().get(config.backend)):
            raise ServiceError("not-allowed", why)
        if config.network and not self.allow_network:
            raise ServiceError("not-allowed", "scripts get no network here; start the server with --allow-network")
        if config.allow_weak_isolation and not self.allow_weak_isolation:
            raise ServiceError(
                "not-allowed", "weak isolation is not allowed here; start the server with --allow-weak-isolation"
            )
        if config.disk is not None and config.disk > self.memory:
            raise ServiceError("not-allowed", f"files hold at most {self.memory >> 20:,} MB here; lower `disk`")
        if config.judges is not None:
            raise ServiceError("not-allowed", "a request grants no judges; start the server with --judge")
        if config.engine or config.image or config.runtime:
            raise ServiceError("not-allowed", "a request names no engine, image or runtime here; leave them out")
        if config.files or config.env_file is not None:
            raise ServiceError("not-allowed", "a request names no files of the server; score them on the command line")
        if strange := [name for name in config.env if name not in self.env]:
            raise ServiceError(
                "not-allowed", f"scripts do not see {', '.join(strange)} here; start the server with --env {strange[0]}"
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the variables with judges' keys."""
        granted = grant_judges(self.judges)
        return () if granted is None else tuple(secret.variable for secret in granted.secrets)

    def with_judges(self, request: RunRequest) -> RunRequest:
        """
        Return the request with the judges of this server, if its script asks one or wishes for hosts in its header.

        Raises:
            ServiceError: The server does not grant what the script asks for.
        """
        evaluator = request.evaluator
        assert isinstance(evaluator, Evaluator)
        asks, hosts = replies_name(evaluator) is not None, () if request.sandbox.network else evaluator.hosts
        if not asks and not hosts:
            return request
        granted = grant_judges(self.judges)
        known = {host.name for host in granted.hosts} if granted else set()
        if lacking := next((host for host in hosts if host not in known), None):
            word = next((f"--judge {name}" for name, one in PROVIDERS.items() if one.host == lacking), "")
            step = word or f"--judge-host {printable(lacking, 80)}"
            raise ServiceError(
                "not-allowed",
                f"the script asks for the host {printable(lacking, 80)}, which this server does not allow; start it "
                f"with {step}",
            )
        if granted is None:
            if imports_judge(evaluator):
                why = "the script asks a judge, and this server grants none; start it with --judge openai/MODEL"
                raise ServiceError("not-allowed", why)
            return request
        return request.model_copy(update={"judges": self.judges})

    def chooses(self, config: SandboxConfig) -> bool:
        """Say whether the server says which sandbox a request gets: it allows only some, and the request names none."""
        return bool(self.sandboxes) and not is_named(config)

    def permitted(self, request: RunRequest) -> RunRequest:
        """
        Return the request, whose sandbox is one that this server allows, also where none is named.

        Blocks.

        Raises:
            ServiceError, UnsupportedConfigError: If no sandbox has what is asked.
        """
        config, evaluator = request.sandbox, request.evaluator
        assert isinstance(evaluator, Evaluator)
        self.refuse(config)
        self.refuse_limits(request.limits)
        request = self.with_judges(request)
        if place := next((one for one in (*evaluator.packages, *config.packages) if "#sha256=" in one), None):
            raise UnsupportedConfigError(
                f"a server takes packages from its index, not by a path or an address: {printable(place, 100)}; put "
                "the wheel into its index, and name it by its version"
            )
        if not self.chooses(config):
            return request
        choice = choose(evaluator, config)
        backend, why = choice.config.backend, self.refused().get(choice.config.backend)
        if why is not None:
            # Rows leave this machine only where a request says so, or the server has no other sandbox.
            mine = [name for name in self.sandboxes if len(self.sandboxes) == 1 or not backends()[name].elsewhere]
            able = next((name for name in mine if _has_all(name, evaluator, config)), None)
            if able is None:
                raise ServiceError("not-allowed", f"{choice.why}: {why}")
            backend = able
        return request.model_copy(update={"sandbox": config.model_copy(update={"backend": backend})})

    def refuse_limits(self, limits: Limits) -> None:
        """Raise ServiceError for limits beyond those of this server."""
        if max(limits.timeout, limits.load_timeout) > self.timeout:
            raise ServiceError("not-allowed", f"a call gets at most {self.timeout:g} s here; lower `limits.timeout`")
        if limits.memory > self.memory:
            raise ServiceError(
                "not-allowed", f"a script gets at most {self.memory >> 20:,} MB here; lower `limits.memory`"
            )
        if limits.output > self.output or limits.result > self.output:
            raise ServiceError(
                "not-allowed",
                f"a call may say at most {self.output >> 20:,} MB here; lower it in `limits`",
            )

    def check(self) -> Self:
        """Check what is `active`. Raises UnsupportedConfigError or SandboxUnavailableError for what cannot be kept."""
        if lacking := next((name for name in self.keys if name not in os.environ), None):
            raise UnsupportedConfigError(f"the variable {lacking} is not set, which has the key of a judge; set it")
        active = {}
        for name in self.sandboxes:
            can = find(name).capabilities
            if self.allow_network and len(self.sandboxes) == 1 and not can.network:
                raise UnsupportedConfigError(f"the {name} sandbox has no network; leave --allow-network out")
            tier = find(name).check()
            if can.elsewhere:
                active[name] = tier
        return self.model_copy(update={"active": active})


def _has_all(name: str, evaluator: Evaluator, config: SandboxConfig) -> bool:
    """Whether a sandbox has all that a script and a config ask for."""
    try:
        can = find(name).capabilities
        choose(evaluator, config.model_copy(update={"backend": name}))
    except (UnsupportedConfigError, SandboxError):
        return False
    wants = ((config.packages or config.lock, can.packages), (config.env, can.env), (config.network, can.network))
    return all(has for asked, has in wants if asked)
