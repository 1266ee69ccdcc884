"""Machines at E2B."""
