"""Results of somebody else: `compare`, `report`, `--baseline` end with a line and an exit code, whatever they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import evalcell, write_rows

ESCAPE = "\x1b[31m\x07\r\n::error::x"
DEEP = "[" * 3000 + "]" * 3000
RAW = ["null", "true", "-1", "1e999", "NaN", "1" * 400, "9" * 5000, '"\\ud800"', json.dumps(ESCAPE), DEEP, "[]", "{}"]
COMMANDS = [
    ["compare", "good/", "bad/"],
    ["compare", "bad/", "good/", "--json"],
    ["report", "bad/", "-o", "r.html"],
    ["report", "bad/", "-o", "r.xml"],
    ["report", "good/", "bad/", "--compare", "-o", "r.md"],
    ["report", "bad/", "good/", "--compare", "-o", "r.html"],
    ["run", "same.py", "rows.jsonl", "-j", "1", "-q", "--baseline", "bad/", "--fail-if-worse", "0"],
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in `good`."""
    place = tmp_path_factory.mktemp("results")
    (place / "same.py").write_text("def evaluate(output):\n    return {'score': len(output), 'label': output}\n")
    write_rows(place / "rows.jsonl", [{"id": f"r{n}", "output": "x" * (n % 3)} for n in range(6)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        done = evalcell("run", "same.py", "rows.jsonl", "-j", "1", "-q", "-o", "good/", "--keep", "output")
    assert done.exit_code == 0, done.output
    return place


def damaged(good: Path) -> Iterator[tuple[list[str], str]]:
    """The lines of a results file and a manifest, with something in it that no run writes."""
    lines, manifest = (good / "good/results.jsonl").read_text().splitlines(), (good / "good/manifest.json").read_text()
    told: dict[str, Any] = json.loads(manifest)
    for place, raw in enumerate(RAW):
        yield [*lines[:2], raw, *lines[3:]], manifest
        yield lines, raw
        row = json.loads(lines[2])
        for name in [*row][place % 4 :: 4]:
            yield [*lines[:2], json.dumps({**row, name: "@"}).replace('"@"', raw), *lines[3:]], manifest
        for name in [*told][place % 5 :: 5]:
            yield lines, json.dumps({**told, name: "@"}).replace('"@"', raw)
        for name in [*told["summary"]][place % 7 :: 7]:
            yield lines, json.dumps({**told, "summary": {**told["summary"], name: "@"}}).replace('"@"', raw)
    yield lines, manifest.replace('"state": "finished"', '"parts": 1000000000')


def test_whatever_is_in_it_it_ends_with_a_line(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(good)
    for number, (lines, manifest) in enumerate(damaged(good)):
        shutil.rmtree("bad", ignore_errors=True)
        Path("bad").mkdir()
        Path("bad/results.jsonl").write_text("\n".join(lines) + "\n")
        Path("bad/manifest.json").write_text(manifest)
        for words in (COMMANDS[number % 6], *([COMMANDS[6]] if number % 12 == 0 else [])):
            done = evalcell(*words)
            said = done.stdout + done.stderr
            what = (words, lines[2][:200], manifest[:100], said[-300:])
            assert done.exit_code in (0, 1, 2, 3), what
            assert isinstance(done.exception, SystemExit | None), what
            assert "unexpectedly" not in said, what
            assert all(c == "\n" or c.isprintable() for c in said), what
            for report in (Path("r.html"), Path("r.xml"), Path("r.md")):
                if report.exists():
                    assert b"\x1b" not in report.read_bytes(), what
                    report.unlink()
