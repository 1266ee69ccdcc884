"""Two finished runs, read and paired: what pairs, what does not, and files that an enemy made."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner import Comparison, InputError, NotComparableError, compare_runs, evaluate
from runner.compare.files import find_source
from runner.compare.gate import worse_gate
from runner.compare.rows import read_rows
from runner.compare.runs import unlike
from runner.evaluators.load import parse_evaluator
from runner.output.digests import Digests
from runner.output.files import ResultsFiles
from runner.output.manifest import conditions
from runner.output.row_cells import Layout
from runner.request import RunRequest, prepare
from runner.results.allowance import parse_most
from runner.types import Continuous, Result, ResultError, Score

CONFIG = Continuous(lower_bound=0, upper_bound=1)


def given(number: int, output: int = 0) -> str:
    return f"{number:08x}{output:08x}"


def result(number: int, score: float | None = 0.5, **more: Any) -> Result:
    made = {
        "id": f"row{number}",
        "number": number,
        "evaluator": "e",
        "version": "v1",
        "sandbox": "wasm/1",
        "given": given(number),
        "outcome": "abstained" if score is None else "scored",
        "score": score,
    }
    return Result.model_validate(made | more)


def broken(number: int) -> Result:
    return result(number, None, outcome="failed", error=ResultError(kind="raised", message="why"))


def write(path: Path, results: Sequence[Result], layout: Layout | None = None) -> Path:
    async def work() -> None:
        async with ResultsFiles([str(path)]) as files:
            await files.open(layout or Layout())
            for one in results:
                files.add([one])
                await files.room()

    asyncio.run(work())
    return path


def folder(path: Path, results: Sequence[Result], **manifest: Any) -> Path:
    path.mkdir()
    write(path / "results.jsonl", results)
    outputs = {"": CONFIG.model_dump(mode="json")}
    made = {"state": "finished", "evaluator": {"name": "e", "outputs": outputs}} | manifest
    (path / "manifest.json").write_text(json.dumps(made))
    return path


def compared(tmp_path: Path, base: Sequence[Result], new: Sequence[Result], **more: Any) -> Comparison:
    paths = write(tmp_path / "base.jsonl", base), write(tmp_path / "new.jsonl", new)
    return compare_runs(*paths, **{"direction": "maximize", **more})


def shifted(by: float, count: int = 40, **more: Any) -> list[Result]:
    return [result(n, 0.5 + by * (1 + n % 2), given=given(n, 1), **more) for n in range(count)]


BASE = [result(n) for n in range(40)]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_every_format_is_compared_alike(tmp_path: Path, suffix: str) -> None:
    layout = Layout(("a", "=b"), ("topic", "output"))

    def rows(shift: float) -> list[Result]:
        both = [{"a": Score(score=n / 100 + shift), "=b": Score(label="'x", score=1.0)} for n in range(30)]
        kept = [{"topic": "=law" if n % 2 else "a", "output": f"{n} {shift}"} for n in range(30)]
        return [
            result(n, n / 100 + shift * (1 + n % 2), label="=ok", outputs=both[n], row=kept[n]) for n in range(30)
        ] + [broken(31)]

    paths = [write(tmp_path / f"{name}.{suffix}", rows(by), layout) for name, by in (("base", 0.0), ("new", 0.1))]
    found = compare_runs(*paths, direction="minimize", by="topic")
    assert (found.pairs, found.compared, found.failed, found.verdict) == (31, 30, 1, "worse")
    assert found.mean_difference == pytest.approx(0.15)
    assert {name: one.mean_difference for name, one in found.outputs.items()} == {"a": pytest.approx(0.1), "=b": 0}
    assert {name: one.pairs for name, one in found.by.items()} == {"a": 15, "=law": 15, "null": 1}
    assert [(one.base, one.new, one.rows) for one in found.labels] == [("=ok", "=ok", 30), (None, None, 1)]
    assert (found.worst[0].base_text[-3:], found.worst[0].new_text[-3:]) == ("0.0", "0.1")
    assert found.worst[0].difference == pytest.approx(0.2)
    again = read_rows(find_source(paths[1]), {30: "row31", 2: "row2"})
    assert [again[number]["id"] for number in (2, 30)] == ["row2", "row31"]


@pytest.mark.parametrize("indent", [None, 1, 0])
def test_an_array_need_not_have_a_line_for_each_row(tmp_path: Path, indent: int | None) -> None:
    rows = [{"id": 7, "score": 0.5}, {"id": "a", "score": 1, "row": {"output": "x"}}]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows, indent=indent))
    assert read_rows(find_source(path), {1: "a", 0: "7"}) == dict(enumerate(rows))
    path.write_text("[\n" + ", ".join(map(json.dumps, rows)) + "\n]")
    assert read_rows(find_source(path), {1: "a"}) == {1: rows[1]}


def test_the_manifest_tells_the_direction_the_lock_and_how_the_run_ended(tmp_path: Path) -> None:
    kept = {"summary": {"aggregates": {"f1": 0.5, "odd": "x"}}}
    base = folder(tmp_path / "base", BASE, lock="base/requirements.lock", state="interrupted", **kept)
    (base / "requirements.lock").write_text("six==1")
    figures = {"summary": {"aggregates": {"f1": 0.75, "kappa": 0.1}}}
    new = folder(tmp_path / "new", shifted(0.1, version="v2", sandbox="wasm/2"), **figures)
    found = compare_runs(base, new / "results.jsonl")
    assert (found.verdict, found.direction) == ("better", "maximize")
    assert found.aggregates == {"f1": (0.5, 0.75), "kappa": (None, 0.1)}
    named = [" ".join(words.split()[:2]) for words in unlike(found)]
    assert named == ["another version", "another sandbox", "another lock", f"{base} is"]
    with pytest.raises(NotComparableError, match=r"^strict: another version of the evaluator \(v1 -> v2\) for 40 rows"):
        compare_runs(base, new, strict=True)


def test_rows_of_one_side_and_changed_inputs_are_named_and_do_not_pair(tmp_path: Path) -> None:
    base = [result(n) for n in range(12)]
    new = [result(n, 0.6, given=given(n + (n == 5), 7)) for n in range(1, 14)]
    found = compared(tmp_path, base, new)
    unpaired = found.unpaired
    assert (unpaired.only_base.ids, unpaired.only_base.count) == (("row0",), 1)
    assert (unpaired.only_new.ids, unpaired.only_new.count) == (("row12", "row13"), 2)
    assert (unpaired.changed_input.ids, found.pairs) == (("row5",), 10)
    assert compared(tmp_path, base, new, ignore_input=True).pairs == 11
    with pytest.raises(NotComparableError, match="1 row only in the base"):
        compared(tmp_path, base, new, strict=True)
    assert compared(tmp_path, BASE, BASE, strict=True).verdict == "no worse"


def test_a_baseline_may_be_ids_and_scores_alone(tmp_path: Path) -> None:
    base = tmp_path / "base.jsonl"
    base.write_text("".join(json.dumps({"id": f"row{n}", "score": 0.5}) + "\n" for n in range(40)))
    found = compare_runs(base, write(tmp_path / "new.csv", shifted(-0.1)), direction="maximize")
    assert (found.verdict, found.pairs, found.unpaired.unchecked) == ("worse", 40, 40)
    assert base.stat().st_size / 40 < 40


@pytest.mark.parametrize("more", [{"score": 1.0}, {"outputs": {"a": {"score": 1, "label": None}}}])
def test_what_failed_has_no_score(tmp_path: Path, more: dict[str, Any]) -> None:
    path = tmp_path / "base.jsonl"
    path.write_text('{"id": "a", "score": 1}\n' + json.dumps({"id": "b", "outcome": "failed", **more}))
    with pytest.raises(NotComparableError, match=r"base\.jsonl:2: the outcome is failed, and it has a score"):
        compare_runs(path, path)


def test_the_scores_of_one_id_are_averaged(tmp_path: Path) -> None:
    new = [result(n, score) for n in range(40) for score in (0.4, 0.6, 0.8)]
    found = compared(tmp_path, BASE, new)
    assert found.compared == 40
    assert found.new_mean == pytest.approx(0.6)
    assert (found.new.rows, found.new.repeated) == (120, 80)
    assert "80 rows repeat an id" in found.notes[0]


def test_an_id_failed_if_one_of_its_repeats_did(tmp_path: Path) -> None:
    outputs = {"a": Score(score=0.6), "b": Score(score=0.1)}
    new = [
        one for n in range(40) for one in (result(n, 0.6, outputs=outputs), *([broken(n)] * (n < 5)), result(n, 0.9))
    ]
    found = compared(tmp_path, BASE, new)
    assert (found.compared, found.failed, found.outcomes["failed"]) == (35, 5, (0, 5))
    assert found.new_mean == pytest.approx(0.75)
    assert worse_gate(found).verdict == "unjudged"


def test_long_values_that_begin_alike_are_clusters_of_their_own(tmp_path: Path) -> None:
    kept = [{"prompt": f"{'You are helpful. ' * 20}{n // 4}"} for n in range(40)]
    new = [one.model_copy(update={"row": row}) for one, row in zip(shifted(0.1), kept, strict=True)]
    assert compared(tmp_path, BASE, new, cluster="prompt").clusters == 10
    assert [one.pairs for one in compared(tmp_path, BASE, new, by="prompt").by.values()] == [4] * 10


def test_a_gate_is_not_judged_where_inputs_changed_and_tells_what_abstained(tmp_path: Path) -> None:
    new = [*shifted(0.1)[:30], *(result(n, given=given(99, 1)) for n in range(30, 40))]
    judged = worse_gate(compared(tmp_path, BASE, new))
    assert (judged.verdict, judged.reason) == (
        "unjudged",
        "10 rows of the base have another input (row30, row31, row32); make a new base",
    )
    assert worse_gate(compared(tmp_path, BASE, new, ignore_input=True)).verdict == "passed"
    silent = [*shifted(0.1)[:30], *(result(n, None, label="no") for n in range(30, 40))]
    judged = worse_gate(compared(tmp_path, BASE, silent))
    assert (judged.verdict, judged.abstained) == ("unjudged", 10)
    assert judged.reason == "10 of 40 rows abstained, and 0 in the base; if that is fine, say how many may abstain"
    assert worse_gate(compared(tmp_path, silent, silent), allow_inconclusive=True).verdict == "passed"
    assert worse_gate(compared(tmp_path, BASE, silent), None, parse_most("25%")).verdict == "passed"
    assert worse_gate(compared(tmp_path, BASE, silent), None, parse_most("9")).verdict == "unjudged"


def test_a_gate_is_not_judged_where_a_run_did_not_finish(tmp_path: Path) -> None:
    base = folder(tmp_path / "base", BASE, state="interrupted")
    new = folder(tmp_path / "new", shifted(0.1))
    judged = worse_gate(compare_runs(base, new))
    assert (judged.verdict, "is of a run that is interrupted" in judged.reason) == ("unjudged", True)
    assert worse_gate(compare_runs(new, base)).verdict != "passed"


def test_a_gate_fails_for_each_output_that_is_worse(tmp_path: Path) -> None:
    def both(by: float) -> list[Result]:
        named = [{"a": Score(score=one.score), "b": Score(score=0.9 - by * (n % 7))} for n, one in enumerate(BASE)]
        return [one.model_copy(update={"outputs": outputs}) for one, outputs in zip(BASE, named, strict=True)]

    found = compared(tmp_path, both(0), both(0.1))
    judged = worse_gate(found)
    assert (found.verdict, judged.verdict) == ("no worse", "failed")
    assert judged.reason == "worse: the mean of the output b differs by -0.2875"


def test_failures_leave_the_mean_and_have_bounds(tmp_path: Path) -> None:
    base = folder(tmp_path / "base", [result(n, 0.5) for n in range(4)])
    new = folder(tmp_path / "new", [result(0, 0.6), result(1, 0.7), broken(2), result(3, None, label="none")])
    found = compare_runs(base, new)
    assert (found.compared, found.failed, found.abstained) == (2, 1, 1)
    assert found.mean_difference == pytest.approx(0.15)
    assert found.bounds is not None
    # The failure would have been 0 at worst and 1 at best, beside the base's 0.5.
    assert [found.bounds.worst, found.bounds.best] == pytest.approx([(0.3 - 0.5) / 3, (0.3 + 0.5) / 3])
    assert found.outcomes["failed"] == (0, 1)


def test_figures_of_scores_of_any_size_are_finite(tmp_path: Path) -> None:
    base, new = [result(n, 1.7e308) for n in range(3)], [result(0, -1.7e308), result(1, 1.7e308), broken(2)]
    found = compared(tmp_path, base, new)
    assert found.bounds is not None
    assert found.worst
    json.dumps(found.model_dump(mode="json"), allow_nan=False)


def test_a_row_that_is_tied_did_not_get_worse(tmp_path: Path) -> None:
    found = compared(tmp_path, [result(n, 0.1 + 0.2) for n in range(3)], [result(n, 0.3) for n in range(3)])
    assert (found.ties, found.worst) == (3, ())


def test_values_that_look_alike_are_one_group(tmp_path: Path) -> None:
    both = [result(n, row={"lang": ("de", "de ")[n % 2]}) for n in range(6)]
    assert {name: one.pairs for name, one in compared(tmp_path, both, both, by="lang").by.items()} == {"de": 6}


def test_clusters_are_by_a_column_that_results_carry(tmp_path: Path) -> None:
    base = [result(n, row={"chat": n // 4}) for n in range(80)]
    new = [result(n, 0.5 + 0.1 * (n // 4 % 2), row={"chat": n // 4}) for n in range(80)]
    alone, together = compared(tmp_path, base, new), compared(tmp_path, base, new, cluster="chat")
    assert (alone.clusters, together.clusters) == (None, 20)
    assert alone.ci_high is not None
    assert together.ci_high is not None
    assert together.ci_high - 0.05 == pytest.approx(2 * (alone.ci_high - 0.05), rel=0.1), "four rows tell one thing"
    with pytest.raises(NotComparableError, match="no result carries the column 'user'"):
        compared(tmp_path, base, new, cluster="user")


@pytest.mark.parametrize(
    ("base", "new", "shown"),
    [
        ({"lang": "de", "output": "yes"}, {"lang": "de", "output": "no"}, ("output", "yes", "no")),
        ({"lang": "de", "prompt": "v1"}, {"lang": "de", "prompt": "v2"}, ("prompt", "v1", "v2")),
        ({"lang": "de", "output": "yes"}, {"lang": "de", "output": "yes"}, ("output", "yes", "yes")),
        ({"lang": "de"}, {"lang": "de"}, ("", "", "")),
    ],
)
def test_the_texts_of_a_row_that_got_worse_are_those_that_differ(
    tmp_path: Path, base: dict[str, str], new: dict[str, str], shown: tuple[str, str, str]
) -> None:
    (row,) = compared(tmp_path, [result(0, 1, row=base)], [result(0, 0, row=new)]).worst
    assert (row.column, row.base_text, row.new_text) == shown


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("layout", [Layout(("a", "b")), Layout(cached=True, repeats=True)])
def test_columns_of_results_are_no_texts(tmp_path: Path, suffix: str, layout: Layout) -> None:
    def scored(score: float) -> list[Result]:
        return [result(0, score, outputs={name: Score(score=score) for name in layout.outputs}, cached=score < 1)]

    paths = [write(tmp_path / f"{name}.{suffix}", scored(by), layout) for name, by in (("base", 1.0), ("new", 0.5))]
    (row,) = compare_runs(*paths, direction="maximize").worst
    assert (row.column, row.base_text, row.new_text) == ("", "", "")


def test_a_template_in_this_version_is_known_without_a_manifest(tmp_path: Path) -> None:
    from runner.evaluators.resolve import find_evaluator

    about: dict[str, Any] = {"evaluator": "json-distance", "version": find_evaluator("json-distance").version}
    found = compared(tmp_path, [result(n, **about) for n in range(40)], shifted(1, **about), direction=None)
    assert (found.direction, found.verdict) == ("minimize", "worse")
    assert compared(tmp_path, BASE, shifted(1), direction=None).verdict is None
    assert compared(tmp_path, BASE, shifted(1), direction=None, evaluator="json-distance").verdict == "worse"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "base.jsonl has no rows"),
        ('{"id": "a", "score": 1}\n{"id": "b", "sco', r"base.jsonl:2: not JSON.*is the file whole"),
        ('{"score": 1}\n', "base.jsonl:1: it has no `id`; is it .* two datasets, name the evaluator first"),
        (
            '{"id": "a", "output": 1}\n',
            "base.jsonl:1: it has no `score`; is it .* two datasets, name the evaluator first",
        ),
        ('{"id": ["a"], "score": 1}\n', r"base.jsonl:1: its id is \['a'\]"),
        ('{"id": "a", "score": "x"}\n', "base.jsonl:1: score is 'x', which is no number"),
        ('{"id": "a", "score": true}\n', "base.jsonl:1: score is True"),
        ('{"id": "a", "score": 1e999}\n', "base.jsonl:1: (the number 1e999 is too large|score is inf)"),
        ('{"id": "a", "score": NaN}\n', "base.jsonl:1: NaN is not JSON"),
        ('{"id": "a", "outcome": "\\u001b[31m"}\n', r"the outcome is '\\x1b\[31m', which is none of scored"),
        ('{"id": "a", "evaluator": [], "version": {}, "sandbox": [1]}\n', "their ids have nothing in common"),
        ('{"id": "a", "label": {}}\n', "base.jsonl:1: its label or its `given` is no text"),
        ('{"id": "a", "outputs": [1]}\n', "base.jsonl:1: `outputs` is no object"),
        ('{"id": "a", "outputs": {"x": 1}}\n', "base.jsonl:1: the output x is not as results have it"),
        ('{"id": "%s"}\n' % ("a" * 3000), "base.jsonl:1: its id has 3,000 characters"),
        (
            '{"id": "row1", "score": 1, "evaluator": "x"}\n{"id": "b", "evaluator": "y"}\n',
            "results of `x`, `y`; compare one",
        ),
        ('{"id": "other", "score": 1}\n', "their ids have nothing in common"),
        (
            json.dumps({"id": "row1", "score": 1, "given": given(9)}),
            "row1|1 row that .* have in common were given another",
        ),
        ("[" * 100_000, "base.jsonl:1: "),
        (json.dumps({"id": "a", "outputs": {f"o{n}": {"score": 1} for n in range(5000)}}), "more than 100 outputs"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "base.jsonl").write_text(text)
    with pytest.raises(NotComparableError, match=why):
        compare_runs(tmp_path / "base.jsonl", write(tmp_path / "new.jsonl", BASE), direction="maximize")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", BASE)
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("nwe.jsonl", "there is no run .*did you mean `new.jsonl`"),
        ("empty", "has no results.jsonl"),
        ("/dev/null", "no regular file"),
    ):
        with pytest.raises(NotComparableError, match=why):
            compare_runs(tmp_path / name, new)
    with pytest.raises(InputError, match="`tolerance` must be"):
        compare_runs(new, new, tolerance=-1)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"evaluator": {"outputs": {"": {"kind": "x"}}}}'])
def test_a_manifest_that_an_enemy_made_is_refused(tmp_path: Path, text: str) -> None:
    base = folder(tmp_path / "base", BASE)
    (base / "manifest.json").write_text(text)
    with pytest.raises(NotComparableError, match="manifest"):
        compare_runs(base, base)


def test_a_long_line_is_refused_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "base.jsonl"
    path.write_bytes(b'{"id": "a", "stdout": "' + b"x" * (9 << 20) + b'"}\n')
    with pytest.raises(NotComparableError, match=r"base\.jsonl:1: the row is longer than 8 MB"):
        compare_runs(path, path)


def test_a_table_made_by_hand_is_read(tmp_path: Path) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["id", "score"], *([f"row{n}", 0.4 + n % 2 / 10] for n in range(40))])
    (tmp_path / "base.csv").write_text(text.getvalue())
    found = compare_runs(tmp_path / "base.csv", write(tmp_path / "new.jsonl", BASE), direction="maximize")
    assert found.verdict == "better"
    assert found.base_mean == pytest.approx(0.45)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_a_byte_order_mark_is_read_as_in_a_dataset(tmp_path: Path, suffix: str, encoding: str) -> None:
    layout = Layout((), ("output",))
    base, new = (
        write(tmp_path / f"{name}.{suffix}", [result(n, score, row={"output": name}) for n in range(3)], layout)
        for name, score in (("base", 1.0), ("new", 0.5))
    )
    base.write_text(base.read_text(), encoding)
    found = compare_runs(base, new, direction="maximize")
    assert (found.compared, found.losses) == (3, 3)
    assert [(row.id, row.base_text) for row in found.worst] == [(f"row{n}", "base") for n in range(3)]


def gate(tmp_path: Path, base: Sequence[Result], new: Sequence[Result], **more: Any) -> tuple[str, str]:
    found = worse_gate(compared(tmp_path, base, new), more.pop("most", None), **more)
    return found.verdict, found.reason


def test_a_gate_fails_for_worse_and_is_unjudged_without_evidence(tmp_path: Path) -> None:
    assert gate(tmp_path, BASE, shifted(-0.1))[0] == "failed"
    assert gate(tmp_path, BASE, shifted(0.1))[0] == "passed"
    mixed = [result(n, 0.5 + 0.1 * (-1) ** n, given=given(n, 1)) for n in range(40)]
    assert gate(tmp_path, BASE, mixed) == (
        "unjudged",
        "not enough evidence: the mean differs by 0, 95% interval -0.032389 to 0.032389",
    )
    assert gate(tmp_path, BASE, mixed, allow_inconclusive=True)[0] == "passed"


def test_a_gate_is_not_judged_where_the_base_disappeared(tmp_path: Path) -> None:
    better = shifted(0.1)
    assert "1 row of the base are not in the new run (row0)" in gate(tmp_path, BASE, better[1:])[1]
    assert gate(tmp_path, BASE[1:], better)[0] == "passed", "the new run may have more"
    other = [one.model_copy(update={"evaluator": "f"}) for one in better]
    assert gate(tmp_path, BASE, other)[1].startswith("the base is of another evaluator (e, not f)")
    both = [one.model_copy(update={"outputs": {"a": Score(score=1.0), "b": Score(score=1.0)}}) for one in BASE]
    alone = [one.model_copy(update={"outputs": {"a": Score(score=1.0)}}) for one in better]
    assert gate(tmp_path, both, alone)[1].startswith("the output b of the base is not in the new run")
    assert gate(tmp_path, BASE, [*better[1:], broken(0)]) == ("unjudged", "1 of 40 rows failed or were lost on a side")
    assert gate(tmp_path, BASE, [*better[1:], broken(0)], most=parse_most("5%"))[0] == "passed"
    assert gate(tmp_path, BASE, [*better[1:], broken(0)], allow_inconclusive=True)[0] == "unjudged"


def test_a_gate_without_a_direction_is_refused_with_the_line_to_add(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'output = \{kind = "continuous", direction = "maximize"\}'):
        worse_gate(compared(tmp_path, BASE, shifted(0.1), direction=None))


def test_what_the_tool_says_of_the_own_score_says_nothing_of_scores_that_the_script_names(tmp_path: Path) -> None:
    def rows(by: float) -> list[Result]:
        values = [0.5 + by * (1 + n % 2) for n in range(40)]
        every = [{name: Score(score=value) for name in ("overall", "latency")} for value in values]
        return [result(n, values[n], given=given(n, 1), outputs=every[n]) for n in range(40)]

    def verdicts(found: Comparison) -> list[Any]:
        named = [(one.direction, one.verdict) for one in found.outputs.values()]
        return [(found.direction, found.verdict), *named]

    script = parse_evaluator("def get_assert(output, context): return 1.0\n", "e")
    told, untold = ("maximize", "better"), ("none", None)
    assert verdicts(compared(tmp_path, rows(0), rows(0.1), direction=None, evaluator=script)) == [told, told, untold]
    assert verdicts(compared(tmp_path, rows(0), rows(0.1), evaluator=script)) == [told] * 3, "asked for, it is of all"
    evaluator = conditions(prepare(RunRequest(evaluator=script, dataset="-")), Digests())["evaluator"]
    folders = [folder(tmp_path / name, rows(by), evaluator=evaluator) for name, by in (("old", 0.0), ("now", 0.1))]
    found = compare_runs(*folders)
    assert verdicts(found) == [told, told, untold]
    assert worse_gate(found).verdict == "passed"


def test_to_allow_what_is_inconclusive_needs_a_gate() -> None:
    with pytest.raises(InputError, match="allow_inconclusive belongs to a gate"):
        evaluate("json-distance", "demo", limit=1, allow_inconclusive=True)
