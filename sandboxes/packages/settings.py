"""The user's settings that uv gets: where packages come from, but nothing that a folder or a script sets."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages.npm.settings import npm_variables
from sandboxes.packages.pip_config import VARIABLES as PIP
from sandboxes.packages.pip_config import PipSetting, index_config, read_pip
from sandboxes.packages.uv_config import SOURCES, absolute, read_config, read_file, to_toml

PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Some Pythons do not start without these."""

UV_VARIABLES = (
    *PYTHON, "PATH", "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "SYSTEMDRIVE", "NETRC",
    "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""How the network and the user's own files are found."""

ACCESS = (
    "UV_KEYRING_PROVIDER", "UV_CREDENTIALS_DIR", "UV_API_KEY", "UV_AUTH_TOKEN", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS",
    "UV_INSECURE_HOST", "UV_HTTP_TIMEOUT", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES", "UV_REQUEST_TIMEOUT",
    "UV_CONCURRENT_DOWNLOADS", "UV_OFFLINE", "UV_S3_ENDPOINT_URL", "UV_GCS_ENDPOINT_URL", "UV_AZURE_ENDPOINT_URL",
    "UV_REQUIRE_METADATA_RANGE_REQUESTS", "UV_SKIP_WHEEL_FILENAME_CHECK", "UV_PREVIEW", "UV_PREVIEW_FEATURES",
)  # fmt: skip
"""How to connect to an index."""

INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
"""Where packages are."""

SOURCE = (*INDEXES, "UV_INDEX_STRATEGY", "UV_TORCH_BACKEND", "UV_CUDA_DRIVER_VERSION", "UV_AMD_GPU_ARCHITECTURE")
"""What is found there. A cached resolution is used only with the same values, as of those of `VERSIONS`."""

VERSIONS = ("UV_EXCLUDE_NEWER", "UV_PRERELEASE", "UV_RESOLUTION")
"""Which versions are chosen: for resolving alone, as a lock names its versions."""

FILES = {"UV_CONSTRAINT": "--constraint", "UV_OVERRIDE": "--override"}
"""The same; these name files, and go to uv by an option of their own."""

REFUSED_VARIABLES = {
    "UV_NO_BINARY": "evalcell installs wheels alone, so that no package's code runs on this machine",
    "UV_NO_BINARY_PACKAGE": "evalcell installs wheels alone, so that no package's code runs on this machine",
    "UV_EXCLUDE": "a script would lack what it imports",
}
"""What is meant for every install, and evalcell does not do."""

CONFIG = ("UV_CONFIG_FILE", "UV_NO_CONFIG", "UV_NO_SYSTEM_CONFIG")
"""Which files of uv are read, here and not by uv."""

CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Used in place of SSL_CERT_FILE."""

HARMFUL = re.compile(
    r"UV|UV_.*|PYTHON[A-Z0-9]*|VIRTUAL_ENV|CONDA_.*|RUST_.*|TRACING_.*|FORCE_COLOR|CLICOLOR.*|COLUMNS|HTTP_TIMEOUT|"
    r"PWD|OLDPWD"
)
"""
What uv and the helpers that it starts do not get: its settings that are not chosen here, what makes a Python run
other code (`PYTHON_KEYRING_…` is kept), other Pythons, and what would mix traces or colours into its messages.
"""

HELPERS = re.compile(
    r"GOOGLE_APPLICATION_CREDENTIALS|CLOUDSDK_.*|AWS_.*|AZURE_.*|ARTIFACTS_.*|VSS_.*|PYX_.*|(PYTHON_)?KEYRING_.*|"
    r"DBUS_.*"
)
"""What a keyring helper logs in with."""

_LOGIN = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
_USER = re.compile(r"(?<=://)[^/@\s\"]*@")
_MADE_FROM_PIP = {"timeout": "UV_HTTP_TIMEOUT", "default-timeout": "UV_HTTP_TIMEOUT", "retries": "UV_HTTP_RETRIES"}


class UvSettings(NamedTuple):
    """The settings of one run of uv."""

    variables: dict[str, str]
    config: str
    """The text of the only configuration file that uv reads."""
    options: tuple[str, ...]
    """Files of constraints and overrides, which have the last word on versions."""
    choice: str
    """A hash of what decides which versions are found, without credentials."""
    notes: tuple[str, ...] = ()
    """What does not count, in a line for each."""


def settings(own: Mapping[str, str], cache: Path, work: Path, *, resolving: bool = True) -> UvSettings:
    """
    Choose the user's settings from `own`, usually os.environ: for resolving, or for installing what was resolved.

    Configuration is the user's and the system's, never of the current folder. Raises UnsupportedConfigError, which
    names file and key or the variable, for a setting that cannot be honoured.
    """
    for name, why in REFUSED_VARIABLES.items():
        if own.get(name) and (resolving or name != "UV_EXCLUDE") and own[name].lower() not in ("0", "false"):
            raise UnsupportedConfigError(f"packages: {name} cannot be honoured: {why}; run: unset {name}")
    config = read_config(own, resolving=resolving)
    variables = {name: value for name, value in own.items() if not HARMFUL.fullmatch(name)}
    variables |= {name: value for name, value in own.items() if value and _LOGIN.fullmatch(name)}
    variables |= {name: own[name] for name in ACCESS if own.get(name)}
    names = (*SOURCE, *VERSIONS) if resolving else SOURCE
    chosen = {name: _absolute(name, own[name]) for name in names if own.get(name)}
    files = {option: _paths(own[name]) for name, option in FILES.items() if own.get(name) and resolving}
    if certificates := next((own[name] for name in CERTIFICATES if own.get(name)), None):
        variables.setdefault("SSL_CERT_FILE", os.path.abspath(os.path.expanduser(certificates)))
    pip = read_pip(own)
    if not _has_index(config) and not chosen.keys() & set(INDEXES):
        config = index_config(pip) | config
    _take_from_pip(pip, config, variables, chosen, files, resolving)
    fixed = {
        "UV_CACHE_DIR": str(cache),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        "TMPDIR": str(work),
    }
    options = tuple(part for option, paths in files.items() for path in paths for part in (option, path))
    notes: tuple[str, ...] = ()
    if "no-binary" in pip and pip["no-binary"].value.strip() not in (":none:", ""):
        notes = (f"{pip['no-binary'].source} does not count: {REFUSED_VARIABLES['UV_NO_BINARY']}",)
    return UvSettings(variables | chosen | fixed, to_toml(config), options, _hash(chosen, config, files), notes)


def python_variables() -> dict[str, str]:
    """Return the variables without which a Python cannot start."""
    return {name: os.environ[name] for name in PYTHON if name in os.environ}


def install_variables(own: Mapping[str, str]) -> set[str]:
    """Return the names of those that a process which resolves and installs needs beside `NEEDED`."""
    known = {*ACCESS, *SOURCE, *VERSIONS, *FILES, *REFUSED_VARIABLES, *CONFIG, *CERTIFICATES, *PIP}
    found = {name for name in own if name in known or _LOGIN.fullmatch(name)}
    if own.get("UV_KEYRING_PROVIDER") == "subprocess" or own.get("PIP_KEYRING_PROVIDER") in ("subprocess", "import"):
        found |= {name for name in own if HELPERS.fullmatch(name)}
    return found | npm_variables(own)


def _has_index(config: Mapping[str, Any]) -> bool:
    keys = SOURCES - {"index-strategy", "keyring-provider", "torch-backend"}
    return any(table.keys() & keys for table in (config, config.get("pip", {})))


def _take_from_pip(
    pip: Mapping[str, PipSetting],
    config: dict[str, Any],
    variables: dict[str, str],
    chosen: dict[str, str],
    files: dict[str, list[str]],
    resolving: bool,
) -> None:
    """Add what only pip was told; where uv has a setting of the kind, that counts."""

    def lacks(variable: str, key: str) -> bool:
        tables = (config, config.get("pip", {}))
        return variable not in variables and variable not in chosen and not any(key in table for table in tables)

    if resolving:
        if "constraint" in pip and "--constraint" not in files:
            files["--constraint"] = _paths(pip["constraint"].value)
        if "pre" in pip and pip["pre"].on and lacks("UV_PRERELEASE", "prerelease"):
            chosen["UV_PRERELEASE"] = "allow"
        if "uploaded-prior-to" in pip and lacks("UV_EXCLUDE_NEWER", "exclude-newer"):
            chosen["UV_EXCLUDE_NEWER"] = pip["uploaded-prior-to"].value.strip()
    provider = pip["keyring-provider"].value.strip() if "keyring-provider" in pip else ""
    if provider in ("subprocess", "import") and lacks("UV_KEYRING_PROVIDER", "keyring-provider"):
        variables["UV_KEYRING_PROVIDER"] = "subprocess"
    if "trusted-host" in pip and lacks("UV_INSECURE_HOST", "allow-insecure-host"):
        variables["UV_INSECURE_HOST"] = " ".join(pip["trusted-host"].words)
    for name, variable in _MADE_FROM_PIP.items():
        if name in pip and pip[name].value.strip().isdecimal() and variable not in variables:
            variables[variable] = pip[name].value.strip()
    if "proxy" in pip:
        proxy = pip["proxy"].value.strip()
        for variable in ("HTTPS_PROXY", "HTTP_PROXY"):
            if not {variable, variable.lower(), "ALL_PROXY", "all_proxy"} & variables.keys():
                variables[variable] = proxy if "://" in proxy else f"http://{proxy}"
    for name, variable in (("cert", "SSL_CERT_FILE"), ("client-cert", "SSL_CLIENT_CERT")):
        if name in pip:
            variables.setdefault(variable, str(Path(pip[name].value.strip()).expanduser().absolute()))


def _absolute(name: str, value: str) -> str:
    """The variable with its paths as seen from the current folder; uv runs in another."""
    here = Path.cwd()
    if name == "UV_FIND_LINKS":
        return ",".join(absolute(one.strip(), here) for one in value.split(","))
    if name in INDEXES:
        words = value.split() if name in ("UV_INDEX", "UV_EXTRA_INDEX_URL") else [value.strip()]
        return " ".join(_index(one, here) for one in words)
    return value


def _index(written: str, here: Path) -> str:
    name, equals, place = written.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name):
        return f"{name}={absolute(place, here)}"
    return absolute(written, here)


def _paths(value: str) -> list[str]:
    return [absolute(one, Path.cwd()) for one in value.split()]


def _hash(chosen: Mapping[str, str], config: Mapping[str, Any], files: Mapping[str, list[str]]) -> str:
    contents = [[option, path, _digest(path)] for option, paths in files.items() for path in paths]
    text = json.dumps([chosen, config, contents], sort_keys=True, default=str)
    return hashlib.sha256(_USER.sub("", text).encode(errors="replace")).hexdigest()


def _digest(path: str) -> str:
    if not os.path.isabs(path):
        return ""  # an address
    return hashlib.sha256(read_file(Path(path), "a file of constraints")).hexdigest()
