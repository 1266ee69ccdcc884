"""`evalcell run` in all its kinds: one dataset, several evaluators, files in parts, or the runs of a project."""

from __future__ import annotations

import click

from runner.cli.commands import run
from runner.inputs.datasets.location import is_pattern


def score(asked: run.Options) -> int:
    """Do what the options ask for; return the exit code. Raises as `run.run`."""
    if asked["resume"] and asked["overwrite"]:
        raise click.UsageError("--resume goes on with a run and --overwrite starts it anew; give one of them.")
    if asked.project is not None or (asked.dataset is None and not asked.evaluators and asked["inline"] is None):
        from runner.cli.commands import project  # not for an evaluator that is named

        return project.run(asked)
    if asked.trust_config:
        raise click.UsageError("--trust-config is for what evalcell.toml says; leave EVALUATOR and DATASET out.")
    if asked.evaluators:
        from runner.cli.commands import several  # nor for one alone

        return several.run(asked)
    if asked.evaluator is not None and asked.dataset is not None and is_pattern(asked.dataset):
        from runner.cli.commands import parts  # nor for one file

        return parts.run(asked, asked.evaluator, asked.dataset)
    return run.run(asked)
