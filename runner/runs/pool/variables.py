"""The environment of a worker: what it needs, and nothing that it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandboxes.packages.settings import NEEDED, PYTHON, install_variables
from sandboxes.registry import find

_OWN = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "PYTHONPATH", "PYTHONHOME"),
    *("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "USER", "LOGNAME"),
    *("EVALCELL_CACHE_DIR", "EVALCELL_STATE_DIR", "EVALCELL_DENO", "EVALCELL_DEBUG"),
)


def runs_elsewhere(backend: str) -> bool:
    """Whether the backend's scripts leave this machine. Raises as `registry.find` does."""
    return find(backend).capabilities.elsewhere


def local_variables(own: Mapping[str, str], allowed: Iterable[str] = ()) -> dict[str, str]:
    """Those of the worker whose sandboxes run here; `allowed` are those that scripts may be given."""
    names = {*NEEDED, *PYTHON, *_OWN, *install_variables(own), *allowed}
    return {name: value for name, value in own.items() if name in names}


def provider_variables(own: Mapping[str, str], backend: str, allowed: Iterable[str] = ()) -> dict[str, str]:
    """
    Those of the worker of one provider: its credentials, and those of package indexes, as packages are resolved here.

    Raises as `registry.find` does.
    """
    provider = getattr(find(backend), "provider", None)
    names = {*NEEDED, *PYTHON, *_OWN, *install_variables(own), *allowed, *getattr(provider, "variables", ())}
    prefixes = (f"{backend.upper()}_", f"EVALCELL_{backend.upper()}_")
    return {name: value for name, value in own.items() if name in names or name.startswith(prefixes)}
