"""`evalcell templates`, `show` and `sandboxes`."""

from __future__ import annotations

import sys

from rich.text import Text

import templates
from runner import tables
from runner.choose import find_evaluator, find_language
from runner.cli import DONE
from sandboxes.base import Language
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.registry import Backend, backends, find

_GRANTS = {"files": "files (--file)", "env": "variables (--env)", "network": "network (--allow-network)"}


def list_templates() -> int:
    """A line each."""
    made = tables.table("template", "languages", "what it scores")
    for name in templates.names():
        about = find_evaluator(name).description.strip().splitlines()
        languages = ", ".join(templates.languages(name))
        made.add_row(Text(name), Text(languages), tables.text(about[0] if about else ""))
    out = tables.out()
    out.print(made)
    out.print(Text("evalcell run NAME demo tries one; evalcell show NAME > mine.py copies it"))
    return DONE


def show_template(name: str, language: Language | None) -> int:
    """The source and nothing else. Raises EvaluatorError for a name or language that there is not."""
    language = find_language(name, language)
    sys.stdout.flush()
    sys.stdout.buffer.write(templates.source(name, language).encode())
    return DONE


def list_sandboxes() -> int:
    """A block each: state here, and what it can do."""
    out = tables.out()
    for backend in backends().values():
        if not backend.hidden:
            out.print(Text(backend.name, style="bold"))
            out.print(tables.facts([("  " + name, tables.text(words)) for name, words in _about(backend)]))
    return DONE


def _about(backend: Backend) -> list[tuple[str, str]]:
    try:
        found = find(backend.name)
    except SandboxError as e:
        return [("state", f"not available: {e}")]
    try:
        note = found.check()
        state = f"available; {note}" if note else "available"
    except SandboxUnavailableError as e:
        state = f"not available: {e}"
    can = found.capabilities
    grants = [words for name, words in _GRANTS.items() if getattr(can, name)]
    return [
        ("state", state),
        ("languages", ", ".join(can.languages)),
        ("packages", "installs what the script declares, and --with" if can.packages else "the standard library only"),
        ("isolation", f"{', '.join(can.isolation)} (the first is the default)"),
        ("can grant", ", ".join(grants) or "nothing: no files, no variables, no network"),
        *(("tiers" if not number else "", words) for number, words in enumerate(can.tiers)),
        *(("enforced" if not number else "", words) for number, words in enumerate(can.enforced)),
    ]
