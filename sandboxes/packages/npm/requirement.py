"""Requirements of npm's packages: `npm:NAME` or `npm:NAME@VERSIONS`."""

from __future__ import annotations

import re

PREFIX = "npm:"

_NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*"
_REQUIREMENT = re.compile(rf"npm:(?P<name>{_NAME})(?:@(?P<range>[^@/]+))?(?P<path>/.*)?")
_RANGE = re.compile(r"[\^~<>=|*xX0-9][0-9A-Za-z.*^~<>=|+ -]*|[A-Za-z][A-Za-z0-9._-]*")
_MAX_NAME = 214  # npm's own

_NODE = frozenset({
    "async_hooks", "child_process", "cluster", "console", "crypto", "dgram", "dns", "domain", "fs", "http", "http2",
    "https", "inspector", "module", "net", "os", "path", "perf_hooks", "readline", "repl", "stream", "sys", "timers",
    "tls", "tty", "v8", "vm", "wasi", "worker_threads", "zlib",
})  # fmt: skip
"""Modules of Node; not those that a registry has as well, written for where Node is not."""


def is_npm(requirement: str) -> bool:
    """Say whether a requirement is one of npm's packages, by how it begins."""
    return requirement.startswith(PREFIX)


def split(requirement: str) -> tuple[str, str]:
    """Return name and versions of a requirement in its normal form; `*` for any."""
    found = _REQUIREMENT.fullmatch(requirement)
    assert found is not None
    return found["name"], found["range"] or "*"


def problem(text: str) -> str | None:
    """Return why this is no requirement of npm, and what to write. None: it is one."""
    found = _REQUIREMENT.fullmatch(text)
    if found is None or len(found["name"]) > _MAX_NAME:
        return "is not a requirement of npm; write npm:NAME or npm:NAME@VERSIONS, for example 'npm:zod@^3'"
    if found["path"]:
        return f"names a part of a package; declare the package: '{text[: -len(found['path'])]}'"
    if found["range"] is not None and not _RANGE.fullmatch(found["range"].strip()):
        return f"has no versions that npm knows; write for example 'npm:{found['name']}@^3'"
    if found["name"] in _NODE:
        return f"is a module of Node's own, which needs no package; write `node:{found['name']}` where it is imported"
    return None


def normal_form(text: str) -> str:
    """Return the normal form of what has no `problem`."""
    name, versions = split(text)
    versions = " ".join(versions.split())
    return f"{PREFIX}{name}" if versions in ("*", "x", "latest") else f"{PREFIX}{name}@{versions}"


def join(requirements: tuple[str, ...]) -> dict[str, str] | str:
    """Return the versions of each package, or why those of two requirements cannot be joined."""
    wanted: dict[str, str] = {}
    for each in requirements:
        name, versions = split(each)
        known = wanted.get(name, "*")
        if "*" in (known, versions) or known == versions:
            wanted[name] = versions if known == "*" else known
        elif all(re.match(r"[\^~<>=0-9]", one) and "||" not in one for one in (known, versions)):
            wanted[name] = f"{known} {versions}"
        else:
            return f"{name} is asked for as {known!r} and as {versions!r}; write one of them"
    return wanted


def satisfies(version: str, versions: str) -> bool:
    """Say whether a version is one of `versions`; true for a tag, and for what is written in a rarer way."""
    return any(_all(version, part) for part in versions.split("||"))


def _all(version: str, versions: str) -> bool:
    plain = re.sub(r"([\^~<>=]+)\s+", r"\1", versions.strip())
    return " - " in plain or all(_is_in(version, one) for one in plain.split())


def _is_in(version: str, one: str) -> bool:
    match = re.fullmatch(
        r"(?P<sign>\^|~|[<>]=?|=|)v?(?P<parts>(?:\d+|[xX*])(?:\.(?:\d+|[xX*]))*)(?P<rest>[-+].*)?", one
    )
    own = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None or own is None or match["rest"]:
        return True
    digits = [int(part) for part in match["parts"].split(".") if part.isdigit()]
    sign, mine = match["sign"], [int(part) for part in own.groups()]
    low = [*digits, 0, 0, 0][:3]
    if sign.startswith((">", "<")):
        reached = mine >= low if sign[0] == ">" else mine <= low
        return reached and (sign.endswith("=") or mine[: len(digits)] != digits)
    fixed = len(digits) if sign in ("", "=") else min(len(digits), 2)
    if sign == "^":
        fixed = min(len(digits), next((at for at, part in enumerate(digits) if part), len(digits) - 1) + 1)
    return mine >= low and mine[:fixed] == digits[:fixed]


def package_of(specifier: str) -> tuple[str, str, str] | None:
    """
    Return the package of an import, its versions where the import names them, and how a bundler imports it.

    `npm:zod@3/v4` is of `zod`, `3`, and is imported as `zod/v4`. None: it is no import of a package.
    """
    found = _REQUIREMENT.fullmatch(specifier if is_npm(specifier) else PREFIX + specifier)
    if found is None or len(found["name"]) > _MAX_NAME or (found["range"] and not is_npm(specifier)):
        return None
    return found["name"], found["range"] or "", found["name"] + (found["path"] or "")
