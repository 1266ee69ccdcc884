"""Dialects: scripts that were written for another tool run unchanged, each by one file here. docs/coming-from.md."""
