"""`evalcell suggest`: the template that a dataset calls for, and the command that runs it."""

from __future__ import annotations

from dataclasses import replace

import click

from runner.cli import values
from runner.cli.command_options import CommandOptions
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE
from runner.cli.option_groups import option_of
from runner.cli.views import render
from runner.core.text import command_text, json_text, printable, whole
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.template_suggestions import suggest_template
from runner.runs.store_references import prepare

_ANY = "exact-match"  # no row is scored


def suggest(options: CommandOptions) -> int:
    """Print what is suggested; return the exit code. Raises DatasetError, and StoreError for one that is kept."""
    dataset = options.dataset
    if dataset == "demo":
        raise click.UsageError("`demo` is the rows of a template that you name; give a dataset of your own.")
    prepared = replace(prepare(options.request(_ANY, dataset)), binding=None)
    stdin = values.standard_input() if dataset == "-" else None
    with open_dataset(prepared.stored or dataset, stdin=stdin, reading=prepared.reading) as cases:
        found = suggest_template(cases)
    if not found.rows:
        render.err().say(render.text(f"evalcell: {printable(whole(dataset))} has no row that can be read", "bold red"))
        return COULD_NOT_JUDGE
    words = found.words(dataset)
    for name, value in options.settings.items() if found.evaluator else ():
        each = value if isinstance(value, tuple) else (value,)
        words += [word for one in each if one not in words for word in (option_of(name), str(one))]
    command = command_text(words)
    if options.as_json:
        told = {**found.model_dump(mode="json"), "command": command}
        render.out().out(json_text(told), highlight=False)
    else:
        out = render.out()
        out.say(render.text(command, "bold", 4000))
        out.say(render.text(f"because {found.why}", limit=render.ERROR))
    return DONE
