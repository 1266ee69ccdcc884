"""Check requirements: names, extras, versions and markers are allowed, paths, URLs and options are not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandboxes.errors import UnsupportedConfigError
from sandboxes.packages.import_names import GENERIC
from sandboxes.packages.npm.requirement import is_npm, normal_form, problem, split
from sandboxes.packages.wheels import direct_wheel
from sandboxes.words.text import clean
from sandboxes.words.wording import Message, Setting

MAX_CHARS = 500
"""Longest requirement. Real ones, with extras and markers, stay under 150."""

MAX_REQUIREMENTS = 200
"""Of one script."""

STEP = "write the name of a package and optionally its versions, for example 'numpy>=2'"

LINES = Message("write the names of packages, or give ", Setting("with_requirements", "FILE"))

_SCRIPT = re.compile(r"\.(pyi?|pyw|ipynb|[cm]?[jt]sx?)$", re.IGNORECASE)
_LIST = re.compile(r"\.(txt|in|pip|toml|cfg|ini|lock|ya?ml|jsonl?|csv|sh|md)$", re.IGNORECASE)
_PACKAGES_LIKE_FILES = ("ruamel.yaml", "discord.py", "web.py")
_ARCHIVE = re.compile(r"\.(whl|zip|tgz|tbz|txz|egg|tar(\.\w+)?)$", re.IGNORECASE)
_VCS = re.compile(r"\b(git|hg|svn|bzr)\+", re.IGNORECASE)


_GENERAL = (
    "means a file of your own, and the package that a registry has by this name is a stranger's: leave it out, "
    "and put the file into the script's folder, whose modules go with the script"
)


def normalize_requirements(lines: Iterable[str], where: str = "packages") -> tuple[str, ...]:
    """
    Return the requirements in normal form and in order, each once.

    Messages name `where` as their source.

    Raises:
        UnsupportedConfigError: For anything but names, extras, versions and markers, wheels with a hash, and packages
            of npm: installers would follow the paths, URLs and options of an untrusted script.
    """
    found: dict[str, None] = {}
    for count, line in enumerate(lines, 1):
        if count > MAX_REQUIREMENTS:
            raise UnsupportedConfigError(
                f"{where}: more than {MAX_REQUIREMENTS} requirements; leave out those that the others install anyway"
            )
        found[_normalize(line, where)] = None
    return tuple(found)


def name_of(requirement: str) -> str:
    """Return the package's normal name, for a requirement from `normalize_requirements`."""
    if is_npm(requirement):
        return split(requirement)[0]
    return canonicalize_name(Requirement(requirement).name)


def quote(line: str, most: int = 80) -> str:
    """Return an untrusted line for a message, cut and with control characters as escapes."""
    return repr(clean(line, most))


def _normalize(line: str, where: str) -> str:
    text = line.strip(" \t")
    if is_npm(text):
        if why := _npm_problem(text):
            raise UnsupportedConfigError(f"{where}: {quote(line)} {why}")
        return normal_form(text)
    if (wheel := direct_wheel(text)) is not None and text.isprintable():
        return wheel.text
    if why := _problem(text):
        step = LINES if text.startswith("-") or _LIST.search(text) else STEP
        raise UnsupportedConfigError(f"{where}: {quote(line)} {why}; {step}")
    if why := _file(text):
        raise UnsupportedConfigError(f"{where}: {quote(line)} {why}")
    try:
        parsed = Requirement(text)
        normal = _text(parsed)
        if _text(Requirement(normal)) != normal:
            raise InvalidRequirement("its normal form means something else")
    except (InvalidRequirement, RecursionError) as e:
        reason = (
            quote(str(e).partition("\n")[0], 120)[1:-1] if isinstance(e, InvalidRequirement) else "nested too deeply"
        )
        raise UnsupportedConfigError(f"{where}: {quote(line)} is not a requirement ({reason}); {STEP}") from None
    if not parsed.marker and (why := _no_package(parsed.name)):
        raise UnsupportedConfigError(f"{where}: {quote(line)} {why}")
    return normal


def _npm_problem(text: str) -> str | None:
    if len(text) > MAX_CHARS or not text.isprintable():
        return "is no requirement of npm"
    if why := problem(text):
        return why
    return _GENERAL if split(normal_form(text))[0].lower().replace("-", "_") in GENERIC else None


def _file(text: str) -> str | None:
    """Why a text without versions is the name of a file."""
    if text.lower() in _PACKAGES_LIKE_FILES:
        return None
    if text.lower() == "pyproject.toml":
        return f"is a file, not a package; {LINES}, such as one with the lines of its `dependencies`"
    if _SCRIPT.search(text):
        own = "what a script imports of its own folder goes with it, and is named nowhere"
        return f"is a file, not a package; {own}; for packages {LINES}"
    return f"is a file, not a package; {LINES}" if _LIST.search(text) else None


def _no_package(name: str) -> str | None:
    """Why nobody means the package that a registry has by this name."""
    module = canonicalize_name(name).replace("-", "_")
    if module in sys.stdlib_module_names:
        return "is a module of Python's own, which needs no package; leave it out"
    if module in GENERIC:
        return _GENERAL
    return None


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if len(text) > MAX_CHARS:
        return f"has more than {MAX_CHARS} characters"
    if not text.isprintable():
        return "has control characters or line breaks"
    if text.startswith("-"):
        return "is an installer's option"
    if _VCS.search(text):
        return "refers to a version control system"
    head = text.partition(";")[0]
    if "://" in head or "@" in head:
        return (
            "is a direct reference or URL, which is accepted of a wheel with its hash: "
            "'NAME @ file:PATH.whl#sha256=…', or https: in place of file:"
        )
    if head.startswith((".", "~")) or "/" in head or "\\" in head or _ARCHIVE.search(head.strip()):
        return "is a path"
    if any(c in text for c in "#$\\"):  # comments, variables and continuations for installers, but not for `packaging`
        return "has a character that is not allowed in requirements"
    return None


def _text(parsed: Requirement) -> str:
    parts: list[str] = [canonicalize_name(parsed.name)]
    if parsed.extras:
        parts.append(f"[{','.join(sorted(canonicalize_name(extra) for extra in parsed.extras))}]")
    parts.append(str(parsed.specifier))
    if parsed.marker:
        parts.append(f" ; {parsed.marker}")
    return "".join(parts)
