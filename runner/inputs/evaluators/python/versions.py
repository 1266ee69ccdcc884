"""What `requires-python` says."""

from __future__ import annotations

import re

_AT_LEAST = re.compile(r">=3\.(0|[1-9]\d{0,2})")
"""What nearly all scripts say: it needs no `packaging`, whose import takes longer than forty calls."""
_FINAL = re.compile(r"3\.(\d{1,3})\.\d{1,3}")


def normal_versions(text: str) -> str:
    """Return the specifier in its normal form. Raises ValueError for what is none."""
    if _AT_LEAST.fullmatch(text):
        return text
    from packaging.specifiers import SpecifierSet

    return str(SpecifierSet(text))


def allows(specifiers: str, python: str) -> bool:
    """Say whether a version of Python is one of those that a script asks for, in their normal form."""
    if (least := _AT_LEAST.fullmatch(specifiers)) and (found := _FINAL.fullmatch(python)):
        return int(found[1]) >= int(least[1])
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifiers).contains(python, prereleases=True)
