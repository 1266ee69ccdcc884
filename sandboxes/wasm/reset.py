"""How a call gets its fresh state. Apart from what restores it, which imports ctypes: the host does without that."""

from __future__ import annotations

from typing import Literal

Reset = Literal["auto", "restore", "instance"]
"""`auto`: `restore` where the platform can, else `instance`."""
