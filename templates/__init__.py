"""The evaluators that come with evalcell: each a complete script that can be copied and changed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
_FILES = {"python": "evaluator.py", "typescript": "evaluator.ts"}
_DEMOS = {"char_ngram_cosine": "token_cosine", "tfidf_cosine": "token_cosine"}
"""Whose dataset a template without its own is tried on."""


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
    """A dataset to try the template on, if there is one. Raises KeyError for an unknown name."""
    folder = _folder(name)
    found = _HERE / _DEMOS.get(folder.name, folder.name) / "demo.jsonl"
    return found if found.is_file() else None


def demo_files(name: str) -> dict[str, Path]:
    """
    The files that the template needs beside a dataset, by the variable that holds their path, for the demo.

    Raises KeyError for an unknown name.
    """
    return {path.name.split(".")[1]: path for path in sorted(_folder(name).glob("demo.*.json"))}


def _folder(name: str) -> Path:
    if name.replace("_", "-") not in names():
        raise KeyError(name)
    return _HERE / name.replace("-", "_")
