"""The hatch build hook: builds the Wasm guest and the page's files before a wheel is made, editable or not."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGES = ("sandboxes", "sandboxes.wasm", "runner", "runner.server", "runner.server.web")


class BuildHook(BuildHookInterface[Any]):
    """Hatch loads this file by path, and the project is not importable yet."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        guest, page = builds(Path(self.root))
        guest.build_guest(report=self.app.display_info)
        page.build_page(report=self.app.display_info)


def builds(project: Path) -> tuple[ModuleType, ModuleType]:
    """
    Load the build of the guest and that of the page.

    The packages around them are empty stand-ins: what the real ones import is not installed yet.
    """
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(project.joinpath(*name.split(".")))]
        sys.modules[name] = package
    return import_module("sandboxes.wasm.build.pipeline"), import_module("runner.server.web.build.bundle")
