"""What a user or a script may ask for: names, extras, versions and markers. Everything else is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandboxes.errors import UnsupportedConfigError
from sandboxes.text import clean

LONGEST = 500
"""Characters of one requirement. Real ones, with extras and markers, stay under 150."""

MOST = 200
"""Requirements of one script."""

STEP = "write a package's name and, if you like, its versions, as in 'numpy>=2'"

_ARCHIVE = re.compile(r"\.(whl|zip|tgz|tbz|txz|egg|tar(\.\w+)?)$", re.IGNORECASE)
_VCS = re.compile(r"\b(git|hg|svn|bzr)\+", re.IGNORECASE)


def checked(lines: Iterable[str], where: str = "packages") -> tuple[str, ...]:
    """
    The requirements in their normal form, each once, in the order given.

    `where` names in messages what the lines come from. Raises UnsupportedConfigError for anything but names, extras,
    versions and markers: installers would follow paths, URLs and options that a stranger's script holds.
    """
    found: dict[str, None] = {}
    for count, line in enumerate(lines, 1):
        if count > MOST:
            raise UnsupportedConfigError(f"{where}: more than {MOST} requirements; leave out what others bring along")
        found[_normal(line, where)] = None
    return tuple(found)


def name_of(requirement: str) -> str:
    """The package's normal name. `requirement` must be one that `checked` gave."""
    return canonicalize_name(Requirement(requirement).name)


def shown(line: str, most: int = 80) -> str:
    """A stranger's line for a message: control characters as escapes, cut."""
    return repr(clean(line, most))


def _normal(line: str, where: str) -> str:
    text = line.strip(" \t")
    if why := _refused(text):
        raise UnsupportedConfigError(f"{where}: {shown(line)} {why}; {STEP}")
    try:
        normal = _text(Requirement(text))
        if _text(Requirement(normal)) != normal:
            raise InvalidRequirement("it reads differently when written out")
    except (InvalidRequirement, RecursionError) as e:
        reason = shown(str(e).partition("\n")[0], 120)[1:-1] if isinstance(e, InvalidRequirement) else "too deep"
        raise UnsupportedConfigError(f"{where}: {shown(line)} is not a requirement ({reason}); {STEP}") from None
    return normal


def _refused(text: str) -> str | None:
    if not text:
        return "is empty"
    if len(text) > LONGEST:
        return f"has more than {LONGEST} characters"
    if not text.isprintable():
        return "has control characters or line breaks"
    if text.startswith("-"):
        return "is an installer's option"
    if _VCS.search(text):
        return "points at a version control system"
    head = text.partition(";")[0]
    if "://" in head or "@" in head:
        return "is a direct reference or URL"
    if head.startswith((".", "~")) or "/" in head or "\\" in head or _ARCHIVE.search(head.strip()):
        return "is a path"
    if any(c in text for c in "#$\\"):  # comments, variables and continuations to an installer, none to `packaging`
        return "has a character that requirements do not have"
    return None


def _text(parsed: Requirement) -> str:
    parts: list[str] = [canonicalize_name(parsed.name)]
    if parsed.extras:
        parts.append(f"[{','.join(sorted(canonicalize_name(extra) for extra in parsed.extras))}]")
    parts.append(str(parsed.specifier))
    if parsed.marker:
        parts.append(f" ; {parsed.marker}")
    return "".join(parts)
