"""The packages of TypeScript scripts in one sandbox: resolved, installed, and given to each script that is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sandboxes.errors import UnsupportedConfigError
from sandboxes.models import SandboxConfig, Script

if TYPE_CHECKING:
    from sandboxes.packages.lock_text import Lock


class ScriptPackages:
    """What a config asks for. Raises UnsupportedConfigError for what are no packages of npm, or no lock of them."""

    def __init__(self, config: SandboxConfig) -> None:
        self.lock: Lock | None = None
        self.site: Path | None = None
        """The folder that has `node_modules`. None: nothing is installed."""
        self._wanted: tuple[str, ...] = ()
        self._seconds = config.install_timeout
        if not config.packages and config.lock is None:
            return
        from sandboxes.packages.lock import read_lock  # here, as all below: most scripts need no packages
        from sandboxes.packages.npm.lock import is_npm_lock
        from sandboxes.packages.npm.requirement import is_npm
        from sandboxes.packages.requirement import normalize_requirements

        self._wanted = normalize_requirements(config.packages)
        if strange := next((one for one in self._wanted if not is_npm(one)), None):
            raise UnsupportedConfigError(
                f"packages: '{strange}' is a package of Python, and the script is TypeScript; write 'npm:{strange}' if "
                "npm's package of that name is meant"
            )
        if config.lock is not None:
            if not is_npm_lock(config.lock):
                raise UnsupportedConfigError(
                    "the lock is of packages of Python, and the script is TypeScript; leave it out"
                )
            self.lock = read_lock(config.lock, "the lock")

    @property
    def text(self) -> str | None:
        """The lock, to be saved and used again."""
        return self.lock.text if self.lock else None

    @property
    def versions(self) -> dict[str, str]:
        """The packages that were asked for, with their versions."""
        if self.lock is None:
            return {}
        from sandboxes.packages.npm.lock import direct_versions

        return direct_versions(self.lock)

    async def open(self, say: Callable[[str], None]) -> None:
        """Resolve and install. Raises as `packages.resolve` and `install` do."""
        if not self._wanted and self.lock is None:
            return
        from sandboxes.packages.npm.installation import install_npm, refuse_native, resolve_npm

        if self.lock is None:
            self.lock = await resolve_npm(self._wanted, say=say, deadline=self._deadline())
        self.site = await install_npm(self.lock, say=say, deadline=self._deadline())
        await asyncio.to_thread(refuse_native, self.lock, self.site)

    async def give(self, script: Script, say: Callable[[str], None]) -> Script:
        """Return the script with the modules of its packages. Raises as `bundle` does."""
        if not script.imports:
            return script
        if self.lock is None or self.site is None:
            raise UnsupportedConfigError(
                f"the script imports {script.imports[0].specifier!r}, and no packages are declared; declare them"
            )
        from sandboxes.packages.npm.bundle import bundle

        modules = await bundle(script.imports, self.lock, self.site, say=say, deadline=self._deadline())
        return script._replace(packages=modules)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._seconds
