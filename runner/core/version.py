"""The version of evalcell that runs."""

from __future__ import annotations


def installed_version() -> str | None:
    """Return the version of evalcell. None: it runs from a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("evalcell")
    except PackageNotFoundError:
        return None
