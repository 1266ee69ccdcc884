"""However a fresh state is made, and wherever: the results are the same to the last character."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandboxes import Call
from tests.sandboxes.backends import BACKENDS, LIMITS, evaluate
from tests.sandboxes.languages import COUNTS

pytestmark = pytest.mark.rotating("wasm", "wasm")

WASM = [b for b in BACKENDS if b.id.startswith("wasm")]

STATEFUL = """
import json, random, re, uuid
seen, cache = [], {}
def evaluate(x):
    seen.append(x)
    cache.setdefault(str(x), len(cache))
    print("call", len(seen), random.random())
    if x == 3: raise ValueError(f"no {x}: {seen} {cache}")
    if x == 4: seen.extend(range(100_000))
    if x == 5: return {"label": str(uuid.uuid4()), "score": len(seen)}
    return {"label": re.sub("[0-9]", "n", json.dumps(seen)), "score": random.random(), "explanation": str(cache)}
"""


def seen(backend: object, source: str, batch: list[Call]) -> list[object]:
    found = evaluate(backend, source, batch, limits=LIMITS)  # type: ignore[arg-type]
    return [e.model_copy(update={"duration": 0.0}) for e in found]


def test_every_mode_gives_the_same() -> None:
    batch = [Call(id=n, arguments={"x": n % 7}, seed=1000 + n) for n in range(40)]
    assert seen(WASM[0], STATEFUL, batch) == seen(WASM[1], STATEFUL, batch) == seen(WASM[2], STATEFUL, batch)
    counts = [Call(id=n) for n in range(5)]
    assert len({str(seen(backend, COUNTS.python, counts)) for backend in WASM}) == 1


def test_every_mode_gives_the_published_scripts_scores(shared: Path) -> None:
    source = (shared / "recipes" / "json_distance.py").read_text()
    rows = [json.loads(line) for line in (shared / "datasets" / "json_tau_airline.jsonl").read_text().splitlines()]
    batch = [
        Call(id=n, arguments={"output": row["output"], "reference": row["reference"]}) for n, row in enumerate(rows)
    ]
    names: dict[str, object] = {}
    exec(compile(source, "json_distance.py", "exec"), names)
    plain = [names["evaluate"](**call.arguments) for call in batch]  # type: ignore[operator]
    for backend in WASM:
        found = evaluate(backend, source, batch)
        assert [e.value for e in found] == plain
        assert {e.status for e in found} == {"ok"}
