"""What an oracle reads and prints: a script and rows in, one JSON line a row out. The standard library alone."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from types import ModuleType
from typing import Any

Row = dict[str, Any]
Said = dict[str, Any]
"""`outcome`, and `outputs`: by name, a list of label, score and explanation."""


def main(judge: Callable[[Any, list[Row], Row], Iterable[Said]]) -> None:
    """
    Print a line for each row: what the vendor's runner makes of a script.

    Called with the script, the name in it and a file of rows; `judge` is given the script's object (of JSON its text),
    the rows, and the parameters that are set. Vendors print as they like: lines go to the stream that this process
    began with. With `timed` as a further argument, each line on standard input has all rows judged once; the answer is
    a line with the seconds that took.
    """
    path, entry, file, given, *timed = sys.argv[1:]
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with open(file, encoding="utf-8") as text:
        rows = [json.loads(line) for line in text]
    found: Any
    if path.endswith(".json"):
        with open(path, encoding="utf-8") as source:
            found = source.read()
    else:
        found = load(path)
        for part in entry.split("."):
            found = getattr(found, part)
    if timed:
        for _ in sys.stdin:
            began = time.perf_counter()
            assert all(said["outcome"] == "scored" for said in judge(found, rows, json.loads(given)))
            lines.write(f"{time.perf_counter() - began}\n")
            lines.flush()
        return
    for said in judge(found, rows, json.loads(given)):
        lines.write(json.dumps(said) + "\n")
    lines.close()


def load(path: str) -> ModuleType:
    """The script, as the module `evaluator`."""
    spec = importlib.util.spec_from_file_location("evaluator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    return module


def scored(outputs: dict[str, tuple[str | None, Any, str | None]]) -> Said:
    """A row with values: failed if one is no number of ours, abstained if none of them is a score or a label."""
    values = [score for _, score, _ in outputs.values() if score is not None]
    if not all(math.isfinite(value) for value in values):
        return failed("a score that is not finite")
    outcome = "scored" if values or any(label is not None for label, _, _ in outputs.values()) else "abstained"
    return {"outcome": outcome, "outputs": {name: list(values) for name, values in outputs.items()}}


def abstained() -> Said:
    return {"outcome": "abstained", "outputs": {}}


def failed(why: object) -> Said:
    return {"outcome": "failed", "outputs": {}, "why": str(why)[:500]}


def text(value: Any) -> Any:
    """Text as it is; anything else as JSON text, for vendors whose fields hold text alone."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def verdict(passed: bool) -> str:
    return "pass" if passed else "fail"


def run(step: Coroutine[Any, Any, Any]) -> Any:
    return _RUNNER.run(step)


_RUNNER = asyncio.Runner()  # one loop for all rows, as a vendor's own runner has
