"""Exit codes of the commands."""

from __future__ import annotations

DONE, GATE_FAILED, WRONG_USAGE, COULD_NOT_JUDGE, INTERRUPTED = 0, 1, 2, 3, 130
