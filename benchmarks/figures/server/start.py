"""How soon a server shows its first page, and what it brings along."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figures, run, spread, timed
from tests.server.http.served import Served

ROUNDS = 5
ROOT = Path(__file__).parents[3]
_IMPORTS = "import fastapi, uvicorn, sqlalchemy, alembic, jinja2, httpx"


def first_page(state: Path) -> float:
    """Seconds from the command to the first page."""
    began = time.perf_counter()
    server = Served(state)
    try:
        with server.client() as client:
            assert client.get("/").status_code == 200
        return time.perf_counter() - began
    finally:
        server.end()


def figure_server_start(figures: Figures) -> None:
    """With a new store each time, and with one that is there."""
    with tempfile.TemporaryDirectory(prefix="evalcell-bench-") as made:
        first_page(Path(made) / "kept")
        new = [first_page(Path(made) / f"new-{n}") for n in range(ROUNDS)]
        kept = [first_page(Path(made) / "kept") for _ in range(ROUNDS)]
    imports = statistics.median(timed(lambda: run([sys.executable, "-c", _IMPORTS])) for _ in range(ROUNDS))
    beside = f"importing its libraries alone: {imports:.2f} s"
    worst = max(statistics.median(new), statistics.median(kept))
    figures.add("serve: command to first page, new store", f"{spread(new)} s", "≤ 2 s", beside, met=worst <= 2)
    figures.add("serve: command to first page, later", f"{spread(kept)} s", "≤ 2 s")


def figure_server_packages(figures: Figures) -> None:
    """What `evalcell[server]` installs from the wheel, before and after Python has compiled it."""
    with tempfile.TemporaryDirectory(prefix="evalcell-bench-") as made:
        uv, target = [sys.executable, "-m", "uv", "--quiet"], Path(made) / "target"
        subprocess.run([*uv, "build", "--wheel", "--out-dir", made, str(ROOT)], check=True)
        (wheel,) = Path(made).glob("*.whl")
        what = f"evalcell[server] @ {wheel.as_uri()}"
        subprocess.run([*uv, "pip", "install", "--python", sys.executable, "--target", str(target), what], check=True)
        packages, before = len(list(target.glob("*.dist-info"))), _megabytes(target)
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(target)], stdout=subprocess.DEVNULL, check=False)
        after = _megabytes(target)
    figures.add("evalcell[server]: packages", str(packages), "≤ 40", met=packages <= 40)
    figures.add(
        "evalcell[server]: installed",
        f"{before:.0f} MB",
        "≤ 120 MB",
        f"compiled by pip: {after:.0f} MB",
        met=before <= 120,
    )


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
