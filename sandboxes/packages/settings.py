"""The user's settings that uv gets: where packages come from, but nothing that a folder or a script sets."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Some Pythons do not start without these."""

NEEDED = (
    *PYTHON, "PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "NETRC",
    "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""How the network and the user's own files are found."""

ACCESS = (
    "UV_KEYRING_PROVIDER", "UV_CREDENTIALS_DIR", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES", "UV_REQUEST_TIMEOUT",
    "UV_CONCURRENT_DOWNLOADS", "UV_OFFLINE",
)  # fmt: skip
"""How to connect to an index."""

CHOICE = (
    "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY", "UV_EXCLUDE_NEWER", "UV_PRERELEASE", "UV_RESOLUTION", "UV_TORCH_BACKEND",
)  # fmt: skip
"""What is found there. A cached resolution is used only with the same values."""

PIP = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX", "PIP_FIND_LINKS": "UV_FIND_LINKS"}
"""Used if the user has not configured indexes for uv; otherwise a private index would be ignored."""

CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Used in place of SSL_CERT_FILE."""

_LOGIN = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
_USER = re.compile(r"(?<=://)[^/@\s]*@")


class Settings(NamedTuple):
    """The settings of one run of uv."""

    variables: dict[str, str]
    options: tuple[str, ...]
    """Global options: which configuration file to read, if any."""
    choice: str
    """A hash of what decides which versions are found, without credentials."""


def settings(own: Mapping[str, str], cache: Path, work: Path) -> Settings:
    """
    Choose the user's settings from `own`, usually os.environ.

    Configuration is read from the user's file, or else the system's, never from the current folder.
    """
    variables = {name: own[name] for name in (*NEEDED, *ACCESS) if own.get(name)}
    variables |= {name: value for name, value in own.items() if value and _LOGIN.fullmatch(name)}
    file = _config_file(own)
    chosen = {name: own[name] for name in CHOICE if own.get(name)}
    if file is None and not chosen.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"}:
        chosen = _from_pip(own) | chosen
    if links := chosen.get("UV_FIND_LINKS"):
        chosen["UV_FIND_LINKS"] = ",".join(_absolute(one) for one in links.split(","))
    if certificates := next((own[name] for name in CERTIFICATES if own.get(name)), None):
        variables.setdefault("SSL_CERT_FILE", certificates)
    fixed = {
        "UV_CACHE_DIR": str(cache),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "TMPDIR": str(work),
    }
    options = ("--config-file", str(file)) if file else ("--no-config",)
    return Settings(variables | chosen | fixed, options, _hash(chosen, file))


def python_variables() -> dict[str, str]:
    """The variables without which a Python cannot start."""
    return {name: os.environ[name] for name in PYTHON if name in os.environ}


def _from_pip(own: Mapping[str, str]) -> dict[str, str]:
    found = {uv: own[pip] for pip, uv in PIP.items() if own.get(pip)}
    if links := found.get("UV_FIND_LINKS"):  # pip warns about a missing folder, uv fails
        there = [one for one in links.split() if "://" in one or Path(one).expanduser().exists()]
        found["UV_FIND_LINKS"] = ",".join(there)
    return {name: value for name, value in found.items() if value}


def _absolute(link: str) -> str:
    return link if "://" in link else str(Path(link.strip()).expanduser().absolute())


def _config_file(own: Mapping[str, str]) -> Path | None:
    if own.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes", "on"):
        return None
    if named := own.get("UV_CONFIG_FILE"):
        return Path(named).absolute()
    home = own.get("XDG_CONFIG_HOME") or (own["HOME"] + "/.config" if own.get("HOME") else None) or own.get("APPDATA")
    folders = [home, *own.get("XDG_CONFIG_DIRS", "").split(os.pathsep), "/etc"]
    places = (Path(folder) / "uv" / "uv.toml" for folder in folders if folder)
    return next((place for place in places if place.is_file()), None)


def _hash(chosen: Mapping[str, str], file: Path | None) -> str:
    try:
        content = file.read_bytes() if file else b""
    except OSError:
        content = b""  # uv will report what is wrong with it
    text = "\n".join(f"{name}={_USER.sub('', value)}" for name, value in sorted(chosen.items()))
    return hashlib.sha256(text.encode(errors="replace") + b"\0" + content).hexdigest()
