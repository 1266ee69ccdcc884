"""`evalcell check` of JavaScript, which has no types to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import evalcell

BODY = """const seen = [];
seen.push(1);
export function evaluate(output, reference) {
  const parts = {};
  parts.same = output === reference;
  return Number(parts.same && seen.length === 1);
}
"""


@pytest.mark.parametrize("name", ["same.js", "same.mjs", "same.ts"])
def test_types_of_javascript_are_not_checked(tmp_path: Path, name: str) -> None:
    script = tmp_path / name
    script.write_text(BODY)
    assert evalcell("check", str(script)).exit_code == 0
    script.write_text(BODY.replace("seen.length", "sen.length"))
    found = evalcell("check", str(script))
    assert found.exit_code == 1
    assert "Cannot find name 'sen'" in found.output


def test_types_of_typescript_are_checked(tmp_path: Path) -> None:
    script = tmp_path / "same.ts"
    script.write_text(
        BODY.replace("(output, reference)", "(output: number, reference: number)") + "const x: number = 'a';\n"
    )
    assert evalcell("check", str(script)).exit_code == 1
