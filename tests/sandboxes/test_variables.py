"""The caller's variables: the environment, and an env-file over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxes import UnsupportedConfigError
from sandboxes.host.env import LARGEST, all_variables, choose_variables


def test_the_file_goes_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "from the environment")
    monkeypatch.setenv("OTHER", "kept")
    file = tmp_path / ".env"
    file.write_text("# a comment\nexport MINE='from $HOME'\nNEW=\"a b\"\nEMPTY=\nNO_VALUE\n")
    assert choose_variables(("MINE", "OTHER", "NEW", "EMPTY"), str(file)) == {
        "MINE": "from $HOME",
        "OTHER": "kept",
        "NEW": "a b",
        "EMPTY": "",
    }
    assert "NO_VALUE" not in all_variables(str(file))
    assert choose_variables(("MINE",)) == {"MINE": "from the environment"}


def test_a_variable_that_is_not_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    with pytest.raises(UnsupportedConfigError, match="the variable NOT_HERE is not set"):
        choose_variables(("A", "NOT_HERE"), str(tmp_path / ".env"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe=1", "is not text in UTF-8"),
        (b"A=" + b"x" * LARGEST, "is larger than 1 MB"),
        (b"A=1\n\nmy secret = x\n", "line 3 is not NAME=value; correct it$"),
    ],
    ids=["missing", "binary", "large", "broken"],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "keys.env"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnsupportedConfigError, match=rf"the env-file .*keys\.env:? {says}"):
        all_variables(str(file))
    with pytest.raises(UnsupportedConfigError, match="cannot be read"):
        all_variables(str(tmp_path))
