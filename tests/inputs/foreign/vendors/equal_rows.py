"""
Each dialect's results are those of its vendor's own runner, row by row: real rows, and every shape of a result.

`make test-vendors` runs this. It installs the vendors' packages, so that no other tests do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Limits
from tests.inputs.foreign.vendors.comparison import Row, differences, ours, real_rows, shape_rows
from tests.inputs.foreign.vendors.environment import HERE, clone, node, packages, python, say

_LONG = 120.0
"""Seconds of a row: similarities of long texts take several in Wasm, and many of these on a busy machine."""


@dataclass(frozen=True)
class Trial:
    """A script, and the rows that it is tried with."""

    vendor: str
    """A list of packages, and a folder of scripts."""
    oracle: str
    script: str
    """A file of that folder, or of the vendor's installed package where it begins so: `package/…`."""
    entry: str
    rows: str
    """`text` and `json` are real rows; `shapes` are the keys of the script's SHAPES."""
    given: dict[str, Any] = field(default_factory=dict)
    clone: str = ""
    """The repository that the oracle is read from, as it is in no package."""
    memory: int = 256
    """MB."""

    def __str__(self) -> str:
        return f"{self.vendor}-{Path(self.script).stem}-{self.rows}"


def trials(vendor: str, oracle: str, shapes: str, *others: tuple[str, str, dict[str, Any]]) -> list[Trial]:
    found = [Trial(vendor, oracle, "shapes.py", shapes, "shapes")]
    for script, entry, given in others:
        found += [Trial(vendor, oracle, script, entry, rows, given) for rows in ("text", "json")]
    return found


TRIALS = [
    *trials(
        "inspect",
        "inspect_ai_oracle.py",
        "shapes",
        ("last_number.py", "last_number", {}),
        ("last_number.py", "last_number", {"tolerance": 5.0}),
    ),
    *trials(
        "deepeval",
        "deepeval_oracle.py",
        "Shapes",
        ("length_ratio.py", "LengthRatio", {"threshold": 0.5}),
        ("sync_only.py", "SyncOnly", {}),
    ),
    *trials("mlflow", "mlflow_oracle.py", "shapes", ("same.py", "same", {}), ("kind.py", "Longer", {"least": 250})),
    *trials("pydantic-evals", "pydantic_evals_oracle.py", "Shapes", ("overlap.py", "Overlap", {"least": 0.25})),
    *trials("phoenix", "phoenix_oracle.py", "shapes", ("words.py", "words", {}), ("bound.py", "bound", {})),
    *trials("opik", "opik_oracle.py", "Shapes", ("words.py", "Words", {})),
    *trials("langsmith", "langsmith_oracle.py", "shapes", ("words.py", "words", {})),
    *trials("langfuse", "langfuse_oracle.py", "shapes", ("words.py", "words", {})),
    *trials(
        "braintrust",
        "braintrust_oracle.py",
        "handler",
        ("words.py", "handler", {}),
        ("partial.py", "Longer", {}),
        *(("packaged.py", name, {}) for name in ("ExactMatch", "Levenshtein", "JSONDiff")),
    ),
    *trials(
        "promptfoo",
        "promptfoo_oracle.mjs",
        "get_assert",
        ("words.py", "get_assert", {}),
        ("words.ts", "default", {"least": 0.5}),
        *((script, "longer", {}) for script in ("named.mjs", "method.cjs", "object.mjs")),
        *((script, "<inline>", {}) for script in ("inline.js", "filled.js", "filled.py")),
    ),
    Trial("promptfoo", "promptfoo_oracle.mjs", "shapes.cjs", "default", "shapes"),
    *trials(
        "ragas",
        "ragas_oracle.py",
        "shapes",
        *(("packaged.py", name, {}) for name in ("near", "exact", "present")),
        *(("words.py", name, {}) for name in ("kind", "first", "Words")),
        ("words.py", "Words", {"least": 0.5}),
    ),
    *(Trial("ragas", "ragas_oracle.py", "collected.py", "rouge", rows, memory=384) for rows in ("text", "json")),
    *trials(
        "trl",
        "trl_oracle.py",
        "reward",
        ("words.py", "reward", {}),
        ("words.py", "later", {}),
        ("columns.py", "reward", {}),
    ),
    *(
        Trial("openai", "openai_oracle.py", f"{metric}.json", "<json>", rows)
        for metric in ("fuzzy_match", "bleu", "gleu", "rouge_2", "rouge_l")
        for rows in ("text", "json")
    ),
    *(
        Trial(
            "promptfoo",
            "langfuse_page_oracle.mjs",
            f"../langfuse/page_{script}",
            "evaluate",
            rows,
            {},
            "langfuse/langfuse",
        )
        for language in ("py", "ts")
        for script, rows in (
            (f"shapes.{language}", "shapes"),
            (f"words.{language}", "text"),
            (f"words.{language}", "json"),
        )
    ),
    *trials("weave", "weave_oracle.py", "Shapes", ("words.py", "Words", {"least": 0.25}), ("function.py", "same", {})),
]


PUBLISHED: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "weave": {
        "weave/scorers/string_scorer.py": ("StringMatchScorer", {}),
        "weave/scorers/json_scorer.py": ("ValidJSONScorer", {}),
        "weave/scorers/xml_scorer.py": ("ValidXMLScorer", {}),
    },
    "deepeval": {
        "deepeval/metrics/exact_match/exact_match.py": ("ExactMatchMetric", {}),
        "deepeval/metrics/pattern_match/pattern_match.py": ("PatternMatchMetric", {"pattern": r"(?s).*\d{2}"}),
    },
    "opik": {"opik/evaluation/metrics/heuristics/tone.py": ("Tone", {})},
}
"""Scripts as their vendors publish them, in the packages themselves: unchanged, and not copied here."""
TRIALS += [
    Trial(vendor, f"{vendor}_oracle.py", f"package/{script}", entry, "text", given)
    for vendor, scripts in PUBLISHED.items()
    for script, (entry, given) in scripts.items()
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trial", TRIALS, ids=str)
def test_the_rows_are_those_of_the_vendors_own_runner(trial: Trial, tmp_path: Path) -> None:
    command = program(trial)
    script = place(trial)
    rows = shape_rows(script) if trial.rows == "shapes" else with_target(real_rows(trial.rows))
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    theirs = say(command, script, trial.entry, file, trial.given)
    found = ours(script, trial.entry, rows, trial.given, limits=Limits(memory=trial.memory << 20, timeout=_LONG))
    assert differences(theirs, found, rows) == []
    if trial.rows == "shapes":
        assert {one["outcome"] for one in found} >= {"scored", "failed"}


def place(trial: Trial) -> Path:
    if not trial.script.startswith("package/"):
        return HERE / "scripts" / trial.vendor / trial.script
    return packages(trial.vendor) / trial.script.removeprefix("package/")


def with_target(rows: list[Row]) -> list[Row]:
    """Weave's and Phoenix's scripts take columns by any name."""
    return [row | {"metadata": row["metadata"] | {"target": json.dumps(row["reference"])}} for row in rows]


def program(trial: Trial) -> list[Path]:
    """What runs the oracle."""
    if trial.oracle.endswith(".mjs"):
        folder = node(trial.vendor)
        more = [clone(trial.clone)] if trial.clone else []
        return [folder / "bin" / "node", HERE / "oracles" / trial.oracle, folder, *more]
    return [python(trial.vendor), HERE / "oracles" / trial.oracle]
