"""
Runs three rows of half a second in a sandbox, and prints each status as it comes; for a test that stops all of it.

Arguments: the backend's name and the isolation.
"""

from __future__ import annotations

import sys
from typing import cast

from sandboxes import Isolation, Limits
from sandboxes.host.event_loop import run
from tests.sandboxes.backends import BACKENDS, calls
from tests.sandboxes.languages import Source

WAITS = Source(
    python="""
import time
def evaluate():
    for _ in range(25):
        time.sleep(0.02)
""",
    typescript="""
async function evaluate() {
  for (let i = 0; i < 25; i++) await new Promise(done => setTimeout(done, 20));
  return null;
}
""",
)


async def main(name: str, isolation: Isolation) -> None:
    backend = next(each for each in BACKENDS if each.id == name)
    async with backend.make(isolation) as sandbox:
        program = await sandbox.load(backend.script(WAITS), Limits())
        async for execution in program.run(calls(3), Limits(timeout=2)):
            print(execution.status, flush=True)
        await program.close()


if __name__ == "__main__":
    run(main(sys.argv[1], cast(Isolation, sys.argv[2])))
