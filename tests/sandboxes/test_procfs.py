"""What is read of /proc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.guest.supervisor import procfs

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell")

MB = 1 << 20
HOLDS = """
import os, sys
held = bytearray(os.urandom(1 << 20) * 64)
other = os.fork()
if other:
    print(os.getpid(), other, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("limit", "looks"), [(1000, 0), (120, 1), (40, 2)])
def test_what_forks_share_is_counted_as_exactly_as_it_matters(
    limit: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    real = procfs._proportional

    def counted(pid: int) -> int:
        looked.append(pid)
        return real(pid)

    monkeypatch.setattr(procfs, "_proportional", counted)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        found = procfs.memory(pids, limit * MB)
        process.stdin.close()
    assert (found > limit * MB) is (limit == 40)  # 64 MB, which both have
    assert looked == [*reversed(pids)][:looks]
