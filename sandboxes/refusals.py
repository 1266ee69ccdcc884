"""Refuse configs and scripts that a sandbox cannot handle."""

from __future__ import annotations

import re

from sandboxes.errors import UnsupportedConfigError
from sandboxes.models import Capabilities, Language, Limits, SandboxConfig, Script
from sandboxes.words.wording import Message, Setting

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""Of a variable that holds the path of a file."""


def refuse_unsupported(name: str, can: Capabilities, config: SandboxConfig) -> None:
    """Raise UnsupportedConfigError for the first thing in the config that `can` does not include."""
    if config.isolation and config.isolation not in can.isolation:
        raise UnsupportedConfigError(
            f"the {name} sandbox has no isolation {config.isolation!r}; choose one of: {', '.join(can.isolation)}"
        )
    if config.language not in (None, *can.languages):
        raise UnsupportedConfigError(
            f"the {name} sandbox does not run {config.language}; `evalcell sandboxes` shows which do"
        )
    for variable in config.files:
        if not VARIABLE_NAME.fullmatch(variable):
            raise UnsupportedConfigError(
                f"a file is given as {variable[:80]!r}, which is not a variable name; use letters, digits and "
                "underscores, 200 at most"
            )
    wanted = {
        "packages": (config.packages or config.lock, "leave them out, or choose a sandbox that installs packages"),
        "files": (tuple(config.files), "leave them out, or choose a sandbox that lets scripts read files"),
        "network": (config.network, "leave it out, or choose a sandbox that allows it"),
        "env": (config.env, "leave it out, or choose a sandbox that passes variables"),
        "disk": (config.disk is not None, "leave it out, or choose a sandbox that bounds what scripts write"),
    }
    for feature, (value, step) in wanted.items():
        if value and not getattr(can, feature):
            shown = f" ({', '.join(value)})" if isinstance(value, tuple) else ""
            shown += f", as {why}" if (why := can.lacks.get(feature)) else ""
            text = f"the {name} sandbox has no {feature}{shown}: {step}; `evalcell sandboxes` lists them"
            raise UnsupportedConfigError(Message(text, settings=[Setting(f"sandbox.{feature}")]))

    for setting in ("engine", "image", "runtime"):
        if getattr(config, setting) is not None and not can.images:
            words = f"the {name} sandbox has no {setting}, as it runs no containers: leave it out, or choose "
            raise UnsupportedConfigError(
                Message(words, Setting("sandbox.backend", "docker"), settings=[Setting(f"sandbox.{setting}")])
            )


def refuse_limits(name: str, can: Capabilities, limits: Limits) -> None:
    """Raise UnsupportedConfigError for a limit that the sandbox does not keep."""
    if limits.cpu is not None and not can.cpu:
        raise UnsupportedConfigError(
            Message(
                f"the {name} sandbox has no limit of processor time (",
                Setting("limits.cpu"),
                "): leave it out, or choose a sandbox that keeps it; `evalcell sandboxes` lists them",
            )
        )


def refuse_language(name: str, runs: Language, script: Script) -> None:
    """Raise UnsupportedConfigError unless the script's language is the one that the sandbox was made for."""
    if script.language != runs:
        raise UnsupportedConfigError(
            f"the {name} sandbox was made for {runs}, and the script is {script.language}; "
            f"make another one with {Setting('sandbox.language', script.language)}"
        )
