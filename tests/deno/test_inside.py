"""What runs inside Deno, looked at by Deno itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import sandboxes.guest
from sandboxes import SandboxUnavailableError
from sandboxes.deno.binary import find_deno
from sandboxes.deno.modules import CLOSED_MODULES, PURE

INSIDE = Path(sandboxes.guest.__file__).parent / "deno"


@pytest.fixture
def program() -> str:
    try:
        return find_deno()
    except SandboxUnavailableError as e:
        pytest.skip(str(e))


@pytest.mark.rotating("deno", "deno")
@pytest.mark.parametrize("name", sorted(path.name for path in INSIDE.glob("*.js")))
def test_it_has_no_type_errors(name: str, program: str, tmp_path: Path) -> None:
    command = [program, "check", "--quiet", "--no-config", "--check-js", str(INSIDE / name)]
    variables = os.environ | {"DENO_DIR": str(tmp_path), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_module_of_node_is_closed_or_known_to_compute_only(program: str) -> None:
    listing = 'import { builtinModules } from "node:module"; console.log(builtinModules.join(" "));'
    done = subprocess.run([program, "eval", listing], capture_output=True, text=True, timeout=60, check=True)
    found = {name.removeprefix("node:") for name in done.stdout.split()}
    assert len(found) > 60
    assert found - set(CLOSED_MODULES.split()) == set(PURE.split()) & found
