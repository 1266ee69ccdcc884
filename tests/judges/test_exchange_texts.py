"""What people see of exchanges with judges: the rows' own, models, in files, reports, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate
from runner.cli.views.rows_view import rows_view
from runner.engine.scoring.overview import judge_lines
from runner.results.reports.runs import read_parts
from sandboxes.judges.exchange_texts import TEXT, answered_text, asked_text
from tests.judges.judge import fake_judge
from tests.judges.test_runs import rows, script, settings

__all__ = ["script"]

CHAT = {"model": "m", "messages": [{"role": "system", "content": "Be strict."}, {"role": "user", "content": "Is it?"}]}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (CHAT, "system: Be strict.\nuser: Is it?"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Is it?"}]}]}, "Is it?"),
        (
            {"system": "Be strict.", "messages": [{"role": "user", "content": "Is it?"}]},
            "system: Be strict.\nuser: Is it?",
        ),
        ({"instructions": "Be strict.", "input": "Is it?"}, "system: Be strict.\nIs it?"),
        ({"input": ["one", "two"]}, "one\ntwo"),
        ({"odd": [1]}, '{"odd": [1]}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_prompt_is_read_in_each_form(body: Any, text: str) -> None:
    assert asked_text(json.dumps(body).encode()) == text


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
def test_an_answer_is_read_in_each_form_also_of_a_stream(kind: str) -> None:
    with fake_judge():
        from fake_judge import events, whole  # type: ignore[import-not-found]
    said = "Four is right, and this is longer than a chunk."
    assert answered_text(json.dumps(whole(kind, "m", said, (1, 2), 1)).encode()) == said
    lines = [one if isinstance(one, str) else json.dumps(one) for one in events(kind, "m", said, (1, 2))]
    assert answered_text("".join(f"data: {line}\n\n" for line in lines).encode()) == said


def test_texts_of_any_size_and_kind_are_bounded() -> None:
    deep = b'{"content":[' * 500 + b"1" + b"]}" * 500
    for body in (b"", b"\xff\x00", deep, json.dumps({"input": "x" * 9_000_000}).encode()):
        assert len(asked_text(body)) <= TEXT
    assert asked_text(json.dumps({"input": f"begin{'x' * 9000}end"}).encode()).startswith("begin")
    assert asked_text(json.dumps({"input": f"begin{'x' * 9000}end"}).encode()).endswith("end")


def test_rows_carry_their_exchanges_into_files_and_reports(script: str, tmp_path: Path) -> None:
    folder = f"{tmp_path}/run/"
    with fake_judge() as judge:
        price = {"judge_price": ("judge=1/1",)}
        report = evaluate(script, rows("judge", "say-<b>"), judges=settings(judge, **price), output=folder)
    one, other = report.results
    assert [(said.model, said.asked) for said in one.exchanges] == [("judge", "is 4 right?")]
    assert json.loads(one.exchanges[0].answered)["score"] == one.score
    assert other.exchanges[0].answered == "<b>"
    line = json.loads((tmp_path / "run/results.jsonl").read_text().splitlines()[1])
    assert line["exchanges"][0]["answered"] == "<b>"
    usage = report.summary.judges
    assert usage is not None
    assert [(name, model.calls) for name, model in usage.models.items()] == [("judge", 1), ("say-<b>", 1)]
    assert usage.models["judge"].usd > 0 == usage.models["say-<b>"].usd
    lines = list(judge_lines(report.summary))
    assert lines[0].startswith("2 calls, ")
    assert lines[1].startswith("judge: 1 call, ")
    (part,) = read_parts([folder], worst=2)
    assert part.summary.judges == usage  # type: ignore[union-attr]
    from runner.results.reports.html.page import html_report

    page = html_report([part])
    assert "Judge: 1 call" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["summary"]["judges"]["models"]["judge"]["calls"] == 1


def test_a_refused_exchange_says_why(script: str) -> None:
    with fake_judge() as judge:
        report = evaluate(script, rows("judge", "judge+x"), judges=settings(judge, budget="requests=1"))
    answers = sorted(one.answered for result in report.results for one in result.exchanges)
    assert answers[0].startswith("no answer: the budget of 1 requests to judges is spent")
    assert len(answers) == 2


def test_the_command_line_shows_a_rows_exchanges(script: str) -> None:
    from rich.console import Console

    with fake_judge() as judge:
        report = evaluate(script, rows("say-\x1b[31mred"), judges=settings(judge))
    console = Console(width=80)
    with console.capture() as capture:
        console.print(rows_view(report.shown, 80))
    shown = capture.get()
    assert "asked     is 4 right?" in shown
    assert "\x1b" not in shown
