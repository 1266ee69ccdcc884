"""Does an audit find what is wrong with a grader, and is it silent where nothing is?"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from runner import Audit, InputError, audit
from runner.core.types import Outcome, Result
from runner.runs.audit.answers import Answer, Marks, is_empty
from runner.runs.audit.checks import ALL, PlantResult, PlantScores, read_scores
from runner.runs.audit.plants.peers import Peers
from runner.runs.audit.plants.plants import plants
from runner.runs.audit.plants.types import Plant, PlantRow
from tests.cli.commands import evalcell, write_rows

SHARED = Path(__file__).parents[3] / "shared"
GRADERS, DATA = SHARED / "lab" / "audit", SHARED / "datasets"
FOUND = {
    "d01_always_one": {"discrimination"},
    "d03_self_compare": {"reference", "wrong.other"},
    "d05_case_bug": {"discrimination"},
    "d07_unicode_crash": {"wrong.junk"},
    "d09_thousands": {"changed.thousands"},
    "d11_threshold_reversed": {"right"},
    "d13_metadata": {"metadata"},
    "d15_prefix": {"changed.number", "changed.digit"},
    "d17_keys_only": {"changed.json_number", "changed.json_text"},
    "d19_parse_failure": {"wrong.refusal", "wrong.broken_json", "labels"},
}
"""What each defect of the lab shows at least."""
SOUND = ("s_final_answer", "s_json_similarity", "s_numeric_closeness", "s_token_overlap_cosine", "s_blend")


def ids(found: Audit) -> set[str]:
    return {check.id for check in found.findings}


def rows(count: int = 12) -> list[dict[str, Any]]:
    words = ["red", "green", "blue", "grey", "pink", "teal", "plum", "gold", "lime", "navy", "rust", "sand"]
    return [
        {"id": f"r{n}", "output": f"It is {words[n]} {n + 20}", "reference": f"{words[n]} {n + 20}", "model": "a"}
        for n in range(count)
    ]


def script(folder: Path, body: str, header: str = "") -> Path:
    path = folder / "grader.py"
    table = f"# /// script\n# [tool.evalcell]\n{header}\n# ///\n" if header else ""
    path.write_text(f"{table}def evaluate(output, reference, metadata=None):\n{body}")
    return path


def test_a_report_shows_the_name_of_a_script_as_text(tmp_path: Path) -> None:
    path = script(tmp_path, "    return float(output == reference)\n").rename(tmp_path / "<i>.py")
    audit(path, rows(2), mutants=0, report=tmp_path / "r.html")
    assert "<h1>Audit: &lt;i&gt;</h1>" in (tmp_path / "r.html").read_text()


def lab(kind: str, name: str) -> Audit:
    path = GRADERS / kind / f"{name}.py"
    if not path.is_file():
        pytest.skip("the graders are not here")
    data = "json_tau_airline" if "data: tau" in path.read_text() else "text_gsm8k"
    return audit(path, DATA / f"{data}.jsonl", sample=20)


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_defect_is_found(name: str) -> None:
    assert FOUND[name] <= ids(lab("defects", name))


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_grader_has_no_finding(name: str) -> None:
    assert ids(lab("sound", name)) == set()


SAME = "    return float((output or '').strip() == reference.strip())\n"
CONFIG = '# output = {kind = "continuous", direction = "maximize", lower_bound = 0, upper_bound = 1}'


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ("    return float(not output or output == reference)\n", "wrong.empty"),
        ("    return float(str(output) in reference or output == reference)\n", "wrong.empty"),
        ("    import random\n    return random.random()\n", "repeats"),
        ("    return float(output == reference and metadata['model'] == 'a')\n", "metadata"),
        ("    seen.append(1)\n    return len(seen) / 1000 if output != reference else 1.0\nseen = []\n", "rows_apart"),
        ("    return {'score': float(output == reference), 'label': 'x' if output else 'y'}\n", None),
        (SAME, None),
    ],
)
def test_each_kind_of_defect_is_named(tmp_path: Path, body: str, check: str | None) -> None:
    found = ids(audit(script(tmp_path, body, CONFIG), rows()))
    assert check in found if check else found == set()


def test_a_finding_has_a_row_that_shows_it(tmp_path: Path) -> None:
    path = script(tmp_path, "    return float(not output or output == reference)\n", CONFIG)
    found = audit(path, rows())
    (check,) = (one for one in found.findings if one.id == "wrong.empty")
    assert str(found).startswith("<Audit grader: wrong.empty")
    assert check.words == "an empty output has full marks: 12 of 12 rows"
    assert check.witness is not None
    assert (check.witness.id, check.witness.output, check.witness.score) == ("r0", "", 1.0)


def test_outputs_are_planted_where_the_mapping_says(tmp_path: Path) -> None:
    path = tmp_path / "mapped.py"
    path.write_text("def evaluate(output, reference):\n    return float(not output or output == reference)\n")
    given = [{"id": row["id"], "answer": {"text": row["output"]}, "gold": row["reference"]} for row in rows()]
    found = audit(path, given, mapping={"output": "$.metadata.answer.text", "reference": "gold"})
    assert "wrong.empty" in ids(found)
    assert found.rows == 12


def test_the_same_seed_plants_the_same(tmp_path: Path) -> None:
    path = script(tmp_path, SAME, CONFIG)
    first, second = (audit(path, rows(), sample=5) for _ in range(2))
    assert first == second
    assert (first.rows, first.of) == (5, 12)


def test_a_header_claims_and_allows(tmp_path: Path) -> None:
    body = "    return float((output or '').lower().strip('. \\n') == reference.lower())\n"
    plain = audit(script(tmp_path, body, CONFIG), rows())
    assert "same.fence" in {check.id for check in plain.strict}
    claimed = audit(script(tmp_path, body, f'{CONFIG}\n# [tool.evalcell.audit]\n# same = ["fence"]'), rows())
    assert ids(claimed) == {"same.fence"}
    allowed = f'{CONFIG}\n# [tool.evalcell.audit]\n# same = ["fence"]\n# allow = ["same.fence"]'
    assert ids(audit(script(tmp_path, body, allowed), rows())) == set()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('# audit = {sees = ["sing"]}', r"an audit has no check 'sing' \(did you mean `sign`"),
        ('# audit = {sights = ["sign"]}', r"grader.py:3: `audit`: sights: an unknown key"),
    ],
)
def test_a_claim_that_is_not_known_is_refused(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit(script(tmp_path, SAME, header), rows())


def test_a_dataset_without_references_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has a reference in `reference`, and an audit needs 2"):
        audit(script(tmp_path, SAME), [{"output": "a", "reference": ""}] * 3)


def test_the_command_shows_findings_and_ends_by_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", rows())
    script(tmp_path, "    return float(not output or output == reference)\n", CONFIG)
    done = evalcell("audit", "grader.py", "rows.jsonl")
    assert done.exit_code == 1, done.stderr
    assert "an empty output has full marks: 12 of 12 rows (wrong.empty)" in " ".join(done.stdout.split())
    told = json.loads(evalcell("audit", "grader.py", "rows.jsonl", "--json").stdout)
    assert {check["id"] for check in told["checks"]} <= set(ALL)
    known = [word for check in told["checks"] if check["status"] == "found" for word in ("--allow", check["id"])]
    assert evalcell("audit", "grader.py", "rows.jsonl", "--allow", "wrong.empt").exit_code == 2
    done = evalcell("audit", "grader.py", "rows.jsonl", *known)
    assert done.exit_code == 0
    assert "nothing found" in done.stdout


def test_a_reference_without_a_score_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", rows())
    script(tmp_path, "    return float(output) if output else 0.0\n")
    done = evalcell("audit", "grader.py", "rows.jsonl")
    assert done.exit_code == 3
    assert "the reference itself gets no score" in done.stdout
    assert "ValueError" in done.stdout
    script(tmp_path, "    import numpyy\n")
    done = evalcell("audit", "grader.py", "rows.jsonl")
    assert (done.exit_code, "finding" in done.stdout, "every planted row failed" in done.stdout) == (3, False, True)
    assert "No module named 'numpyy'" in " ".join(done.stdout.split())  # the reason, whole


def test_code_of_a_config_file_is_audited_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", rows())
    done = evalcell("audit", "--inline", "context['vars']['reference'] in output", "rows.jsonl")
    assert done.exit_code == 1
    assert "(changed.digit)" in done.stdout


@pytest.mark.parametrize("option", ["--right", "--cluster"])
def test_what_is_said_of_labels_needs_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", rows())
    script(tmp_path, "    return float(output == reference)\n")
    done = evalcell("audit", "grader.py", "rows.jsonl", option, "model")
    assert (done.exit_code, f"{option} is of people's labels" in done.stderr) == (2, True)


@pytest.mark.parametrize("reference", ["", "  ", None, {}, {"calls": []}, "[]", '{"a": {}}'])
def test_nothing_is_planted_beside_an_empty_reference(reference: Any) -> None:
    assert is_empty(reference)


def test_a_planted_wrong_answer_is_never_the_right_one() -> None:
    for reference in ("18", "A: 1,040", "true", '{"a": [1, "x", true]}', {"a": 1}, ["b"], "null", ":", "unrelated"):
        own, other = (
            PlantRow(id, one, "out", "What is it?", Answer(one)) for id, one in (("a", reference), ("b", "other 5"))
        )
        for plant in plants(own, Peers([own, other], random.Random(1), []), random.Random(1)):
            if plant.check.startswith(("wrong", "changed")):
                assert plant.output != reference, plant


def test_references_that_are_no_answers_need_outputs_with_full_marks(tmp_path: Path) -> None:
    given = [{"output": f"def f(): return {n}", "reference": {"test": f"assert f() == {n}"}} for n in range(4)]
    found = audit(script(tmp_path, "    return 0.0\n", CONFIG), given)
    assert (
        found.no_verdict == "the references are no answers, and fewer than two outputs of the dataset have full marks"
    )
    found = audit(script(tmp_path, "    return reference.lower() == output\n"), given)
    assert found.no_verdict == "every planted row failed", "that says more"


def test_damage_is_compared_row_by_row_where_a_step_has_no_score() -> None:
    """Row `b` lacks the first step, and falls like the others from there on."""
    falling = {"right": 1.0, "damage.0.25": 0.9, "damage.0.5": 0.5, "damage.0.75": 0.2, "damage.1": 0.0}
    early, gap = {"damage.0.25": 0.4, "damage.0.5": 0.3}, {"damage.0.25": None}
    every: dict[str, dict[str, float | None]] = {"a": {**falling, **early}, "b": {**falling, **gap}, "c": {**falling}}
    scores = PlantScores(
        (
            PlantResult(row, Plant(check, "x"), result(score))
            for row, steps in every.items()
            for check, score in steps.items()
        ),
        Marks(None),
        {},
    )
    (damage,) = (check for check in read_scores(scores) if check.id == "damage")
    assert (damage.status, damage.rows) == ("clear", 0)


def result(score: float | None) -> Result:
    outcome: Outcome = "abstained" if score is None else "scored"
    return Result(id="r", number=1, evaluator="e", version="v", sandbox="s", outcome=outcome, score=score)


def test_a_grader_without_a_reference_is_asked_only_what_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "polite.py"
    path.write_text("def evaluate(output):\n    return 0.0 if 'green' in str(output) else 1.0\n")
    found = audit(path, rows())
    assert ids(found) == set()
    needs_none = {"discrimination", "repeats", "rows_apart", "metadata"}
    assert {check.id for check in found.checks if check.status == "clear"} == needs_none
    assert {check.words for check in found.checks if check.id.startswith("wrong")} == {"no parameter takes a reference"}
    path.write_text("def get_assert(output, context):\n    return float(len(output) < 30)\n")
    found = audit(path, rows())
    assert ids(found) == set(), "it is given whole rows, and reads no reference of them"
    path.write_text("def get_assert(output, context):\n    return float(output == context['vars']['reference'])\n")
    right = next(check for check in audit(path, rows()).checks if check.id == "right")
    assert right.status == "clear", "here it is a column as any other"


def test_rows_that_fail_for_an_output_of_another_type_are_no_reason_for_no_verdict(tmp_path: Path) -> None:
    given = [{"output": {"n": n, "of": "a"}, "reference": {"n": n, "of": "a"}} for n in range(6)]
    body = "    return float(dict(output) == dict(reference))\n"
    found = audit(script(tmp_path, body), given)
    assert (found.no_verdict, ids(found)) == (None, set())
    assert found.failed > 0
