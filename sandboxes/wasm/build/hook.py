"""The hatch build hook, which builds the guest before a wheel is made, editable or not."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "evalcell_wasm"


class GuestBuildHook(BuildHookInterface[Any]):
    """Hatch loads this file by path, so the package around it must be loaded by path too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        pipeline = build_package(Path(self.root) / "sandboxes" / "wasm")
        pipeline.build_guest(report=self.app.display_info)


def build_package(folder: Path) -> ModuleType:
    """
    Load `build/pipeline.py` of the package in `folder`.

    The folder stands in for a package of another name: the dependencies of the real one are not installed yet.
    """
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[_PACKAGE] = package
    return import_module(f"{_PACKAGE}.build.pipeline")
