"""The tests' side of attacks on the process sandbox: a host for each way to run, and what must be as before."""

from __future__ import annotations

import asyncio
import compileall
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Isolation, SandboxUnavailableError
from sandboxes.boxes.launch import GUEST, Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.sandboxes.backends import no_processes_in_tier_b
from tests.sandboxes.hostile.driven import Driven
from tests.sandboxes.hostile.judged import LIMITS, PATIENT, Batch, is_clean, judge, patience, request
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, Ending, Hostile

TIERS: tuple[Tier, ...] = ("A", "B")


@dataclass
class Boxes:
    """Hosts, by tier and isolation; each runs its attacks one by one, all at the same time."""

    hosts: dict[tuple[str, Isolation], Driven]
    watched: list[Path]
    pristine: dict[tuple[str, Isolation], Any] = field(default_factory=dict)
    before: dict[str, tuple[int, ...]] = field(default_factory=dict)
    alone: bool = False
    """Whether no call may start a process."""

    @classmethod
    def start(cls, folder: Path, isolations: Sequence[Isolation], landlock: int | None = None) -> Boxes:
        """`folder` is open to others; `landlock` as `held` has it. Skips the test where no tier works."""
        folder = folder / f"landlock-{landlock}"
        folder.mkdir(mode=0o755)
        packages, cache = folder / "packages", folder / "cache"
        packages.mkdir()
        cache.mkdir()
        (packages / "victim.py").write_text("VALUE = 1\n")
        hosts: dict[tuple[str, Isolation], Driven] = {}
        for tier in filter(works, TIERS if landlock is None else ("B",)):
            for isolation in isolations:
                place = folder / f"{tier}-{isolation}"
                place.mkdir()
                hosts[tier, isolation] = Driven(place, tier, packages=packages, cache=cache)
        if not hosts:
            pytest.skip("the process sandbox works in no tier here")
        compileall.compile_dir(GUEST, quiet=2)  # as other tests may do meanwhile
        alone = all(tier == "B" for tier, _ in hosts) and bool(no_processes_in_tier_b())
        boxes = cls(hosts, [packages, GUEST, cache], alone=alone)
        for key, told in boxes.ask({key: request((key[1], [CLEAN])) for key in hosts}).items():
            boxes.pristine[key] = told["batches"][0][0]["value"]
        boxes.before = boxes.files()
        return boxes

    def ask(self, asked: dict[tuple[str, Isolation], dict[str, Any]]) -> dict[tuple[str, Isolation], dict[str, Any]]:
        for key, host in self.hosts.items():
            host.send(asked[key])
        return {key: host.receive() for key, host in self.hosts.items()}

    def files(self) -> dict[str, tuple[int, ...]]:
        """What a script must not change: names, owners, modes, sizes, contents."""
        found: dict[str, tuple[int, ...]] = {}
        for path in (p for top in self.watched for p in (top, *sorted(top.rglob("*")))):
            about = path.stat()
            content = zlib.crc32(path.read_bytes()) if path.is_file() else 0
            found[str(path)] = (about.st_uid, about.st_gid, about.st_mode, about.st_size, content)
        return found

    def attack(self, script: Hostile) -> None:
        """One call among clean ones, in every host."""
        timeout = self._patience(script)
        found = self._attacked(script, timeout)
        ran = [told["batches"][0] for told in found.values() if "raised" not in told]
        late = any(attacked["status"] == "timeout" for _, attacked, _ in ran)
        if late and "timeout" not in self._ending(script).may and timeout < PATIENT:
            # The time is meant for what shares its batch; that the attack did not get done says how busy we are.
            timeout = PATIENT
            found = self._attacked(script, timeout)
        for key, told in found.items():
            self._as_before(key, told)
            before, attacked, after = told["batches"][0]
            judge(self._ending(script), attacked, timeout)
            assert before["value"] == self.pristine[key], before
            if key[1] == "call":
                assert after["value"] == self.pristine[key], after
            elif not script.lasting:
                assert (after["status"], after["value"]["score"]) == ("ok", before["value"]["score"]), after
            if len(told["batches"]) > 1:
                assert told["batches"][-1][0]["value"] == self.pristine[key], told["batches"][-1][0]
        self._unchanged()

    def _attacked(self, script: Hostile, timeout: float) -> dict[tuple[str, Isolation], dict[str, Any]]:
        attack, asked = (ATTACK, script.source), {}
        for key in self.hosts:
            batches: list[Batch] = [(key[1], [CLEAN, attack, CLEAN])]
            if key[1] == "batch":
                batches.append(("batch", [CLEAN]))
            elif script.lasting and (key[0], "batch") not in self.hosts:
                batches += [("batch", [attack]), ("batch", [CLEAN])]
            # What loads is our own script, in some hosts for each call anew.
            asked[key] = request(*batches, timeout=timeout, load_timeout=PATIENT, lasting=script.lasting)
        return self.ask(asked)

    def load(self, script: Hostile) -> None:
        """A script that attacks while it loads: nobody else's call is any different."""
        timeout, load_timeout = patience(script.calls), patience(self._ending(script), LIMITS.load_timeout)
        asked = {
            key: request((key[1], [CLEAN, CLEAN]), source=script.source, timeout=timeout, load_timeout=load_timeout)
            for key in self.hosts
        }
        for key, told in self.ask(asked).items():
            self._as_before(key, told)
            judge(self._ending(script), told["loaded"], load_timeout)
            (found,) = told["batches"]
            assert [e["call"] for e in found] == [0, 1], found
            for execution in found:
                if told["loaded"]["status"] == "ok":
                    judge(script.calls, execution, max(timeout, load_timeout))  # some load once more
                else:
                    assert execution["status"] == told["loaded"]["status"], execution
        self._unchanged()

    def _as_before(self, key: tuple[str, Isolation], told: dict[str, Any]) -> None:
        assert "raised" not in told, told["raised"]
        assert is_clean(told["clean"][0]), told["clean"]
        found, expected, descriptors, at_first = told["named"]
        assert expected == 2
        assert found <= expected, f"{found - expected} processes are left"  # one that was lost comes back with a call
        assert descriptors <= at_first, f"{descriptors - at_first} descriptors are left"

    def _unchanged(self) -> None:
        before, self.before = self.before, self.files()  # so that only the first is blamed
        changed = [path for path, _ in before.items() ^ self.before.items()]
        assert not changed, changed

    def _ending(self, script: Hostile) -> Ending:
        return script.alone if self.alone else script.boxed

    def _patience(self, script: Hostile) -> float:
        """Seconds. What shares a batch with a script that is lasting may wait in vain, so that is short."""
        if script.category == "hogs":
            return PATIENT
        return LIMITS.timeout if script.lasting else patience(self._ending(script))

    def finish(self) -> None:
        for host in self.hosts.values():
            left = host.finish()
            assert (left["status"], left["children"], left["files"], left["named"]) == (0, [], [], []), left
        self._unchanged()


def works(tier: Tier) -> bool:
    """On this machine."""

    async def body() -> None:
        async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1)):
            pass

    try:
        asyncio.run(body())
    except SandboxUnavailableError:
        return False
    return True
