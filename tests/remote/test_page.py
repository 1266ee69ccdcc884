"""docs/backends.md says of the providers what the code does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from sandboxes.registry import find
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.credentials import provider_of
from sandboxes.remote.provider import Provider

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "backends.md").read_text()
NAMES = ("e2b", "modal", "vercel", "daytona")


def provider(name: str) -> type[Provider]:
    made = provider_of(name)
    assert made
    assert find(name).capabilities.elsewhere
    return made


def told(name: str) -> dict[str, str]:
    """The column of a provider in the table."""
    table = PAGE.partition("### Provider by provider")[2].partition("###")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    (column,) = [number for number, cell in enumerate(rows[0]) if cell.startswith(f"`{name}`")]
    return {row[0]: row[column] for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name: str) -> None:
    made, says, lifetime = provider(name), told(name), RemoteConfig.model_fields["lifetime"].default
    assert says["created per second, at most"] == f"{made.pace:g}"
    assert says["a machine is replaced before"] == f"{made.longest} s"
    ordered = f"{lifetime if made.extends else made.longest} s{', extended while in use' if made.extends else ';'}"
    assert says["its lifetime"].startswith(ordered)
    network = "from the start" if made.bakes else "after installing"
    assert says["network cut"] == network
    assert ("baked" in says["packages"]) == made.bakes


@pytest.mark.parametrize("name", NAMES)
def test_settings(name: str) -> None:
    """All that the adapter reads, and nothing else."""
    says, made = told(name), provider(name)
    for variable in made.variables:
        assert f"`{variable}`" in says["credentials"]
    module = Path(str(sys.modules[find(name).__module__].__file__)).read_text()
    prefix = name.upper()
    read = set(re.findall(rf'"((?:EVALCELL_)?{prefix}_[A-Z_]+)"', module))
    if name == "vercel":  # written once for three of them
        read |= {f"VERCEL_{part}" for part in ("TOKEN", "TEAM_ID", "PROJECT_ID")}
    shown = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", says["credentials"] + says["other settings"]))
    assert shown == read


def test_versions() -> None:
    pinned = dict(re.findall(r'"(e2b|modal|vercel|daytona)==([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    assert set(pinned) == set(NAMES)
    for name, version in pinned.items():
        assert f"`{name}` {version}" in PAGE


def test_experimental_ones_say_so() -> None:
    head = PAGE.partition("### Provider by provider")[2].splitlines()[2]
    for name in NAMES:
        assert (f"`{name}` (experimental)" in head) == (name in ("vercel", "daytona"))


def test_what_is_told_to_protect_there_is_explained() -> None:
    walls = (ROOT / "sandboxes" / "guest" / "machine" / "namespaces.py").read_text()
    words = set(re.findall(r"`(\w+)`", walls.split('"""')[1])) | {"seccomp", "memory"}
    table = PAGE.partition("| word | scripts have")[2].partition("A protection that is not")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {word for cell in cells for word in re.findall(r"`(\w+)`", cell)} == words
