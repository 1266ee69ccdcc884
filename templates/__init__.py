"""The evaluators that come with evalcell: each a complete script that can be copied and changed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
_FILES = {"python": "evaluator.py", "typescript": "evaluator.ts"}


def names() -> tuple[str, ...]:
    """All templates, as one names them: `json-distance`."""
    return tuple(sorted(p.name.replace("_", "-") for p in _HERE.iterdir() if (p / _FILES["python"]).is_file()))


def languages(name: str) -> tuple[str, ...]:
    """The languages that the template is written in. Raises KeyError for an unknown name."""
    return tuple(language for language in _FILES if path(name, language).is_file())


def path(name: str, language: str = "python") -> Path:
    """
    The template's script, or where it would be in that language. `json-distance` and `json_distance` are one.

    Raises KeyError for an unknown name or language.
    """
    return _folder(name) / _FILES[language]


def demo(name: str) -> Path | None:
    """A dataset to try the template on, if it has one. Raises KeyError for an unknown name."""
    found = _folder(name) / "demo.jsonl"
    return found if found.is_file() else None


def _folder(name: str) -> Path:
    if name.replace("_", "-") not in names():
        raise KeyError(name)
    return _HERE / name.replace("-", "_")
