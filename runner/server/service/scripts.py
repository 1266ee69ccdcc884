"""Scripts before they are kept: what they are, and what would run them. Nothing is run."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path, PurePath

import templates
from runner.core.errors import EvaluatorError, InputError
from runner.core.types import Evaluator
from runner.inputs.datasets.dataset import SUFFIXES
from runner.inputs.datasets.places import step_for
from runner.inputs.evaluators.foreign.registry import find as find_dialect
from runner.inputs.evaluators.load import SCRIPTS
from runner.inputs.evaluators.resolve import choose
from runner.results.store.names import slugify, split_file_name
from runner.server.service.types import RecognisedFile, SandboxFit, ScriptCheck, Template, TemplateInfo, line
from sandboxes.base import Language, Problem, SandboxConfig
from sandboxes.errors import SandboxError, UnsupportedConfigError
from sandboxes.registry import backends, find
from sandboxes.words.wording import settings_of

_PLACE = re.compile(r":(\d+)(?::(\d+))?:\s")
_name = partial(slugify, otherwise="evaluator")
_FRESH = 60.0
"""Seconds for which it is remembered what this machine can do."""


def stem_of(file_name: str | None) -> str:
    """Return the name of a script's file without its suffix, as a name."""
    return _name(PurePath(file_name.replace("\\", "/")).stem if file_name else "")


def language_of(file_name: str | None, language: Language | None) -> Language:
    """Return what a script is written in, as it was said, or by the name of its file."""
    suffix = PurePath(file_name.replace("\\", "/")).suffix.lower() if file_name else ""
    return language or SCRIPTS.get(suffix, "python")


def check_evaluator(evaluator: Evaluator) -> ScriptCheck:
    """Return what a script is that could be read."""
    return ScriptCheck(
        reads_as="" if evaluator.dialect is None else find_dialect(evaluator.dialect).title,
        **{field: value for field, value in evaluator if field in ScriptCheck.model_fields and field != "files"},
        files=tuple(evaluator.files),
    )


def problem_of(error: EvaluatorError, name: str) -> Problem:
    """Return the place and the words of what is wrong with a script; without a place it is the beginning."""
    first = str(error).split("\n", 1)[0]
    text = first.removeprefix(name)
    found = _PLACE.match(text)
    if found is None:
        return Problem(line=1, column=1, message=line(text.removeprefix(": ").strip()))
    return Problem(line=int(found[1]), column=int(found[2] or 1), message=line(text[found.end() :]))


class PoolMachine:
    """What the sandboxes of this machine can do, looked at now and then."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        # `known`: what is active in sandboxes that cannot be asked from this process.
        self._known = known or {}
        self._notes: dict[str, tuple[float, str, str]] = {}

    def note(self, backend: str) -> tuple[str, str]:
        """Return what is active, or why it cannot be used, of which one is empty. Blocks."""
        if backend in self._known:
            return self._known[backend], ""
        found = self._notes.get(backend)
        if found is None or time.monotonic() - found[0] > _FRESH:
            try:
                found = (time.monotonic(), find(backend).check(), "")
            except (SandboxError, UnsupportedConfigError) as error:
                found = (time.monotonic(), "", line(error))
            self._notes[backend] = found
        return found[1], found[2]

    def tiers(self, refused: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Return the note of each sandbox that is not refused. Blocks."""
        names = [backend.name for backend in backends().values() if not backend.hidden and backend.name not in refused]
        return {name: self.note(name) for name in names}

    def fits(self, evaluator: Evaluator, refused: Mapping[str, str]) -> list[SandboxFit]:
        """
        Return each sandbox with whether it runs this evaluator here.

        `refused`: those that the server does not allow.
        """
        try:
            chosen = choose(evaluator).config.backend
        except (UnsupportedConfigError, SandboxError):
            chosen = ""
        return [
            self._fit(backend.name, evaluator, refused, chosen) for backend in backends().values() if not backend.hidden
        ]

    def _fit(self, name: str, evaluator: Evaluator, refused: Mapping[str, str], chosen: str) -> SandboxFit:
        elsewhere = backends()[name].elsewhere
        tier, why = self.note(name)
        protects: tuple[str, ...] = ()
        try:
            protects = find(name).capabilities.enforced
            choose(evaluator, SandboxConfig(backend=name))
        except (UnsupportedConfigError, SandboxError) as error:
            why = why or line(error)
        why = refused.get(name) or why
        return SandboxFit(
            backend=name,
            fits=not why,
            why_not=why,
            protects=protects,
            tier=tier,
            elsewhere=elsewhere,
            recommended=not why and name == chosen,
        )


@cache
def templates_listed() -> list[TemplateInfo]:
    """Return the evaluators that come with evalcell."""
    return [
        TemplateInfo(name=name, description=templates.description(name), languages=templates.languages(name))
        for name in templates.names()
    ]


@cache
def all_templates() -> list[Template]:
    """Return the evaluators that come with evalcell, with their sources."""
    return [
        Template(**dict(one), sources={language: templates.source(one.name, language) for language in one.languages})
        for one in templates_listed()
    ]


def recognise(head: bytes, file_name: str) -> RecognisedFile:
    """Tell a script from a dataset by its name, and by the first bytes where the name tells nothing."""
    path = PurePath(file_name.replace("\\", "/"))
    suffix, name = path.suffix.lower(), _name(path.name)
    if suffix in SCRIPTS:
        return RecognisedFile(kind="script", name=_name(path.stem), language=SCRIPTS[suffix])
    with suppress(InputError):
        kept = split_file_name(file_name)[1]
        within = kept == ".json" and head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
        why = step_for(head.decode("utf-8", "replace"), Path(path.name)) if within else ""
        place = next((one.value for one in settings_of(why)), None)
        why = f"{line(path.name, 80)} {why}" if place else ""  # else all of it may tell more
        return RecognisedFile(kind="dataset", name=name, suffix=kept, why=why, rows=place)
    if head.startswith(b"PAR1"):
        return RecognisedFile(kind="dataset", name=f"{name}.parquet", suffix=".parquet")
    if re.search(rb"^\s*(async\s+)?def\s+(evaluate|aggregate)\b", head, re.M):
        return RecognisedFile(kind="script", name=_name(path.stem), language="python")
    if re.search(rb"^\s*(export\s+)?(default\s+)?(async\s+)?function\s+(evaluate|aggregate)\b", head, re.M):
        return RecognisedFile(kind="script", name=_name(path.stem), language="typescript")
    if head.lstrip()[:1] == b"{":
        return RecognisedFile(kind="dataset", name=f"{name}.jsonl", suffix=".jsonl")
    known = ", ".join((*SCRIPTS, *SUFFIXES))
    return RecognisedFile(
        kind="unknown",
        name=name,
        why=f"{line(path.name, 80)} is neither a script nor a dataset by its name; rename it to end in one of: {known}",
    )
