"""A grader that asks a judge is audited on few rows, once; the answers can be recorded and given again."""

from __future__ import annotations

from pathlib import Path

from runner import JudgeSettings, audit
from tests.cli.commands import evalcell, write_rows
from tests.judges.judge import fake_judge, host_of

GRADER = """
from evalcell_judge import ask

def evaluate(output, reference):
    if not output:
        return 1.0
    reply = ask("grader", f"{output} against {reference}", schema={"score": "number"})
    return 1.0 if output == reference else reply.json["score"] / 2
"""
ROWS = [{"output": f"a{n}", "reference": f"a{n}"} for n in range(12)]


def test_a_judge_is_asked_for_few_rows_and_a_record_answers_again(tmp_path: Path) -> None:
    script, record = tmp_path / "grader.py", tmp_path / "record.jsonl"
    script.write_text(GRADER)
    write_rows(tmp_path / "grader.cases.jsonl", [{"output": "", "reference": "a", "expected": {"score": 1}}])
    with fake_judge() as judge:
        url = host_of(judge)
        live = audit(script, ROWS, judges=JudgeSettings(judge=(url,), record=str(record)))
        asked = len(judge.requests)
        mutated = audit(script, ROWS, mutants=2, judges=JudgeSettings(judge=(url,)))
    assert (live.rows, live.of, live.mutants) == (5, 12, None)
    assert mutated.mutants is not None
    assert mutated.mutants.tried == 2
    assert 0 < asked <= live.calls == live.planted
    assert "wrong.empty" in {check.id for check in live.findings}
    apart = next(check for check in live.checks if check.id == "repeats")
    assert (apart.status, "second answer" in apart.words) == ("not applicable", True)
    again = audit(script, ROWS, judges=JudgeSettings(judge=(url,), replay=str(record)))
    own = {"sandbox", "foreseen", "judges"}
    assert again.model_dump(exclude=own) == live.model_dump(exclude=own)
    assert again.judges is not None
    assert (again.foreseen, again.judges.replayed) == (None, asked)
    write_rows(tmp_path / "rows.jsonl", ROWS)
    done = evalcell("audit", str(script), str(tmp_path / "rows.jsonl"), "--judge", url, "--replay", str(record))
    assert done.exit_code == 1, done.stderr
    assert f"{live.calls} calls, each of which may ask a judge" in done.stderr


def test_what_it_costs_is_told_before_a_second_call_is_paid(tmp_path: Path) -> None:
    script, rows = tmp_path / "grader.py", tmp_path / "rows.jsonl"
    script.write_text(GRADER)
    write_rows(rows, ROWS)
    with fake_judge() as judge:
        prices = JudgeSettings(judge=(f"{judge.url}#judge",), judge_price=("judge=0.25/2",))
        found = audit(script, ROWS, judges=prices)
        asked = len(judge.requests)
        assert found.foreseen is not None
        assert found.judges is not None
        assert (found.judges.calls, found.foreseen.calls) == (asked, found.calls)
        assert found.judges.tokens <= found.foreseen.tokens <= 2 * found.judges.tokens
        assert found.judges.usd <= found.foreseen.usd <= 2 * found.judges.usd
        for budget, most in ((f"requests={found.calls - 1}", 1), ("usd=0.001", 0)):
            judge.reset()
            words = ("audit", str(script), str(rows), "--judge", f"{judge.url}#judge", "--judge-price", "judge=0.25/2")
            done = evalcell(*words, "--budget", budget)
            assert (done.exit_code, len(judge.requests)) == (2, most), done.stderr
            assert f"raise {budget.partition('=')[0]}=" in done.stderr.lower()
