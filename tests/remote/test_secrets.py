"""Credentials, variables and what files hold are in nothing that a run prints, writes or logs, at debug level too."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dotenv import dotenv_values

from sandboxes import Call, Limits, SandboxError
from tests.remote.served import PROVIDERS, env_file, sandbox, server
from tests.scripts import python

VALUE = "correct-horse-battery-staple"
CONTENT = "what-stands-in-a-file-of-mine"

SCRIPT = """
import os
def evaluate(x):
    print("the variable is", os.environ["TOKEN_OF_MINE"])
    if x: raise ValueError(os.environ["TOKEN_OF_MINE"])
    return os.environ["TOKEN_OF_MINE"]
"""


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Every record of every logger, with what it was called with."""
    found: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"{record.name} {record.getMessage()} {record.__dict__}")

    root, keeps = logging.getLogger(), Keeps(0)
    before = root.level
    root.addHandler(keeps)
    root.setLevel(0)
    yield found
    root.setLevel(before)
    root.removeHandler(keeps)


def secrets(name: str) -> list[str]:
    """The credentials that are worth stealing: those of the provider's variables, and our own variable's value."""
    from sandboxes.registry import find

    known: dict[str, str | None] = dotenv_values(env_file(name))
    wanted: tuple[str, ...] = find(name).provider.variables  # type: ignore[attr-defined]
    return [VALUE, *(value for key in wanted if (value := known.get(key)))]


async def used(name: str, said: list[str], **options: Any) -> list[str]:
    box = sandbox(name, jobs=1, env=("TOKEN_OF_MINE",), **options)
    box.progress = box.warn = said.append
    try:
        async with box:
            program = await box.load(python(SCRIPT), Limits())
            calls = [Call(id=n, arguments={"x": n}) for n in range(2)]
            return [repr(e) async for e in program.run(calls, Limits())] + [repr(box.manifest), box.identity]
    except SandboxError as e:
        return [str(e), repr(e)]


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("fault", [None, "create", "start", "kill"])
def test_no_secret_is_told(
    name: str,
    fault: str | None,
    logged: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    served = server(name)
    served.clear()
    monkeypatch.setenv("TOKEN_OF_MINE", VALUE)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path))
    hidden = secrets(name)
    assert len(hidden) > 1
    if fault:  # a service that repeats what it was sent
        served.fault(fault, "status:400", times=1, text=f"bad key {hidden[-1]} for {hidden[1]}")
    said: list[str] = []
    file = tmp_path_factory.mktemp("mine") / "file"
    file.write_text(CONTENT)
    found = asyncio.run(used(name, said, files={"FILE_OF_MINE": str(file)}))
    written = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert fault or "***" in found[0], "the script's own words are masked, not lost"
    for kind, texts in {"results": found, "progress": said, "files": written, "logs": logged}.items():
        for text in texts:
            for secret in (*hidden, CONTENT):
                assert not re.search(re.escape(secret), text), (kind, text[:2000])
    served.clear()
