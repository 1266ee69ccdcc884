"""`evalcell run` of what `evalcell.toml` says, and `evalcell config`."""

from __future__ import annotations

import json

import click

from runner.cli.command_options import CommandOptions
from runner.cli.commands.score.run import wants_verdict_only
from runner.cli.commands.score.several_runs import run_all
from runner.cli.exit_codes import DONE
from runner.cli.option_groups import on_the_command_line
from runner.cli.views import render
from runner.core.errors import InputError
from runner.runs.project.effects import effects
from runner.runs.project.load import FILE, PYPROJECT, find_project
from runner.runs.project.parts import parts, suites
from runner.runs.project.types import Project, Settings
from runner.runs.store_references import prepare

_ALSO = ("evaluator", "project", "as_json", "quiet", "resume", "overwrite", "trust_config")
"""What may be given on the command line too: all else stands in the file."""
_LINE = 8192
"""Characters: what a file asks for is not hidden by its length."""


def run(options: CommandOptions) -> int:
    """Run all of the project, or the run named; return the exit code. Raises as `run` of a dataset does."""
    found = find_project(options.project)
    if found is None:
        if options.evaluator is not None:
            raise click.UsageError("Missing argument 'DATASET'.")
        raise click.UsageError(f"Missing argument 'EVALUATOR': no {FILE} was found here or above.")
    for name, word in on_the_command_line():
        if name not in _ALSO:
            raise click.UsageError(
                f"{word} is not taken together with {found.name}: write it there, or name EVALUATOR and DATASET."
            )
    names = () if options.evaluator is None else (options.evaluator,)
    if not options.quiet:
        render.err().say(render.text(f"config: {found.name}", "dim"))
    return run_all(
        suites(
            found,
            names,
            resume=options["resume"],
            overwrite=options["overwrite"],
            save=options["save"],
            trust=options.trust_config,
            verdict_only=wants_verdict_only(options),
        ),
        options,
    )


def show(project: str | None, schema: bool) -> int:
    """Print the JSON Schema of the file, or the runs of the one here; return the exit code. Raises InputError."""
    out = render.out()
    if schema:
        out.out(json.dumps(Project.model_json_schema(), indent=2), highlight=False)
        return DONE
    found = find_project(project)
    if found is None:
        raise InputError(
            f"there is no {FILE} here or above, and no {PYPROJECT} with [tool.evalcell]; `evalcell init` writes one"
        )
    out.say(render.text(f"config: {found.name}", "dim"))
    entries = found.project.entries()
    for name, every in parts(found).items():
        entry = entries[name]
        runs = [prepare(part.request, evaluator=part.evaluator) for part in every]  # what cannot be used is told
        lines = [
            ("run", name),
            ("evaluator", _evaluators(entry)),
            ("dataset", found.project.path_of(entry.dataset)),
            ("judged by", ", ".join(_judged_by(entry)) or "nothing"),
            *effects(found, entry, every, runs),
        ]
        out.print(render.facts((heading, render.text(line, limit=_LINE)) for heading, line in lines))
        out.print()
    return DONE


def _evaluators(entry: Settings) -> str:
    if isinstance(entry.evaluators, dict):
        return ", ".join(f"{name}={one}" for name, one in entry.evaluators.items())
    return ", ".join(entry.evaluators or ()) or entry.evaluator or ""


def _judged_by(entry: Settings) -> list[str]:
    bounds = {name: getattr(entry, name) for name in ("max_failed", "max_abstained", "fail_if_worse")}
    gates = [*entry.require, *(f"not {gate}" for gate in entry.fail_if)]
    return gates + [f"{name} {value}" for name, value in bounds.items() if value is not None]
