"""Limits under one name."""

from __future__ import annotations

PRESETS: dict[str, dict[str, int]] = {"openai-grader": {"timeout": 120, "memory": 2048, "disk": 1024}}
"""By name, the limits of another product: seconds, MB of memory, MB of disk. Scripts of 256 KB are the most anyway."""
