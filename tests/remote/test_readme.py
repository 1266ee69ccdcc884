"""The commands of docs/backends.md that need a provider's key, as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from sandboxes.remote.sandbox import RemoteSandbox
from tests.cli.commands import evalcell
from tests.remote.serving import Server


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, e2b_server: Server) -> Path:
    """A folder with a script, a dataset, and `keys.env`; no key is in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
    for name in e2b_server.environment:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "keys.env").write_text("".join(f"{k}={v}\n" for k, v in e2b_server.environment.items()))
    (tmp_path / "same.py").write_text("def evaluate(output, reference):\n    return float(output == reference)\n")
    rows = [{"output": "a", "reference": "a"}, {"output": "b", "reference": "a"}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


BACKENDS = (Path(__file__).parents[2] / "docs" / "backends.md").read_text("utf-8")
(_BLOCK,) = re.findall(r"\n\n```\n(evalcell .*?)^```$", BACKENDS, re.DOTALL | re.MULTILINE)
SHOWN = [line.partition("  #")[0].strip() for line in _BLOCK.splitlines()]


@pytest.mark.rotating("providers", "remote")
@pytest.mark.parametrize("command", SHOWN)
def test_a_command_of_the_page_on_backends_works(keys: Path, e2b_server: Server, command: str) -> None:
    words = shlex.split(command)[1:]
    result = evalcell(*words, *([] if "--env-file" in words else ["--env-file", "keys.env"]))
    assert result.exit_code == 0, result.output
    if words[0] == "run":
        assert "2: 2 scored" in result.stdout
        assert "mean 0.5" in result.stdout
        assert 1 <= e2b_server.state().created <= 2
    assert e2b_server.state().machines == []
    written = "".join(path.read_text(errors="replace") for path in (keys / "state").glob("*"))
    assert e2b_server.environment["E2B_API_KEY"] not in result.output + written


def test_the_entry_points_of_the_page_on_backends_are_right() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", BACKENDS, re.DOTALL | re.MULTILINE)
    points = [tomllib.loads(text)["project"]["entry-points"]["evalcell.sandboxes"] for text in blocks]
    assert [*points[0]] == ["mine"]  # a reader's own
    ((name, target),) = points[1].items()
    module, _, kind = target.partition(":")
    assert (name, issubclass(getattr(import_module(f"docs.{module}"), kind), RemoteSandbox)) == ("folder", True)
