"""The sample hostile scripts in TypeScript, judged by what stands in their own headers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deno.hosts import Host, as_before, hosts, tiers
from tests.sandboxes.hostile.judged import LIMITS, PATIENT
from tests.sandboxes.test_hostile_samples import ALLOWED, FOLDER, SECRET

SAMPLES = sorted(FOLDER.glob("ts_*.ts"))


@pytest.fixture(scope="module")
def every(open_folder: Path) -> Iterator[list[Host]]:
    found = list(hosts(open_folder / "hosts", tiers()).values())
    yield found
    for host in found:
        host.finish()


@pytest.mark.rotating("deno", "deno")
@pytest.mark.skipif(not SAMPLES, reason="the sample scripts are not here")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_a_sample_ends_as_its_header_says(every: list[Host], sample: Path, tmp_path: Path) -> None:
    source = sample.read_text("utf-8")
    header = re.search(r"^// expected: (.+)$", source, re.MULTILINE)
    assert header
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for name, value in (("SECRET_FILE", secret), ("PORT", listener.getsockname()[1]), ("ID", sample.stem)):
            source = source.replace(f"@@{name}@@", str(value))
        timeout = LIMITS.timeout if "timeout" in ALLOWED[header[1]] else PATIENT
        for told in [host.later(source, timeout) for host in every]:
            as_before(told.result())
            ((found,),) = told.result()["batches"]
            assert found["status"] in ALLOWED[header[1]], found
            assert not any(word in str(found) for word in ("ESCAPED", SECRET)), found
            if found["status"] == "ok":
                assert found["value"] == 0.25 or found["value"]["label"] == "blocked", found
        with pytest.raises(BlockingIOError):
            listener.accept()
