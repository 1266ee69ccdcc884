"""The user's `uv.toml` files: merged as uv merges them, and of each only what evalcell leaves to the user."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from sandboxes.errors import UnsupportedConfigError
from sandboxes.words.text import clean

SOURCES = frozenset({
    "index", "index-url", "extra-index-url", "no-index", "find-links", "index-strategy", "keyring-provider",
    "torch-backend",
})  # fmt: skip
"""Where packages come from. Like all keys that follow, at the top or in `[pip]`."""

ACCESS = frozenset({
    "required-version", "system-certs", "native-tls", "offline", "preview", "preview-features", "http-proxy",
    "https-proxy", "no-proxy", "allow-insecure-host", "concurrent-downloads",
})  # fmt: skip
"""How to get there. `preview` turns on, for example, credentials of the system and indexes in buckets."""

VERSIONS = frozenset({
    "resolution", "prerelease", "prerelease-package", "exclude-newer", "exclude-newer-package", "dependency-metadata",
    "constraint-dependencies", "override-dependencies",
})  # fmt: skip
"""Which versions are chosen there: for resolving alone, as a lock names its versions."""

REFUSED_KEYS = {
    "no-binary": "evalcell installs wheels alone, so that no package's code runs on this machine",
    "no-binary-package": "evalcell installs wheels alone, so that no package's code runs on this machine",
    "exclude-dependencies": "a script would lack what it imports",
}
"""What a user means for every install, and evalcell does not do."""

OWN = frozenset({
    # where uv keeps files, which Python it uses, and how it builds and installs
    "no-cache", "cache-dir", "cache-keys", "python-preference", "python-downloads", "concurrent-builds",
    "concurrent-installs", "python-install-mirror", "pypy-install-mirror", "graalpy-install-mirror",
    "pyodide-install-mirror", "python-downloads-json-url", "link-mode",
    "compile-bytecode", "upgrade", "upgrade-package", "reinstall", "reinstall-package", "no-build", "only-binary",
    "no-build-package", "no-build-isolation", "no-build-isolation-package", "config-settings",
    "config-settings-package", "extra-build-dependencies", "extra-build-variables", "build-constraint-dependencies",
    "require-hashes", "require-build-hashes", "verify-hashes", "python", "system",
    "break-system-packages", "target", "prefix", "strict",
    # what is resolved for
    "python-version", "python-platform", "minimum-libc-version", "universal", "fork-strategy", "extra",
    "all-extras", "no-extra", "group",
    "no-deps", "allow-empty-requirements", "no-sources", "no-sources-package",
    # how the lock is written
    "output-file", "no-strip-extras", "no-strip-markers", "no-annotate", "no-header", "custom-compile-command",
    "generate-hashes", "no-emit-package", "emit-index-url", "emit-find-links", "emit-build-options",
    "emit-marker-expression", "emit-index-annotation", "annotation-style",
    # other commands of uv
    "publish-url", "trusted-publishing", "check-url", "add-bounds", "audit",
})  # fmt: skip
"""What evalcell decides itself; it never reaches uv."""

MAX_BYTES = 1 << 20
"""Longest configuration file."""

_MAPS = ("exclude-newer-package", "prerelease-package")
_PREVIEW = ("preview", "preview-features")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def read_config(own: Mapping[str, str], *, resolving: bool) -> dict[str, Any]:
    """
    Return the user's part of uv's configuration; `own` is the environment that names the files.

    Raises UnsupportedConfigError, which names file and key, for a file that cannot be read, a setting that cannot
    be honoured, and one that is not known.
    """
    merged: dict[str, Any] = {}
    for file in config_files(own):
        merged = _merge(merged, _chosen(file, resolving))
    return merged


def config_files(own: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that uv would read outside of a project, the strongest first."""
    if named := own.get("UV_CONFIG_FILE"):
        yield Path(named).absolute()
        return
    if is_on(own, "UV_NO_CONFIG"):
        return
    user = _user_folder(own)
    if user is not None and os.access(user / "uv.toml", os.R_OK):
        yield user / "uv.toml"
    if not is_on(own, "UV_NO_SYSTEM_CONFIG"):
        yield from [place for place in _system_places(own) if place.is_file()][:1]


def is_on(own: Mapping[str, str], name: str) -> bool:
    """Say whether a variable is true, as uv reads it."""
    return own.get(name, "").lower() in ("1", "true", "t", "yes", "y", "on")


def to_toml(config: Mapping[str, Any]) -> str:
    """Return the configuration as a file."""
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in config.items())


