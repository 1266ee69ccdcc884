"""A sandbox that runs nothing and writes down all that it is handed. As a third party's: it is chosen by its name."""

from __future__ import annotations

import json

from sandboxes.base import Call, Capabilities, Execution, Limits, Program, SandboxConfig, Script
from sandboxes.fake import FakeSandbox

LOADED: list[str] = []
"""Each script, with what it is shown."""
CALLED: list[str] = []
"""What each call is given."""


class RecorderSandbox(FakeSandbox):
    """Abstains on every row, and explains that by what it was given."""

    name = "recorder"
    capabilities = Capabilities(
        languages=("python", "typescript"), isolation=("batch",), packages=True, files=True, env=True, network=True
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config, self._answer)

    async def load(self, script: Script, limits: Limits) -> Program:
        """Called by the engine."""
        config = self.config
        shown = {"files": config.files, "packages": config.packages, "language": config.language}
        LOADED.append(json.dumps([script, shown, limits.model_dump()], sort_keys=True))
        return await super().load(script, limits)

    def _answer(self, call: Call) -> Execution:
        given = json.dumps([call.positional, call.arguments, call.seed], sort_keys=True)
        CALLED.append(given)
        return Execution(call=call.id, status="ok", value={"score": None, "explanation": given})
