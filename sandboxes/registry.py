"""Backends by name. A backend's module, and so any optional SDK, is imported only when it is used."""

from __future__ import annotations

from importlib import import_module

from sandboxes.base import Sandbox, SandboxConfig
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.record import Record

ENTRY_POINTS = "evalcell.sandboxes"
"""Third parties register a `Sandbox` subclass in this group."""


class Backend(Record):
    """Where to find a backend's class, and what to install if its module cannot be imported."""

    name: str
    target: str
    install: str = "run `pip install --force-reinstall evalcell`"
    elsewhere: bool = False
    """The class's `capabilities.elsewhere`, known without importing it."""
    by_name: bool = False
    """It is used only where its name is given: an engine may be there without a user who thinks of it."""
    hidden: bool = False
    """For tests: can be used by name, but is not listed."""


_OURS = {
    b.name: b
    for b in (
        Backend(name="wasm", target="sandboxes.wasm.sandbox:WasmSandbox"),
        Backend(name="process", target="sandboxes.process:ProcessSandbox"),
        Backend(name="deno", target="sandboxes.deno:DenoSandbox", install="run: pip install 'evalcell[deno]'"),
        Backend(name="docker", target="sandboxes.remote.docker.sandbox:DockerSandbox", by_name=True),
        Backend(name="e2b", target="sandboxes.remote.e2b.provider:E2BSandbox", elsewhere=True),
        Backend(name="modal", target="sandboxes.remote.modal.provider:ModalSandbox", elsewhere=True),
        Backend(name="vercel", target="sandboxes.remote.vercel:VercelSandbox", elsewhere=True),
        Backend(name="daytona", target="sandboxes.remote.daytona.provider:DaytonaSandbox", elsewhere=True),
        Backend(name="fake", target="sandboxes.fake:FakeSandbox", hidden=True),
    )
}


def backends() -> dict[str, Backend]:
    """Return all registered backends by name. A third party cannot replace one of ours."""
    from importlib.metadata import entry_points  # here: a backend of ours is found without it

    found = {
        e.name: Backend(name=e.name, target=e.value, install=f"reinstall the package that provides {e.name!r}")
        for e in entry_points(group=ENTRY_POINTS)
    }
    return found | _OURS


def find(name: str) -> type[Sandbox]:
    """
    Return the class of a backend.

    Raises:
        UnsupportedConfigError: There is none of this name.
        SandboxUnavailableError: Its module cannot be imported.
    """
    known = _OURS if name in _OURS else backends()  # which looks at all installed packages
    if name not in known:
        listed = ", ".join(b.name for b in known.values() if not b.hidden)
        raise UnsupportedConfigError(f"there is no sandbox named {name!r}; choose one of: {listed}")
    backend = known[name]
    module, _, attribute = backend.target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise SandboxUnavailableError(f"the {name} sandbox cannot be imported ({e}); {backend.install}") from e
    if not (isinstance(found, type) and issubclass(found, Sandbox)):
        raise SandboxUnavailableError(f"{backend.target} is not a Sandbox class; {backend.install}")
    return found


def create(config: SandboxConfig) -> Sandbox:
    """
    Make a sandbox for the config, not yet open.

    Raises:
        UnsupportedConfigError: There is no such backend, or it cannot do what the config asks for.
        SandboxUnavailableError: The backend's module cannot be imported.
    """
    return find(config.backend)(config)
