"""`evalcell doctor`: what is wrong on this machine, and what to do."""

from __future__ import annotations

from rich.text import Text

from runner.cli.doctor import Finding, diagnose
from runner.cli.exit_codes import COULD_NOT_JUDGE, DONE
from runner.cli.views import render
from runner.core.text import json_text

_MARKS = {"ok": ("ok", "green"), "warning": ("look", "yellow"), "problem": ("WRONG", "red")}


def doctor(as_json: bool) -> int:
    """Print each finding as it comes; return the exit code: COULD_NOT_JUDGE where no sandbox of this machine works."""
    if as_json:
        diagnosis = diagnose()
        print(json_text(diagnosis.model_dump(mode="json"), indent=2))
        return DONE if diagnosis.works else COULD_NOT_JUDGE
    diagnosis = diagnose(_print)
    wrong = [one for one in diagnosis.findings if one.state != "ok"]
    out = render.out()
    if not diagnosis.works:
        out.print(Text("No sandbox of this machine works; see the steps above", style="bold red"))
        return COULD_NOT_JUDGE
    out.print(
        Text(
            "All is well" if not wrong else f"Everything works; {len(wrong)} optional item{'s' * (len(wrong) > 1)}",
            style="bold",
        )
    )
    return DONE


def _print(finding: Finding) -> None:
    mark, style = _MARKS[finding.state]
    out = render.out()
    line = Text(f"{mark:<6}", style=style)
    line.append(f"{finding.name}: ", style="bold")
    line.append(render.text(finding.found))
    out.say(line)
    if finding.step:
        out.say(Text("      -> ").append(render.text(finding.step)))
