"""The user's settings of npm that Deno gets: where packages come from, and how to get there."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.regular import read_regular
from sandboxes.words.text import clean

MAX_BYTES = 1 << 20
"""Longest .npmrc."""

NETWORK = (
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "DENO_CERT", "DENO_TLS_CA_STORE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""How the network is found."""

_OWN = re.compile(
    r"(?:registry|@[^:\s]+:registry|//\S+:(?:_authToken|_auth|username|_password|email|certfile|keyfile))"
)
"""Where packages come from, and the logins there."""
_ACCESS = ("cafile", "proxy", "https-proxy", "noproxy", "strict-ssl")
_LINE = re.compile(r"\s*(?P<key>[^=;#\s][^=\s]*)\s*=\s*(?P<value>.*?)\s*")
_FILLED = re.compile(r"\$\{(?P<name>[^}?]+)(?P<optional>\??)\}")
_VARIABLE = re.compile(r"npm_config_(?P<key>.+)", re.IGNORECASE)
_SYSTEM = ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc")


class NpmSettings(NamedTuple):
    """The settings of one run of Deno."""

    variables: dict[str, str]
    config: str
    """The text of the only .npmrc that it reads."""
    options: tuple[str, ...]
    choice: str
    """A hash of where packages come from, without logins."""


def npm_settings(own: Mapping[str, str], work: Path) -> NpmSettings:
    """
    Choose the user's settings from `own`, usually os.environ, and from the files of npm.

    Raises UnsupportedConfigError, which names the file, for one that cannot be read or filled in.
    """
    found: dict[str, str] = {}
    for file, is_own in _files(own):
        found |= dict(_read(file, own if is_own else None))
    for name, value in own.items():
        if (match := _VARIABLE.fullmatch(name)) and value:
            found[_key(match["key"])] = value
    kept = {key: value for key, value in found.items() if _OWN.fullmatch(key)}
    variables = {name: own[name] for name in NETWORK if own.get(name)}
    variables |= {"NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": str(work / "deno"), "HOME": str(work)}
    variables |= {"DENO_NO_PROMPT": "1", "TMPDIR": str(work), "XDG_CONFIG_HOME": str(work)}
    variables.setdefault("DENO_TLS_CA_STORE", "mozilla,system")
    if "cafile" in found:
        variables["DENO_CERT"] = os.path.abspath(os.path.expanduser(found["cafile"]))
    elif extra := own.get("NODE_EXTRA_CA_CERTS") or own.get("SSL_CERT_FILE"):
        variables.setdefault("DENO_CERT", extra)
    for key, names in (("https-proxy", "HTTPS_PROXY"), ("proxy", "HTTPS_PROXY HTTP_PROXY"), ("noproxy", "NO_PROXY")):
        for name in names.split():
            if found.get(key) and found[key] not in ("null", "false") and name.lower() not in variables:
                variables.setdefault(name, found[key])
    options = ("--unsafely-ignore-certificate-errors",) if found.get("strict-ssl") == "false" else ()
    places = {key: re.sub(r"(?<=://)[^/@\s]*@", "", kept[key]) for key in kept if key.endswith("registry")}
    choice = hashlib.sha256(json.dumps(places, sort_keys=True).encode()).hexdigest()
    return NpmSettings(variables, "".join(f"{key}={value}\n" for key, value in kept.items()), options, choice)


def npm_variables(own: Mapping[str, str]) -> set[str]:
    """Return the names of those that a process which resolves and installs needs."""
    found = {name for name in own if name in NETWORK or name == "HOME" or _VARIABLE.fullmatch(name)}
    for file, is_own in _files(own):
        if is_own:
            found |= {match["name"] for match in _FILLED.finditer(_text(file))}
    return found


def _files(own: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """The files that npm reads, the strongest last, and whether the user wrote each, not whoever made this folder."""
    named = {match["key"].lower(): value for name, value in own.items() if (match := _VARIABLE.fullmatch(name))}
    system = [named["globalconfig"]] if named.get("globalconfig") else [*_SYSTEM]
    user = named.get("userconfig") or os.path.join(own.get("HOME") or os.path.expanduser("~"), ".npmrc")
    for place, is_own in (*((one, True) for one in system), (user, True), (".npmrc", False)):
        path = Path(place).expanduser().absolute()
        if path.is_file() and (is_own or path != Path(user).absolute()):
            yield path, is_own


def _text(file: Path) -> str:
    try:
        return read_regular(file, MAX_BYTES).decode(errors="replace")
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else e
        raise UnsupportedConfigError(
            f"packages: {clean(str(file), 200)} cannot be read ({why}); mend it, or name another file with "
            "npm_config_userconfig"
        ) from None


def _read(file: Path, variables: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """The settings of a file that count here. Without `variables` none are filled in: they would go to any address."""
    for line in _text(file).splitlines():
        match = _LINE.fullmatch(line)
        if match is None or not (_OWN.fullmatch(match["key"]) or (match["key"] in _ACCESS and variables is not None)):
            continue
        value = match["value"].strip("\"'")
        for hole in _FILLED.finditer(value):
            name = hole["name"]
            if variables is None:
                raise UnsupportedConfigError(
                    f"packages: {clean(str(file), 200)} takes the variable {clean(name, 80)}, which is not filled in "
                    "for a file of the current folder, as somebody else may have written it; put the line into your "
                    "own .npmrc, in your home"
                )
            if name not in variables and not hole["optional"]:
                raise UnsupportedConfigError(
                    f"packages: {clean(str(file), 200)} takes the variable {clean(name, 80)}, which is not set; set "
                    "it, or take the line out"
                )
        yield match["key"], _FILLED.sub(lambda hole: (variables or {}).get(hole["name"], ""), value)


def _key(name: str) -> str:
    """The key that a variable of npm sets."""
    return name if name.startswith(("//", "@")) else name.lower().replace("_", "-")
