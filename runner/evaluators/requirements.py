"""Check that a run's packages are plain requirements, and in its lock if it has one."""

from __future__ import annotations

from collections.abc import Sequence

from runner.text import printable
from sandboxes.errors import UnsupportedConfigError


def plain(lines: Sequence[str], where: str) -> tuple[str, ...]:
    """The requirements in their normal form. Raises UnsupportedConfigError for paths, URLs, options and the like."""
    if not lines:
        return ()
    from sandboxes.packages import normalize_requirements  # most scripts ask for none

    return normalize_requirements(lines, where)


def refuse_lacking(packages: Sequence[str], lock: str, where: str) -> None:
    """
    Raise UnsupportedConfigError for text that is not a lock, and for a lock without one of the packages.

        A requirement with a marker may not hold where the script runs, and is not looked for.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    from sandboxes.packages import read_lock

    locked = dict(read_lock(lock, where).packages)
    for line in packages:
        asked = Requirement(line)
        version = locked.get(canonicalize_name(asked.name))
        if asked.marker or (version and asked.specifier.contains(version, prereleases=True)):
            continue
        has = f"has {asked.name} {version}, which is not {line}" if version else f"lacks {line}"
        raise UnsupportedConfigError(f"{where} {printable(has)}; without a lock, -o FOLDER/ saves a new one")
