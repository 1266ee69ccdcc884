"""What parts of the rows add up to, joined: the same figures as of all rows, to the last bit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from runner.core.types import Continuous, Evaluator, OutputConfig, Result, ResultError, Score
from runner.engine.scoring import tally
from runner.engine.scoring.run_totals import PartialSums, Sums
from sandboxes.base import Call

CONFIG = Continuous(kind="continuous", direction="maximize", threshold=0.5)


def evaluator(outputs: dict[str, OutputConfig]) -> Evaluator:
    return Evaluator(name="e", source="", parameters=(), outputs=outputs, version="v")


def result(number: int, chance: random.Random, names: list[str], different: int) -> Result:
    about: dict[str, Any] = {"id": f"r{number}", "number": number, "evaluator": "e", "version": "v", "sandbox": "s"}
    kind = chance.random()
    if kind < 0.1:
        error = ResultError(kind=chance.choice(("raised", "timeout", "mapping")), message=f"row {number}")
        return Result(**about, outcome="failed", error=error)
    if kind < 0.15:
        return Result(**about, outcome="abstained", label="none", explanation="nothing to say")
    found = [
        Score(label=f"l{chance.randrange(different)}", score=chance.choice((chance.gauss(0, 1e3), 0.0, -0.0, 0.1, 1)))
        for _ in names
    ]
    outputs = dict(zip(names, found, strict=True)) if len(names) > 1 else {}
    return Result(**about, **dict(found[0]), outcome="scored", outputs=outputs, cached=kind < 0.4)


@pytest.mark.parametrize("names", [[""], ["a", "b"]])
@pytest.mark.parametrize("different", [3, 40])
def test_joined_parts_give_the_figures_of_all_rows(
    names: list[str], different: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "_COUNTED", 20)
    monkeypatch.setattr(tally, "_CHUNK", 16)
    monkeypatch.setattr(tally, "_LABELS", 10)
    chance = random.Random(different)
    script = evaluator(dict.fromkeys(names, CONFIG))
    for repeat in (1, 2):
        made = [result(number, chance, names, different) for number in range(1, 241) for _ in range(repeat)]

        def sums(results: list[Result], repeat: int = repeat) -> Sums:
            found = Sums(script, repeat, 7, "worst")
            for one in results:
                found.watch(one, Call(id=one.number, arguments={"output": one.id}))
                found.add(one)
            return found

        whole = sums(made)
        for cuts in ((0,), (120,), (2, 4, 6, 100), (60, 60, 240), tuple(range(20, 240, 20))):
            ends = [0, *(cut * repeat for cut in cuts), len(made)]
            joined = sums([])
            for start, end in itertools.pairwise(ends):
                rows = made[start:end]

                def labels(name: str, rows: list[Result] = rows, repeat: int = repeat) -> Iterator[str]:
                    again = Sums(script, repeat, 0, "worst")
                    return tally.labels_of(filter(None, map(again.add, rows)), name, script.outputs)

                joined.join(PartialSums.model_validate_json(sums(rows).partial().model_dump_json()), labels)
            assert joined.summary(1.0, cache=True).model_dump_json() == whole.summary(1.0, cache=True).model_dump_json()
            assert joined.shown() == whole.shown()
            assert joined.count == whole.count


def test_sums_of_other_outputs_are_refused() -> None:
    one, two = Sums(evaluator({"": CONFIG}), 1, 5, "worst"), Sums(evaluator({"a": CONFIG, "b": CONFIG}), 1, 5, "worst")
    with pytest.raises(ValueError, match="others"):
        one.join(two.partial(), lambda _: ())
