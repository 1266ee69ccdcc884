"""Check that a run's packages are plain requirements, and in its lock if it has one; read files of requirements."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.core.errors import InputError
from runner.core.text import describe, printable, read_bounded, whole
from sandboxes.errors import UnsupportedConfigError
from sandboxes.words.wording import Message, Setting

MAX_FILE = 1 << 20
"""Bytes of a file of requirements."""
MAX_FILES = 20
"""With those that it names."""

_COMMENT = re.compile(r"(^|\s)#.*")
_NESTED = re.compile(r"(?:-r|--requirement)(?:\s*=\s*|\s*)(?P<file>.*)")
_STEPS = {
    r"-c|--constraint": "constrains versions, which is the user's to do; set UV_CONSTRAINT=FILE",
    r"-e|--editable": "is a project in a folder; build a wheel of it, and name that one's folder in UV_FIND_LINKS",
    r"-i\b|--(index-url|extra-index-url|no-index|find-links|trusted-host)|-f\b": "decides where packages come from, "
    "which is the user's to do; take it out, and set UV_DEFAULT_INDEX, UV_INDEX or UV_FIND_LINKS",
    r".*--hash\b": Message(
        "has hashes; to install exactly what the file names, give it as the lock: ", Setting("sandbox.lock")
    ),
    r"-": "is an installer's option; take it out",
}


def read_requirements(path: str | os.PathLike[str], named: str = "the requirements file") -> tuple[str, ...]:
    """
    Read a file of requirements as pip has them, for `SandboxConfig(packages=…)`.

    Names, extras, versions and markers, comments, and `-r` for files in the same folder or below it are accepted.

    Args:
        path: The file.
        named: What messages call it.

    Raises:
        InputError: It has anything else; the message names file and line.
    """
    top = os.path.realpath(os.path.dirname(os.fspath(path)) or ".")
    return tuple(dict.fromkeys(_lines(os.fspath(path), named, top, [])))


def _lines(path: str, named: str, top: str, read: list[str]) -> Iterator[str]:
    real = os.path.realpath(path)
    if real in read:
        return
    if len(read) == MAX_FILES:
        raise InputError(f"{named} {printable(whole(path))}: more than {MAX_FILES} files; join them")
    read.append(real)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise InputError(f"{named} {printable(whole(path))} is no regular file; copy what it gives into one")
    if path.endswith(".toml"):
        raise InputError(
            f"{named} {printable(whole(path))}: a file of lines is meant; write its `dependencies` into one"
        )
    text = read_bounded(named, path, MAX_FILE).removeprefix("\ufeff")
    before = ""
    for number, raw in enumerate(text.splitlines(), 1):
        joined = before + raw
        if joined.endswith("\\") and not joined.lstrip().startswith("#"):
            before = joined[:-1]
            continue
        before = ""
        line = _COMMENT.sub("", joined).strip()
        where = f"{printable(whole(path))}:{number}"
        if nested := _NESTED.fullmatch(line):
            inner = os.path.join(os.path.dirname(path), nested["file"].strip())
            if not _is_below(inner, top):
                raise InputError(f"{where}: {describe(line, 80)} is outside of the file's folder; copy its lines here")
            yield from _lines(inner, f"{where}, -r", top, read)
        elif line:
            yield _requirement(line, where)
    if before.strip():
        yield _requirement(before.strip(), f"{printable(whole(path))}, last line")


def _requirement(line: str, where: str) -> str:
    for option, why in _STEPS.items():
        if re.match(option, line):
            name = re.match(r"--[\w-]+|-\w", line)
            raise InputError(f"{where}: {f'`{name[0]}`' if name else 'it'} {why}")
    try:
        return plain((line,), where)[0]
    except UnsupportedConfigError as error:
        from sandboxes.packages.requirement import quote

        # Without the line: an address may have a password, and a file that is none of requirements, anything.
        raise InputError(str(error).replace(quote(line), "it", 1)) from None


def _is_below(path: str, top: str) -> bool:
    return "://" not in path and Path(os.path.realpath(path)).is_relative_to(top)


def plain(lines: Sequence[str], where: str) -> tuple[str, ...]:
    """
    Return the requirements in their normal form.

    Raises:
        UnsupportedConfigError: For paths, URLs, options and the like.
    """
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
    from sandboxes.packages.npm.requirement import is_npm, satisfies, split

    locked = dict(read_lock(lock, where).packages)
    for line in packages:
        if is_npm(line):
            name, versions = split(line)
            version = locked.get(name)
            if version is None or not satisfies(version, versions):
                has = f"has {name} {version}, which is not {line}" if version else f"lacks {line}"
                raise UnsupportedConfigError(f"{where} {printable(has)}; without a lock, -o FOLDER/ saves a new one")
            continue
        asked = Requirement(line)
        version = locked.get(canonicalize_name(asked.name))
        if asked.marker or (version and asked.specifier.contains(version, prereleases=True)):
            continue
        has = f"has {asked.name} {version}, which is not {line}" if version else f"lacks {line}"
        raise UnsupportedConfigError(f"{where} {printable(has)}; without a lock, -o FOLDER/ saves a new one")


def package_name(requirement: str) -> str:
    """Return the name of a package in its normal form, of a requirement such as `Py_Rouge[all]>=1`."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]).lower()
