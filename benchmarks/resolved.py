"""`python -m benchmarks.resolved PYTHON REQUIREMENT ...` prints the seconds until the packages are there."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path


async def main(python: str, *requirements: str) -> None:
    began = time.perf_counter()
    from sandboxes.packages import install, resolve  # here, as who asks for packages pays for it

    deadline = asyncio.get_running_loop().time() + 90
    lock = await resolve(requirements, Path(python), say=lambda line: None, deadline=deadline)
    await install(lock, Path(python), say=lambda line: None, deadline=deadline)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
