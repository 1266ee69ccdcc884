"""What runs inside Deno, looked at by Deno itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import sandboxes.deno
from sandboxes import SandboxUnavailableError
from sandboxes.deno.binary import find_deno

INSIDE = Path(sandboxes.deno.__file__).parent / "inside"


@pytest.mark.parametrize("name", sorted(path.name for path in INSIDE.glob("*.js")))
def test_it_has_no_type_errors(name: str, tmp_path: Path) -> None:
    try:
        program = find_deno()
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    command = [program, "check", "--quiet", "--no-config", "--check-js", str(INSIDE / name)]
    variables = os.environ | {"DENO_DIR": str(tmp_path), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
