"""Machines at Modal."""
