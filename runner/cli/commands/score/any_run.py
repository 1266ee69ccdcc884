"""`evalcell run` in all its kinds: one dataset, several evaluators, files in parts, or the runs of a project."""

from __future__ import annotations

import click

from runner.cli.command_options import CommandOptions
from runner.cli.commands.score import run
from runner.inputs.datasets.location import is_pattern


def score(options: CommandOptions) -> int:
    """Do what the options ask for; return the exit code. Raises as `run.run`."""
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume goes on with a run and --overwrite starts it anew; give one of them.")
    if options.project is not None or (
        options.dataset is None and not options.evaluators and options["inline"] is None
    ):
        from runner.cli.commands.score import project  # not for an evaluator that is named

        return project.run(options)
    if options.trust_config:
        raise click.UsageError("--trust-config is for what evalcell.toml says; leave EVALUATOR and DATASET out.")
    if options.evaluators:
        from runner.cli.commands.score import several_runs  # nor for one alone

        return several_runs.run(options)
    if options.evaluator is not None and options.dataset is not None and is_pattern(options.dataset):
        from runner.cli.commands.score import parts  # nor for one file

        return parts.run(options, options.evaluator, options.dataset)
    return run.run(options)
