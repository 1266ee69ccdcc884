"""What runs scripts on a machine: the Python that is there, or Deno, which is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sandboxes import protocol
from sandboxes.base import Call, Capabilities, Execution, Language, Limits, SandboxConfig, Script
from sandboxes.deno import launch
from sandboxes.errors import SandboxUnavailableError
from sandboxes.refusals import refuse_unsupported

if TYPE_CHECKING:
    from sandboxes.remote.stream import Greeting

_PIPES = "/the/pipes"


class Runtime:
    """The machine's own Python."""

    starts: ClassVar[bool] = False
    """Whether a box starts a program, which also loads the script before each row."""

    def refuse(self, name: str, config: SandboxConfig) -> None:
        """Raise UnsupportedConfigError for what a sandbox of this name can do, but not for scripts in this language."""

    def requirements(self) -> tuple[str, ...]:
        """Return the requirements to install for it. Raises SandboxUnavailableError if they are unknown."""
        return ()

    def is_ready(self, greeting: Greeting) -> bool:
        """Say whether it is known to start there."""
        return True

    def refuse_unsettled(self, name: str, greeting: Greeting) -> None:
        """Raise SandboxUnavailableError for a machine on which results would differ by chance."""
        if greeting.hash_seed != "0":
            raise SandboxUnavailableError(
                f"{name}: the hash seed of the machine's Python is not 0, however it is started, so that sets "
                "would have another order there; choose an image whose python3 obeys PYTHONHASHSEED"
            )

    def load_request(self, script: Script, limits: Limits) -> bytes:
        """Return the request to load a script."""
        return protocol.load_request(script, limits)

    def call_request(self, call: Call, limits: Limits) -> bytes | Execution:
        """Return the request for a call, or the call's execution if it cannot be sent."""
        return protocol.call_request(call, limits)

    def settings(self, limits: Limits) -> dict[str, Any]:
        """Return what the agent must know to start it."""
        return {}

    def explain(self, execution: Execution) -> Execution:
        """Return the execution with a next step, if there is one."""
        return execution


class Deno(Runtime):
    """Deno, if it is installed."""

    starts = True
    _capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("typescript",),
        isolation=("call", "batch"),
        packages=True,
        images=True,
        lacks={
            "files": "a TypeScript evaluator has no permission to read any",
            "network": "a TypeScript evaluator has no permission to use it",
            "env": "a TypeScript evaluator has no permission to read it",
        },
    )

    def refuse(self, name: str, config: SandboxConfig) -> None:
        refuse_unsupported(name, self._capabilities, config)

    def requirements(self) -> tuple[str, ...]:
        from sandboxes.deno.binary import requirement

        return (requirement(),)

    def is_ready(self, greeting: Greeting) -> bool:
        return greeting.deno is not None

    def refuse_unsettled(self, name: str, greeting: Greeting) -> None:
        """Do nothing: results do not depend on the machine's Python."""

    def load_request(self, script: Script, limits: Limits) -> bytes:
        return launch.load_request(script)

    def call_request(self, call: Call, limits: Limits) -> bytes | Execution:
        return protocol.call_request(launch.with_seed(call), limits)

    def settings(self, limits: Limits) -> dict[str, Any]:
        """Return the command line and variables; `pipes` stands for a folder that is made there."""
        started = {"arguments": launch.arguments(_PIPES, limits.memory), "variables": launch.VARIABLES, "pipes": _PIPES}
        return {"deno": started}

    def explain(self, execution: Execution) -> Execution:
        return launch.explain(execution)


RUNTIMES: dict[Language, Runtime] = {"python": Runtime(), "typescript": Deno()}
