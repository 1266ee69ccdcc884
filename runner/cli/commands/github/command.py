"""`evalcell github`: what action.yml asks of GitHub."""

from __future__ import annotations

import click

from runner.cli.exit_codes import DONE


@click.group(hidden=True)
def github() -> None:
    """Run what the GitHub action uses; the environment is that of a job."""


@github.command()
@click.option("--name", required=True, help="By this name a comment is found again.")
@click.argument("report")
def comment(name: str, report: str) -> int:
    """Write REPORT as a comment on the job's pull request, or update the one that it wrote before."""
    from runner.cli.commands.github.api import write_comment

    click.echo(f"evalcell: {write_comment(name, report)}", err=True)
    return DONE


@github.command()
@click.option("--name", required=True, help="The artifact's name.")
@click.option("--branch", required=True, help="The branch whose job has made it.")
@click.argument("folder")
def baseline(name: str, branch: str, folder: str) -> int:
    """Put the results of the newest artifact of this name and branch into FOLDER."""
    from runner.cli.commands.github.api import fetch_baseline

    fetch_baseline(name, branch, folder)
    return DONE
