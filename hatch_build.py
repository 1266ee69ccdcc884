"""The hatch build hook: builds the Wasm guest and the page's files before a wheel is made, and packs them into one."""

import gzip
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGES = ("sandboxes", "sandboxes.wasm", "runner", "runner.server", "runner.server.http", "runner.server.http.web")


class BuildHook(BuildHookInterface[Any]):
    """Hatch loads this file by path, and the project is not importable yet."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        guest, page = builds(Path(self.root))
        guest.build_guest(report=self.app.display_info)
        page.build_page(report=self.app.display_info)
        if version != "editable":
            self._scratch = tempfile.TemporaryDirectory(prefix="evalcell-wheel-")
            packed = pack((guest.OUTPUT, page.OUTPUT), Path(self._scratch.name), Path(self.root))
            build_data["force_include"].update(packed)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._scratch.cleanup()


def pack(folders: tuple[Path, ...], scratch: Path, project: Path) -> dict[str, str]:
    """
    Compress what is built, as a wheel is unpacked where it is installed: each file in `scratch`, and its place.

    The guest is read once per machine, by xz; the page's files are sent as gzip, and so are kept as that alone.
    """
    import lzma  # here: a Python without it may still install what stands in a clone

    found = {}
    for path in sorted(path for folder in folders for path in folder.iterdir()):
        if path.suffix == ".wasm":
            target = scratch / f"{path.name}.xz"
            target.write_bytes(lzma.compress(path.read_bytes()))
        elif path.suffix in (".js", ".css"):
            target = scratch / f"{path.name}.gz"
            target.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        else:
            continue
        found[str(target)] = path.with_name(target.name).relative_to(project).as_posix()
    return found


def builds(project: Path) -> tuple[ModuleType, ModuleType]:
    """
    Load the build of the guest and that of the page.

    The packages around them are empty stand-ins: what the real ones import is not installed yet.
    """
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(project.joinpath(*name.split(".")))]
        sys.modules[name] = package
    return import_module("sandboxes.wasm.build.pipeline"), import_module("runner.server.http.web.build.bundle")
