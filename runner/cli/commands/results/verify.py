"""`evalcell verify`: run rows of a finished run again, and tell whether they give the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from runner.cli import signals
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE, GATE_FAILED, INTERRUPTED
from runner.cli.views import render
from runner.cli.views.progress import ProgressBar
from runner.core.text import json_text, rows_of
from runner.engine.scoring.look_alikes import tell_json_apart
from runner.results.output.files import check_place, replace_file, write_error
from runner.runs.verify import Verification, open_verification

_DIGITS = 16
"""Of a digest: `--json` and `--attest` have all of it."""


def verify(
    folder: str, sample: str, dataset: str | None, same_rights: bool, attest: str | None, as_json: bool, quiet: bool
) -> int:
    """Verify a run; return the exit code. Raises what `RunVerification` does, OutputError and WriteError."""
    with open_verification(folder, sample, dataset, same_rights) as work:
        if attest is not None:
            inside = [str(path) for path in Path(folder).iterdir()] if Path(folder).is_dir() else []
            check_place(f"--attest {attest}", attest, [*work.run.inputs, *inside])
        if not quiet:
            render.err().say(render.text(f"{rows_of(work.sample)} again; sandbox: {work.run.sandbox.name}", "dim"))

        async def score() -> None:
            with ProgressBar(not quiet) as progress:
                async with aclosing(work.score()) as found:
                    async for result in found:
                        progress.add([result])

        if signals.run(score(), quiet=quiet):
            render.err().say(render.text("interrupted before all rows were run again", "yellow"))
            return INTERRUPTED
    found = work.report()
    if attest is not None:
        try:
            replace_file(Path(attest), json_text(found.statement()) + "\n")
        except OSError as error:
            raise write_error(attest, error) from error
    if as_json:
        render.out().out(json_text(found.model_dump(mode="json")), highlight=False)
    elif not quiet:
        _print(found, attest)
    return GATE_FAILED if found.different else DONE if found.passed else COULD_NOT_JUDGE


def _print(found: Verification, attest: str | None) -> None:
    out = render.out()
    for row in found.mismatches:
        head = Text.assemble(("differs", "bold red"), "  ", render.text(row.id, "bold"), f"  line {row.line}")
        cells = [
            (field if not at else "", name, render.text(value, limit=render.ERROR))
            for field, both in row.fields.items()
            for at, (name, value) in enumerate(zip(("then", "now"), tell_json_apart(both), strict=True))
        ]
        out.print(render.block(head, cells))
    if (more := found.different - len(found.mismatches)) > 0:
        out.say(render.text(f"and {more:,} more differ"))
    out.print(render.facts(_facts(found)))
    if attest is not None:
        out.say(render.text(f"written: {attest}"))


def _facts(found: Verification) -> Iterator[tuple[str, RenderableType]]:
    yield "run", render.text(f"{found.run}: {rows_of(found.rows)}, {found.evaluator}, {found.sandbox}")
    for name, digest in found.digests.items():
        yield name, Text(f"sha256 {digest[:_DIGITS]}…", "dim")
    for note in found.notes:
        yield "note", render.text(note, "yellow")
    if found.lost:
        yield "lost", render.text(f"{found.lost:,} of them, which prove nothing", "yellow")
    style = "bold red" if found.different else "bold green" if found.passed else "yellow"
    yield "verdict", Text(found.verdict, style)
