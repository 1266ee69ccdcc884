"""Commands for who writes an evaluator: templates to look at, a first script, a first folder."""

from __future__ import annotations

import click

from runner.cli import options


@click.command()
@options.calls("library.listings.list_templates")
def templates() -> None:
    """List the evaluators that come with evalcell."""


@click.command(short_help="Suggest a template for a dataset, and the command that runs it.", cls=options.HeadingCommand)
@options.dataset("dataset")
@options.settings("evalcell suggest")
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object only.")
@options.calls("author.suggest.suggest")
def suggest() -> None:
    """
    Suggest a template for DATASET: the whole command that runs it, and why.

    It looks at the first 200 rows: which columns look like the output and the reference, and whether they hold JSON,
    tool calls, labels, numbers, lists, short answers, long texts or programs. Nothing is scored.
    """


@click.command(short_help="Print the source of a template, or of a kept evaluator.")
@click.argument("name", shell_complete=options.completion_of("templates"))
@options.language("The language of a template that has several.")
@click.option("-o", "--output", metavar="FOLDER", help="Write it here, with the files that belong to it.")
@options.calls("library.listings.show_source")
def show() -> None:
    """
    Print the source of the template NAME, or of NAME@VERSION of the store, to save and change it.

    A version of several files is written to a new FOLDER, which is an evaluator as well.
    """


@click.command(short_help="Write a first script, and worked examples for it.")
@click.argument("name")
@options.language("The language of the script.  [default: py, or what the template has]")
@click.option(
    "--from",
    "template",
    metavar="TEMPLATE",
    shell_complete=options.completion_of("templates"),
    help="Copy this template and its examples.",
)
@options.calls("author.new.new")
def new() -> None:
    """
    Write a first script, NAME.py or NAME.ts, and worked examples for it, NAME.cases.jsonl.

    `evalcell test` then tries the script on the examples. Existing files are not overwritten.
    """


@click.command(short_help="Make a folder with an evaluator, rows, and a workflow for CI.")
@click.argument("folder", default="evals")
@options.language("The language of the evaluator.  [default: py]")
@options.calls("author.init.init")
def init() -> None:
    """
    Make FOLDER with an evaluator, examples, ten rows, evalcell.toml to run it, and a workflow for GitHub.

    The default for FOLDER is `evals`. The workflow scores the rows on each pull request; in a git repository it is
    written to the repository's .github/workflows. Existing files are not overwritten.
    """


@click.command(short_help="Show what evalcell.toml runs, after checking it.")
@click.option("--config", "project", metavar="FILE", help="This file.  [default: evalcell.toml, here or above]")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file, for editors.")
@options.calls("score.project.show")
def config() -> None:
    """Show what each run of evalcell.toml does: what it sends, installs and writes. Nothing is run."""


@click.command(short_help="Print what a shell reads to complete evalcell's commands.")
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
