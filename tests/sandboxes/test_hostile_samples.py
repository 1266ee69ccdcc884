"""The sample hostile scripts, judged by what stands in their own headers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandboxes.hostile.boxes import TIERS, works
from tests.sandboxes.hostile.driven import Driven
from tests.sandboxes.hostile.judged import LIMITS, PATIENT
from tests.sandboxes.hostile.scripts import CLEAN, DISTANCE

SECRET = "the-secret-of-the-host"
FOLDER = Path(__file__).parents[3] / "shared/cases/adversarial_examples"
SAMPLES = sorted(FOLDER.glob("py_*.py"))

ALLOWED = {
    "contained": {"ok", "error", "crash"},
    "timeout": {"timeout"},
    "resource": {"memory", "output"},
    "value 0.25 or error": {"ok", "error"},
    "contaminate": {"ok", "error"},
    "invalid": {"error"},
}


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """A service of the host that nobody may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module", params=["restore", "instance", *TIERS])
def host(request: pytest.FixtureRequest, open_folder: Path) -> Iterator[Driven]:
    folder, packages = open_folder / request.param, None
    folder.mkdir()
    if request.param in TIERS:
        if not works(request.param):
            pytest.skip(f"tier {request.param} does not work here")
        packages = folder / "packages"
        packages.mkdir()
    driven = Driven(folder, request.param, packages=packages)
    yield driven
    left = driven.finish()
    assert (left["status"], left["children"], left["files"]) == (0, [], [])


@pytest.mark.skipif(not SAMPLES, reason="the sample scripts are not here")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_a_sample_ends_as_its_header_says(host: Driven, listener: socket.socket, sample: Path, tmp_path: Path) -> None:
    source = sample.read_text("utf-8")
    header = re.search(r"^# expected: (.+)$", source, re.MULTILINE)
    assert header
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    for name, value in (("SECRET_FILE", secret), ("PORT", listener.getsockname()[1]), ("ID", sample.stem)):
        source = source.replace(f"@@{name}@@", str(value))
    allowed = ALLOWED[header[1]]
    times = {} if "timeout" in allowed else {"timeout": PATIENT, "load_timeout": PATIENT}
    limits = LIMITS.model_copy(update=times)
    told = host.ask({"source": source, "batches": [("call", [CLEAN])], "limits": limits.model_dump()})
    assert "raised" not in told, told["raised"]
    ((found,),) = told["batches"]
    assert found["status"] in allowed, found
    assert "ESCAPED" not in str(found)
    assert SECRET not in str(found)
    if header[1] == "contained" and found["status"] == "ok":
        assert found["value"]["label"] == "blocked"
    if header[1] in ("value 0.25 or error", "contaminate") and found["status"] == "ok":
        assert found["value"] == 0.25
    assert_clean(told["clean"])
    with pytest.raises(BlockingIOError):
        listener.accept()


def assert_clean(executions: list[dict[str, Any]]) -> None:
    assert [(e["status"], e["value"]["score"]) for e in executions] == [("ok", DISTANCE)]
