"""
What docs/performance.md claims about speed, measured: `make bench`, or `python -m benchmarks [figure ...]`.

Each figure stands beside a baseline of the same run, since machines are noisy: read the ratios.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks.measure import Figures
from sandboxes import SandboxUnavailableError

_FOLDER = Path(__file__).parent
_MODULES = [
    import_module(".".join(("benchmarks", *path.relative_to(_FOLDER).with_suffix("").parts)))
    for path in sorted(_FOLDER.glob("figures/**/*.py"))
]
FIGURES: dict[str, Callable[[Figures], None]] = {
    name.removeprefix("figure_"): figure
    for module in _MODULES
    for name, figure in vars(module).items()
    if name.startswith("figure_")
}


def main(names: list[str]) -> None:
    if unknown := set(names) - FIGURES.keys():
        sys.exit(f"there is no figure {', '.join(sorted(unknown))}; there are: {', '.join(FIGURES)}")
    # Where pip has installed evalcell there is bytecode of it; here the first start of each writes that.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    figures = Figures()
    for name in names or FIGURES:
        try:
            FIGURES[name](figures)
        except SandboxUnavailableError as e:
            figures.add(name, "not measured", beside=str(e))
    Console(width=160).print(figures.table)


if __name__ == "__main__":
    main(sys.argv[1:])
