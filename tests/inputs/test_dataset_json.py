"""Datasets that are one JSON array, and what is JSON at all."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import DatasetError
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.formats.json_array import array_rows
from runner.inputs.datasets.formats.text_rows import decode_utf8
from runner.inputs.datasets.rows import parse_json
from tests.inputs.reading import broken, read, written

SHARED = Path(__file__).parents[3] / "shared"
SUITE = SHARED / "cases" / "public_suites" / "jsontestsuite.jsonl"


@pytest.mark.parametrize(
    ("text", "good", "message"),
    [
        (
            '[{"output": 1}, {"output": }]',
            1,
            "d.json, row 2: not JSON: Expecting value at line 1, column 28; the rest",
        ),
        (
            '[{"output": 1}\n\n{"output": 2}]',
            1,
            "d.json, row 2: not JSON: Expecting ',' or ']' at line 3, column 1",
        ),
        ('[{"output": 1},]', 1, "d.json, row 2: not JSON: Expecting value at line 1, column 16"),
        ('[{"output": 1}', 1, "d.json, row 2: not JSON: Expecting ',' or ']' at line 1, column 15"),
        ('[{"output": 1}, {"output": "', 1, "d.json, row 2: not JSON: Unterminated string"),
        ('[{"output": 1}] x', 1, "d.json, row 2: not JSON: more text behind the array at line 1, column 17"),
        ("[", 0, "d.json, row 1: not JSON: Expecting value"),
        (
            "[" * 100_000,
            0,
            "d.json, row 1: nested more than 500 levels deep; the rest of the file cannot be read",
        ),
        (
            '[{"output": 1, "ß": 0}, '.encode() + b"\xff]",
            1,
            "d.json, row 2: not JSON: Expecting value at line 1, column 25",
        ),
        ('[{"output": NaN}, {"output": tru}]', 0, "d.json, row 1: NaN is not JSON; write null"),
    ],
)
def test_json_that_breaks_off(tmp_path: Path, text: str | bytes, good: int, message: str) -> None:
    cases = read(written(tmp_path, "d.json", text))
    assert [case.output for case in cases[:good]] == [1] * good
    assert message in broken(cases[good])


def test_json_that_is_not_utf8_breaks_by_row(tmp_path: Path) -> None:
    data = b'[{"output": "\xff"}, {"output": "\xc3\xa9\xc3\xa9\\udc80"}, {"\xe9": 1}]'
    first, second, third = read(written(tmp_path, "d.json", data))
    assert "d.json, row 1: not UTF-8; save the file as UTF-8" in broken(first)
    assert second.output == "éé\udc80"
    assert "not UTF-8" in broken(third)


def test_json_gives_the_values_of_jsonl(tmp_path: Path) -> None:
    values: list[Any] = [
        2**70,
        0.1,
        1e-300,
        -0.0,
        "\ud800",
        "é😀",
        {"a": [None, True]},
        "x" * 200_000,
        5e-324,
    ]
    rows = [{"output": value} for value in values] * 3
    jsonl = written(tmp_path, "d.jsonl", "\n".join(map(json.dumps, rows)))
    as_json = written(tmp_path, "d.json", json.dumps(rows, indent=3))
    assert [repr(case.output) for case in read(as_json)] == [repr(case.output) for case in read(jsonl)]


@given(st.lists(st.integers(0, 70_000), max_size=4), st.integers(0, 30), st.booleans())
def test_json_elements_may_lie_anywhere(sizes: list[int], spaces: int, numbers: bool) -> None:
    rows = [{"output": "9" * size if not numbers else int("9" * (size % 4000 + 1))} for size in sizes]
    data = " " * spaces + json.dumps(rows, separators=("," + " " * spaces, ":" + " " * spaces))
    read_rows = [row for _, row in array_rows(BufferedReader(BytesIO(data.encode())), "d")]
    assert read_rows == rows


def suite_bytes(test: dict[str, Any]) -> bytes:
    if "bytes_b64" in test:
        return base64.b64decode(test["bytes_b64"])
    text = test["text"]
    if isinstance(text, dict):
        made = text["$gen"]
        text = made["repeat"] * made["times"] + made.get("suffix", "")
    return str(text).encode()


@pytest.mark.skipif(not SUITE.exists(), reason="the suite is not here")
def test_json_test_suite(tmp_path: Path) -> None:
    accepted, refused = 0, 0
    for line in SUITE.open("rb"):
        test = json.loads(line)
        data = suite_bytes(test)
        try:
            parse_json(decode_utf8(data))
            good = True
        except RowError:
            good = False
        name = test["src"].rpartition("/")[2]
        if name.startswith("y_"):
            assert good, name
            accepted += 1
        elif name.startswith("n_"):
            assert not good, name
            refused += 1
        for suffix in ("json", "jsonl", "csv"):
            path = written(tmp_path, f"d.{suffix}", data)
            with suppress(DatasetError):
                read(path)
    assert accepted >= 95
    assert refused >= 185
