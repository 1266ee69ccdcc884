"""`evalcell templates`, `show` and `sandboxes`."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.text import Text

import templates
from runner.cli.commands.author.new import write_new
from runner.cli.exit_codes import DONE
from runner.cli.views import render
from runner.core.text import printable, whole
from runner.inputs.evaluators.evaluator_files import names_of
from runner.inputs.evaluators.resolve import find_language, is_reference
from runner.runs.store_references import find as find_stored
from sandboxes.base import Capabilities, Language
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.registry import Backend, backends, find

_GRANTS = {"files": "files (--file)", "env": "variables (--env)", "network": "network (--allow-network)"}


def list_templates() -> int:
    """Print which one to begin with, then a line each."""
    begin = render.table("the output is", "begin with")
    for purpose, name in templates.PURPOSES.items():
        begin.add_row(Text(purpose), Text(name))
    made = render.table("template", "languages", "what it scores")
    for name in templates.names():
        about = templates.description(name).splitlines()
        languages = ", ".join(templates.languages(name))
        made.add_row(Text(name), Text(languages), render.text(about[0]))
    out = render.out()
    out.print(begin)
    out.print(made)
    out.print(Text("evalcell suggest DATASET names the one that fits your columns"))
    out.print(Text("evalcell run NAME demo tries one; evalcell show NAME > mine.py copies it"))
    return DONE


def show_source(name: str, language: Language | None, output: str | None = None) -> int:
    """
    Print the source and nothing else, or write it to a folder, with the files that belong to it.

    Raises:
        EvaluatorError: For a name or language that there is not.
        OutputError: It cannot be written there.
    """
    files, is_grader = {}, False
    if is_reference(name):
        stored = find_stored(name, language)
        source, files, language, is_grader = stored.source, stored.files, stored.language, stored.entry == "<json>"
    else:
        language = find_language(name, language)
        source = templates.source(name, language)
    if output is not None:
        folder, stem, suffix = Path(output), "evaluator", ".py" if language == "python" else ".ts"
        while f"{stem}{suffix}" in files:
            stem += "_"
        script = folder / ("grader.json" if is_grader else f"{stem}{suffix}")
        write_new({script: source, **{folder / file: text for file, text in files.items()}}, "folder", folders=True)
        render.out().say(Text(f"wrote {printable(whole(str(script)))}{f' with {names_of(files)}' if files else ''}"))
        return DONE
    sys.stdout.flush()
    sys.stdout.buffer.write(source.encode())
    sys.stdout.buffer.flush()
    if files:
        render.err().say(
            Text(f"it has files beside it: {names_of(files)}; evalcell show {name} -o FOLDER writes all of them")
        )
    return DONE


def list_sandboxes() -> int:
    """
    Return a block each: state here, and what it can do.

    Those of providers come last; what they share is said once.
    """
    out = render.out()
    shared: list[tuple[str, str]] = []
    for backend in sorted((b for b in backends().values() if not b.hidden), key=_is_elsewhere):
        state, can = _state(backend)
        if can and can.elsewhere and not shared:
            shared = _short(can)
            out.print(Text("On a provider's machines; script and rows are sent there", style="bold underline"))
            _print(out, shared)
        out.print(Text(backend.name, style="bold"))
        facts = [] if can is None else _short(can) if can.elsewhere else _whole(can)
        _print(out, [("state", state), *(fact for fact in facts if fact not in shared)])
    return DONE


def _print(out: render.Terminal, facts: list[tuple[str, str]]) -> None:
    out.print(render.facts([("  " + name, render.text(words)) for name, words in facts]))


def _is_elsewhere(backend: Backend) -> bool:
    try:
        return find(backend.name).capabilities.elsewhere
    except SandboxError:
        return False


def _state(backend: Backend) -> tuple[str, Capabilities | None]:
    """Its state on this machine, and its capabilities: None if its module cannot be imported."""
    try:
        found = find(backend.name)
    except SandboxError as e:
        return f"not available: {e}", None
    try:
        note = found.check()
    except SandboxUnavailableError as e:
        return f"not available: {e}", found.capabilities
    return f"available; {note}" if note else "available", found.capabilities


def _short(can: Capabilities) -> list[tuple[str, str]]:
    grants = [words for name, words in _GRANTS.items() if getattr(can, name)]
    return [
        ("runs", f"{', '.join(can.languages)}{', with packages' * can.packages}; isolation {', '.join(can.isolation)}"),
        ("can grant", ", ".join(grants) or "nothing"),
        ("enforced", ", ".join(can.enforced)),
    ]


def _whole(can: Capabilities) -> list[tuple[str, str]]:
    grants = [words for name, words in _GRANTS.items() if getattr(can, name)]
    return [
        ("languages", ", ".join(can.languages)),
        (
            "packages",
            "installs what the script declares, and --with" if can.packages else "none but what the language brings",
        ),
        ("isolation", f"{', '.join(can.isolation)} (the first is the default)"),
        ("can grant", ", ".join(grants) or "nothing: no files, no variables, no network"),
        *(("tiers" if not number else "", words) for number, words in enumerate(can.tiers)),
        *(("enforced" if not number else "", words) for number, words in enumerate(can.enforced)),
    ]
