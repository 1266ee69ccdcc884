"""The gate on a comparison, which `run` and `compare` have."""

from __future__ import annotations

import click

from runner.cli.headings import option, several

COMPARED = "Comparison"

worse = several(
    option(
        COMPARED,
        "--fail-if-worse",
        type=click.FloatRange(0, 1e300, max_open=True),
        is_flag=False,
        flag_value=0.0,
        metavar="[D]",
        help="Exit with 1 if it is worse, by more than D; with 3 without enough evidence.",
    ),
    option(COMPARED, "--allow-inconclusive", is_flag=True, help="Exit with 0 without enough evidence, too."),
)

gate = several(
    option(COMPARED, "--baseline", metavar="RUN", help="Compare with this run: a results file, or a run's folder."),
    worse,
)