def absolute(place: str, folder: Path) -> str:
    """Return an address as it is; a path as seen from `folder`."""
    return place if _SCHEME.match(place) else str(folder / Path(place).expanduser())


def read_file(file: Path, what: str = "a configuration of uv") -> bytes:
    """Return the content of a regular file of at most `MAX_BYTES`. Raises UnsupportedConfigError."""
    try:
        with open(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise UnsupportedConfigError(f"packages: {_shown(file)} is no regular file, so not {what}")
            content = opened.read(MAX_BYTES + 1)
    except OSError as e:
        raise UnsupportedConfigError(
            f"packages: {_shown(file)} cannot be read ({e.strerror}); check the path"
        ) from None
    if len(content) > MAX_BYTES:
        raise UnsupportedConfigError(f"packages: {_shown(file)} is larger than {MAX_BYTES >> 20} MB, so not {what}")
    return content


def _user_folder(own: Mapping[str, str]) -> Path | None:
    if os.name == "nt":
        return Path(own["APPDATA"]) / "uv" if own.get("APPDATA") else None
    named = own.get("XDG_CONFIG_HOME", "")
    home = own.get("HOME") or os.path.expanduser("~")
    folder = Path(named) if os.path.isabs(named) else Path(home) / ".config"
    return folder / "uv"


def _system_places(own: Mapping[str, str]) -> list[Path]:
    if os.name == "nt":
        return [Path(own.get("SYSTEMDRIVE", "C:") + "\\ProgramData\\uv\\uv.toml")]
    folders = (own.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    folders = folders[: folders.index("")] if "" in folders else folders  # as uv reads it
    return [*(Path(folder) / "uv" / "uv.toml" for folder in folders), Path("/etc/uv/uv.toml")]


def _chosen(file: Path, resolving: bool) -> dict[str, Any]:
    """What counts of a file, with its paths absolute."""
    try:
        whole = tomllib.loads(read_file(file).decode())
    except ValueError as e:  # of TOML, or of UTF-8
        raise UnsupportedConfigError(f"packages: {_shown(file)} is not TOML ({clean(str(e), 120)}); mend it") from None
    pip = whole.pop("pip", {})
    if not isinstance(pip, dict):
        raise UnsupportedConfigError(f"packages: {_shown(file)}: `pip` is not a table; write [pip]")
    config = _keys(whole, file, "", resolving)
    if kept := _keys(pip, file, "pip.", resolving):
        config["pip"] = kept
    return config


def _keys(table: Mapping[str, Any], file: Path, prefix: str, resolving: bool) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        where = f"packages: {_shown(file)}: `{clean(prefix + key, 60)}`"
        if key in REFUSED_KEYS:
            if value and (resolving or not key.startswith("exclude")):
                raise UnsupportedConfigError(
                    f"{where} cannot be honoured: {REFUSED_KEYS[key]}; take it out, or name another file with "
                    "UV_CONFIG_FILE"
                )
        elif key in SOURCES or key in ACCESS or (key in VERSIONS and resolving):
            kept[key] = _absolute(key, value, file.parent)
        elif key not in OWN and key not in VERSIONS:
            raise UnsupportedConfigError(
                f"{where} is no setting that evalcell knows; take it out, or name another file with UV_CONFIG_FILE"
            )
    return kept


def _absolute(key: str, value: Any, folder: Path) -> Any:
    if key == "index" and isinstance(value, list):
        return [
            one | {"url": _place(one["url"], folder)} if type(one) is dict and "url" in one else one for one in value
        ]
    if key in ("extra-index-url", "find-links") and isinstance(value, list):
        return [_place(one, folder) for one in value]
    return _place(value, folder) if key == "index-url" else value


def _place(value: Any, folder: Path) -> Any:
    return absolute(value, folder) if isinstance(value, str) else value


def _merge(strong: dict[str, Any], weak: Mapping[str, Any]) -> dict[str, Any]:
    """As uv does: lists are joined, the stronger one's first; of other values the stronger one's counts."""
    found = dict(strong)
    for key, value in weak.items():
        mine = strong.get(key)
        if isinstance(mine, list) and isinstance(value, list):
            if key not in _PREVIEW:
                found[key] = mine + value
        elif isinstance(mine, dict) and isinstance(value, dict):
            if key == "pip":
                found[key] = _merge(mine, value)
            elif key in _MAPS:
                found[key] = value | mine
        elif key not in strong and not (key in _PREVIEW and any(one in strong for one in _PREVIEW)):
            found[key] = value
    return found


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_string(key)} = {_value(one)}" for key, one in value.items()) + " }"
    return repr(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(file: Path) -> str:
    return clean(str(file), 200)
