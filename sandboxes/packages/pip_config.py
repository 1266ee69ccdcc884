"""What the user has told pip of where packages come from: `PIP_…` variables and `pip.conf`."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages.uv_config import absolute, read_file
from sandboxes.words.text import clean

INDEXES = ("index-url", "extra-index-url", "no-index", "find-links")
"""Where packages are. They count where nothing of the kind is configured for uv."""

OTHERS = (
    *("constraint", "pre", "uploaded-prior-to", "keyring-provider", "trusted-host", "proxy", "cert", "client-cert"),
    *("timeout", "default-timeout", "retries", "no-binary"),
)
"""The rest that counts, or is told not to; each where uv has no setting of its own."""

VARIABLES = ("PIP_CONFIG_FILE", *(f"PIP_{name.upper().replace('-', '_')}" for name in (*INDEXES, *OTHERS)))

_NAME = "pip.ini" if os.name == "nt" else "pip.conf"


class PipSetting(NamedTuple):
    """A value, and the variable or file that has it."""

    value: str
    source: str

    @property
    def words(self) -> list[str]:
        return self.value.split()

    @property
    def on(self) -> bool:
        return self.value.strip().lower() in ("1", "true", "t", "yes", "y", "on")


def read_pip(own: Mapping[str, str]) -> dict[str, PipSetting]:
    """Return the settings by their names in `pip.conf`; `own` is the environment. Raises UnsupportedConfigError."""
    found: dict[str, dict[str, PipSetting]] = {"global": {}, "install": {}}
    for file in _files(own):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(read_file(file, "a configuration of pip").decode())
        except (configparser.Error, UnicodeDecodeError) as e:
            why = clean(" ".join(str(e).split()), 120)
            raise UnsupportedConfigError(f"packages: {clean(str(file), 200)} cannot be read ({why}); mend it") from None
        for section, settings in found.items():
            if parser.has_section(section):
                for key, value in parser.items(section):
                    name = key.replace("_", "-").removeprefix("--")
                    settings[name] = PipSetting(value, f"`{name}` of {clean(str(file), 200)}")
    variables = {name: own[name] for name in VARIABLES if own.get(name)}
    env = {name[4:].lower().replace("_", "-"): PipSetting(value, name) for name, value in variables.items()}
    every = found["global"] | found["install"] | env
    return {name: every[name] for name in (*INDEXES, *OTHERS) if name in every and every[name].value.strip()}


def index_config(pip: Mapping[str, PipSetting]) -> dict[str, Any]:
    """Return the indexes as uv's configuration."""
    config: dict[str, Any] = {}
    here = Path.cwd()
    if "index-url" in pip:
        config["index-url"] = absolute(pip["index-url"].value.strip(), here)
    if "extra-index-url" in pip:
        config["extra-index-url"] = [absolute(one, here) for one in pip["extra-index-url"].words]
        config["index-strategy"] = "unsafe-best-match"  # as pip: the best of all indexes; uv stops at the first
    if "no-index" in pip and pip["no-index"].on:
        config["no-index"] = True
    if "find-links" in pip:  # pip warns about a missing folder, uv fails
        links = [absolute(one, here) for one in pip["find-links"].words]
        config["find-links"] = [one for one in links if not os.path.isabs(one) or os.path.exists(one)]
    return {key: value for key, value in config.items() if value}


def _files(own: Mapping[str, str]) -> list[Path]:
    """The files that pip reads, the strongest last."""
    named = own.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(own.get("HOME") or os.path.expanduser("~"))
    if os.name == "nt":
        system = [Path(own.get("PROGRAMDATA", "C:\\ProgramData")) / "pip" / _NAME]
        user = [home / "pip" / _NAME, Path(own.get("APPDATA") or home) / "pip" / _NAME]
    else:
        folders = [folder for folder in (own.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if folder]
        mac = ["/Library/Application Support"] if sys.platform == "darwin" else []
        system = [*(Path(folder) / "pip" / _NAME for folder in (*mac, *folders)), Path("/etc") / _NAME]
        user = [home / ".pip" / _NAME, Path(own.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / _NAME]
        if sys.platform == "darwin" and (old := home / "Library/Application Support/pip").is_dir():
            user[1] = old / _NAME
    places = [*system, *user, Path(sys.prefix) / _NAME]
    return [place for place in places if os.access(place, os.R_OK)] + ([Path(named).absolute()] if named else [])
