"""Commands for who writes an evaluator: templates to look at, a first script, a first folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli import options

if TYPE_CHECKING:
    from sandboxes.base import Language


@click.command()
def templates() -> int:
    """List the evaluators that come with evalcell."""
    from runner.cli.commands.listings import list_templates

    return list_templates()


@click.command()
@click.argument("name", shell_complete=options.offered("templates"))
@options.language("The language of a template that has several.")
def show(name: str, language: Language | None) -> int:
    """Print the source of the template NAME, or of NAME@VERSION of the store, to save and change it."""
    from runner.cli.commands.listings import show_source

    return show_source(name, language)


@click.command()
@click.argument("name")
@options.language("The language of the script.  [default: py, or what the template has]")
@click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    shell_complete=options.offered("templates"),
    help="Copy this template and its examples.",
)
def new(name: str, language: Language | None, template: str | None) -> int:
    """
    Write a first script, NAME.py or NAME.ts, and worked examples for it, NAME.cases.jsonl.

    `evalcell test` then tries the script on the examples. Existing files are not overwritten.
    """
    from runner.cli.commands import new

    return new.new(name, language, template)


@click.command()
@click.argument("folder", default="evals")
@options.language("The language of the evaluator.  [default: py]")
def init(folder: str, language: Language | None) -> int:
    """
    Make FOLDER with an evaluator, examples, ten rows, evalcell.toml to run it, and a workflow for GitHub.

    The default for FOLDER is `evals`. The workflow scores the rows on each pull request; in a git repository it is
    written to the repository's .github/workflows. Existing files are not overwritten.
    """
    from runner.cli.commands import init

    return init.init(folder, language or "python")


@click.command()
@click.option("--config", "project", metavar="FILE", help="This file.  [default: evalcell.toml, here or above]")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file, for editors.")
def config(project: str | None, schema: bool) -> int:
    """Show what each run of evalcell.toml does: what it sends, installs and writes. Nothing is run."""
    from runner.cli.commands import project as command

    return command.show(project, schema)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """
    Print what SHELL reads to complete evalcell's commands, options and templates.

    \b
    bash: add to ~/.bashrc                      eval "$(evalcell completion bash)"
    zsh:  add to ~/.zshrc, after compinit       eval "$(evalcell completion zsh)"
    fish: evalcell completion fish > ~/.config/fish/completions/evalcell.fish
    """
    from runner.cli import completion

    click.echo(completion.script(shell, context.find_root().command))
    return 0
