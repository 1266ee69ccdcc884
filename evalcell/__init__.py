"""
The public names of evalcell: `from evalcell import evaluate`.

They are those of the package `runner`, imported on first use. A `runner` of somebody else is refused before it runs.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from runner import *  # noqa: F403


def _check_runner() -> None:
    """Raise ImportError where another module named `runner` comes before the package that belongs to this one."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "runner", "__init__.py")
    spec = find_spec("runner")
    path = spec.origin if spec and spec.origin else "a folder without __init__.py"
    if os.path.realpath(path) != own:
        raise ImportError(
            f"{path} hides the package `runner`, which evalcell consists of; rename your module", path=path
        )


_check_runner()

from runner import __all__ as __all__  # noqa: E402


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import runner

    value = globals()[name] = getattr(runner, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
